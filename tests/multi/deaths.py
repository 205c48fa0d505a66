#!/usr/bin/env python3
"""Nodes and launchers that die, leave or are interrupted.

usage: deaths.py [-k PART_OF_A_NAME] [GROUP]...
"""
import contextlib
import os
import re
import signal
import sys
import tempfile

from harness import Wrong, expect, expect_end, few, launched, main, program, rest, run, started, thin
from shapes import ENDS, ENGINES, SIGNALLED, WAITS


def death(start, nodes, who, how, others, env=None):
    """A node ends badly; the others end with it, and one line says which node and what they waited
    for."""
    status, said = ENDS[how]
    line = rf'^roam: node {who} \(pid \d+\) {said}'
    if WAITS[others]:
        line += rf'.*node \d waited {WAITS[others]}'.replace('waited waited', 'waited')
    if start == 'fork' and who == 0:  # node 1's own watcher is gone: its status is the job's
        raise ValueError('see creator_dies')
    expect_end(started(start, 'deaths', start, nodes, who, how, others), nodes, status, line,
               env={'BEYOND': '0x7ff000000000', **(env or {})})


def leaves(start, nodes, who, how, others, shape):
    """A node may end in order, but not while a barrier counts it."""
    expect_end(started(start, 'deaths', start, nodes, who, how, others), nodes, 1,
               rf'^roam: node \d: threads wait {WAITS[others]}[0-9a-f]* for node {who}, '
               'which has ended$', env={'ROAM_BARRIER': shape})


def leaves_lock(start, who, others):
    """A node may end in order, but not holding a lock that others ask for, before or after."""
    expect_end(started(start, 'deaths', start, 3, who, 'exit0', others), 3, 1,
               rf'^roam: node {who}: ended holding lock 0x[0-9a-f]+, which node \d waits for$')


def ends_early(start, nodes, who, how, env=None):
    """A node may end in order at any time if no other node needs it: nobody notices that."""
    words = [program('deaths'), 'run' if start == 'run' else 'fork', str(nodes), str(who), how, 'slow']
    expect(words if start == 'fork' else launched(nodes, *words), out='(?s)ready.*ready', env=env,
           timeout=20)


def ends_noted():
    """The statics of a node that called exit are checked, too."""
    expect([program('deaths'), 'fork', '2', '1', 'exit0', 'slow'], err='^roam: statics: none found',
           env={'ROAM_CHECK': 'statics'}, timeout=20)


def ends_inside(start):
    """A thread's exit would end the threads that wait for it: one line says so, and nothing
    hangs."""
    words = [program('deaths'), 'fork', '4', '1', 'inside0', 'slow']
    expect(words if start == 'fork' else launched(2, *words), 1,
           '^roam: node 0: exit by a thread that the program has made, while threads',
           env={'ROAM_THREADS': '2'}, timeout=20)


def early_cases():
    for start in ('fork', 'run', 'launched'):
        for how in ('exit0', 'finish', 'beside0', 'inside0', 'flush0', 'pthread'):
            if (start, how) != ('run', 'pthread'):
                yield (f'{how} of node 1 {start}, early', ends_early, start, 3, 1, how)
        yield (f'exit0 of node 0 {start}, early', ends_early, start, 3, 0, 'exit0')
        yield (f'exit0 {start}, early, udp', ends_early, start, 2, 1, 'exit0',
               {'ROAM_TRANSPORT': 'udp'})
    yield ('exit0, early, statics', ends_noted)
    for start in ('fork', 'launched'):
        yield (f'inside0 {start}, of two threads', ends_inside, start)


def lasts(command, nodes, threads, env=None):
    """The first thread's pthread_exit ends no process before its last thread has ended."""
    told = expect(command, env=env, timeout=20).out.splitlines()
    wanted = {f'node {node} ends' for node in range(nodes)}
    if set(told) - {line for line in told if line.endswith(': a thread done')} != wanted or \
            len(told) != nodes + threads:
        raise Wrong(f'{told!r}')


