#!/usr/bin/env python3
"""Checkpoints of jobs across hosts (netns.py): node 0's host has the directory; what was saved on
two hosts goes on there, on three, and on one.

usage: saved_hosts.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import tempfile

from harness import Wrong, main, program, run
from netns import PROTOCOLS, env_of, hosts_or_skip, launched, nothing_left, well
from saved import STEPS, environment, right_sum


def spmd(nodes, letters, *words):
    return launched(nodes, letters, program('saved'), 'spmd', STEPS, *words)


def goes_on(protocol, kill_at, nodes, letters):
    env = {'ROAM_PROTOCOL': protocol}
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        result = run(spmd(3, 'ab', kill_at), env=env_of(environment(directory, 'save', env)),
                     timeout=60)
        nothing_left()
        if result.status == 0 or 'killed by signal 9' not in result.err:
            raise Wrong(f'status {result.status}: {result.err[-300:]}')
        well(spmd(nodes, letters), rf'^resumed at {kill_at}\n{right_sum()}$',
             environment(directory, 'resume', env))


def far_reason():
    """What a node of another host finds is said, too; the node that has blocks of its own is named."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        result = run(launched(2, 'ab', program('saved'), 'own', directory), env=env_of({}))
        nothing_left()
        if re.search('^roam: roam_save .*: node 1 has allocated 3 blocks since CREATE', result.err,
                     re.MULTILINE) is None or 'save 7' not in result.out:
            raise Wrong(f'status {result.status}: {result.out!r} {result.err!r}')
        if os.path.lexists(f'{directory}/current'):
            raise Wrong('something was saved')


def cases():
    for at, protocol in enumerate(PROTOCOLS):
        nodes, letters = ((3, 'ab'), (4, 'abc'), (2, 'a'))[at % 3]
        yield (f'{protocol} on {nodes}', goes_on, protocol, at % STEPS, nodes, letters)
    yield ('blocks of a node', far_reason)


if __name__ == '__main__':
    hosts_or_skip()
    main({'all': lambda: list(cases())})
