#!/usr/bin/env python3
"""Pages that outlive the jobs of several hosts (netns.py): what nodes of them have committed is found on one host, and
the other way round; the blocks that one has freed are used by another; a node is killed.

usage: stored_hosts.py [-k PART_OF_A_NAME] [GROUP]...
"""
import re

from harness import expect, main, program, run
from netns import env_of, hosts_or_skip, launched, nothing_left
from stored import DONE, LONG, Acknowledged, Wrong, command, serving

WAYS = [{}, {'ROAM_TX_COMMIT': 'pages'}]


def far(nodes, letters, transfers, way):
    return launched(nodes, letters, program('stored'), nodes, transfers, way)


def both(env):
    """On hosts, then on one host, and so on; each job finds all of those before."""
    acknowledged = Acknowledged()
    with serving() as server:
        def job(words):
            acknowledged.hear(expect(words, out=DONE, env=env_of(server.env(**env)), timeout=60).out)
        job(far(3, 'ab', 20, '2'))
        job(command(2, 20, 1))
        job(far(2, 'ab', 20, 'run'))
        job(command(4, 10, 0, 'create'))
        job(far(4, 'abc', 10, 'run'))
        nothing_left()


def late():
    with serving() as server:
        expect(command(1, 2), out=DONE, env=server.env())
        for turn, letters in enumerate(('ab', 'a', 'abc'), 1):
            expect(far(3, letters, 5, 'late'), out=rf'late {turn}\n(.*\n)*{DONE}', env=env_of(server.env()), timeout=60)
        nothing_left()


def churned():
    with serving() as server:
        for turn in range(12):
            words = far(2, 'ab', 2, 'churn') if turn % 2 else [program('stored'), '3', '2', 'churn']
            expect(words, out=DONE, env=env_of(server.env(ROAM_HEAP='64M')), timeout=60)
        nothing_left()


def killed(start):
    acknowledged = Acknowledged()
    with serving() as server:
        for _ in range(3):
            result = run(['timeout', '-s', 'KILL', '.7', *far(3, 'ab', LONG, start)], env=env_of(server.env()), timeout=60)
            acknowledged.hear(result.out)
            nothing_left()
        result = expect(command(2, 8), out=DONE, env=server.env(), timeout=60)
        acknowledged.hear(result.out)
        if re.search('^found', result.out, re.MULTILINE) is None:
            raise Wrong(result.out)


def cases():
    for way in WAYS:
        yield (f'found on other hosts {way}', both, way)
    yield ('late', late)
    yield ('blocks', churned)
    for start in ('run', '3'):
        yield (f'killed {start}', killed, start)


if __name__ == '__main__':
    hosts_or_skip()
    main({'all': lambda: list(cases())})