def stuck_last(start, nodes):
    """The first thread has ended, and the others hang: that ends the job, as ever."""
    expect(started(start, 'last', start, nodes, 'stuck') if start == 'fork' else
           launched(nodes, program('last'), 'run', 'all', 'stuck'), 1,
           '^roam: node 0: no thread of the job can go on; node 0 waited for flag 0x', timeout=20)


def waits_for_last(who):
    """A node whose last thread has ended waits for the job's end, which the other one keeps from coming."""
    expect(launched(2, program('last'), 'run', str(who), 'waits'), 1,
           rf'^roam: node 0: no thread of the job can go on;.* node {1 - who} waited for flag 0x', timeout=20)


def lasts_serving():
    with tempfile.TemporaryDirectory() as where:
        lasts(launched(2, program('last'), 'run', 'all', 'serves'), 2, 0,
              {'ROAM_PS_KEY': os.path.join(where, 'key')})


def last_cases():
    yield from thin(5, ordered_last_cases())
    for who in (0, 1):
        yield (f'waits, last of {who}', waits_for_last, who)
    yield ('serves, last', lasts_serving)
    yield ('stuck, last, run', stuck_last, 'run', 2)
    yield ('stuck, last, fork', stuck_last, 'fork', 0)


def ordered_last_cases():
    for who, count in (('all', 2), ('0', 1), ('1', 1)):
        for how, threads in (('only', 0), ('threads', 2 * count), ('joins', count), ('finished', 0)):
            yield (f'{how}, last of {who}, run', lasts,
                   launched(2, program('last'), 'run', who, how), 2, threads)
    for how in ('aside', 'late'):
        yield (f'{how}, last, run', lasts, launched(2, program('last'), 'run', 'all', how), 2, 2)
    for mates in (1, 2):
        for how, threads in (('only', 0), ('threads', 2), ('joins', 1), ('finished', 0), ('aside', 1)):
            yield (f'{how}, last, fork, threads {mates}', lasts, [program('last'), 'fork', '0', how],
                   1, threads, {'ROAM_THREADS': str(mates)})
    for transport in ('udp', 'shm'):
        yield (f'threads, last, {transport}', lasts,
               launched(2, program('last'), 'run', 'all', 'threads'), 2, 4,
               {'ROAM_TRANSPORT': transport})


def creator_dies(how, status, others):
    """The process that started the creator sees it end; node 1 reports the end; no orphan may be
    left."""
    line = r'^roam: node 0 \(pid \d+\) ' + ENDS[how][1]
    if WAITS[others]:
        line += rf'.*node 1 waited {WAITS[others]}'.replace('waited waited', 'waited')
    expect_end([program('deaths'), 'fork', '3', '0', how, others], 3, status, line)


def interrupted(start, to_all, number):
    """Ctrl-C: the signal reaches the session's whole foreground, or the first process alone."""
    def act(first, pids):
        for pid in {first, *pids} if to_all else {first}:
            with contextlib.suppress(ProcessLookupError):  # the first process ends the others
                os.kill(pid, number)
    command = started(start, 'deaths', start, 3, 1, 'never', 'barrier')
    result = run(command, wanted=3, act=act)
    if result.after is None or result.after > 3:
        raise Wrong(f'ended after {result.after}')
    if result.status not in (-number, SIGNALLED + number):
        raise Wrong(f'status {result.status}, stderr {result.err!r}')
    if len(result.err.splitlines()) > 1:
        raise Wrong(f'more than one line: {result.err!r}')


def launcher_killed():
    expect_end(started('run', 'deaths', 'run', 3, 1, 'never', 'barrier'), 3, -9,
               '', act=lambda first, pids: os.kill(first, signal.SIGKILL))


def killed_from_outside(start, others):
    expect_end(started(start, 'deaths', start, 3, 2, 'never', others), 3, SIGNALLED + 9,
               r'^roam: node 1 \(pid \d+\) was killed by signal 9',
               act=lambda first, pids: os.kill(node_pid(pids), signal.SIGKILL))


def all_at_once(start, nodes, number, env=None):
    """All nodes die in one moment: the launcher names one that it saw.  Without a launcher, node 0 is
    the program, and one that died with it may be the last that could say so."""
    def act(_first, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    result = run(started(start, 'deaths', start, nodes, 1, 'never', 'compute'), wanted=nodes, act=act,
                 env=env)
    line = rf'^roam: node \d \(pid \d+\) was killed by signal {number} '
    told = len(result.err.splitlines()) == 1 and re.search(line, result.err) is not None
    alone = start == 'fork' and result.status == -number and result.err == ''
    if result.after is None or result.after > 3 or \
            result.status not in (SIGNALLED + number, *([-number] if start == 'fork' else [])) or \
            not told and not alone:
        raise Wrong(f'status {result.status} after {result.after}: {result.err!r}')


def node_pid(pids):
    """The number of node 1, which is neither the smallest nor the largest of three."""
    return sorted(pids)[1]


def leave_cases(start):
    """Of eight nodes along a tree, nodes 5 to 7 are below node 1, and only its arrival reaches node
    0."""
    for shape in ('flat', 'tree'):
        for nodes, who in ((2, 0), (2, 1), (5, 0), (5, 4), (8, 0), (8, 1), (8, 4), (8, 6)):
            for how, others in (('exit0', 'partial'), ('first0', 'barrier')):
                yield (f'{how} of node {who} of {nodes} {start} {shape} others {others}', leaves,
                       start, nodes, who, how, others, shape)
        yield (f'exit0 of node 6 of 8 {start} {shape} others reduce', leaves, start, 8, 6, 'exit0',
               'reduce', shape)


def death_cases():
    for start in ('fork', 'run'):
        for how, others in (('kill', 'barrier'), ('kill', 'lock'), ('kill', 'compute'),
                            ('exit3', 'barrier'), ('_exit3', 'flag'), ('abort', 'partial'),
                            ('_exit0', 'barrier'), ('null', 'barrier'), ('wild', 'lock'),
                            ('beyond', 'barrier')):
            yield (f'{how} {start} others {others}', death, start, 3, 1, how, others)
        yield (f'killed from outside, {start}', killed_from_outside, start, 'compute')
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
            yield (f'all by signal {int(number)}, {start}', all_at_once, start, 4, int(number))
        yield (f'all by signal 9, {start}, udp', all_at_once, start, 3, 9, {'ROAM_TRANSPORT': 'udp'})
        for to_all in (False, True):
            yield (f'Ctrl-C {start} {"to all" if to_all else "to one"}', interrupted, start, to_all,
                   signal.SIGINT)
        yield from thin(5, leave_cases(start))
        for who in (0, 1):
            for others in ('lock', 'late'):
                yield (f'exit(0) of node {who} {start}, {others}', leaves_lock, start, who, others)
        yield (f'SIGTERM {start}', interrupted, start, False, signal.SIGTERM)
    yield from thin(4, early_cases())
    yield ('creator killed', creator_dies, 'kill', -9, 'barrier')
    yield ('launcher killed', launcher_killed)


def more_death_cases():
    for others in WAITS:
        for start in ('fork', 'run'):
            for how in ('kill', 'exit3'):
                yield (f'{how} {start} others {others}', death, start, 4, 2, how, others)
        yield (f'creator killed, others {others}', creator_dies, 'kill', -9, others)
        yield (f'creator aborts, others {others}', creator_dies, 'abort', -6, others)
        yield (f'creator exit(3), others {others}', creator_dies, 'exit3', 3, others)
        yield (f'node 0 killed under run, others {others}', death, 'run', 3, 0, 'kill', others)
    for engine in ENGINES:
        for how in ('null', 'wild', 'beyond', 'leap'):
            for start in ('fork', 'run'):
                yield (f'{how} {start} {engine}', death, start, 2, 1, how, 'barrier',
                       {'ROAM_FAULT': engine})


GROUPS = {
    'deaths': lambda: few(death_cases()),
    'last': lambda: few(last_cases()),
    'deaths_more': lambda: [*rest(death_cases()), *rest(last_cases()), *more_death_cases()],
}

if __name__ == '__main__':
    main(GROUPS, at_once=4 if sys.argv[1:2] == ['last'] else 2)  # cases wait for verdicts
