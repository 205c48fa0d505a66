#!/usr/bin/env python3
"""Threads that wait leave the processors to others: for a node that is stopped, beside programs that
compute, and where a thousand of them wait for one lock.

usage: contend.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import signal
import statistics
import time

from harness import Wrong, main, program, run

STOP = 0.6          # seconds
SETTLE = 0.1        # until those that wait sleep
IDLE_MAX = 0.05     # seconds of processors of a node that waits for so long; ticks of 0.01
CROWD_MAX = 8.0     # seconds; it takes less than one
LOAD_MAX = 2.5      # times what computing takes beside as much; it takes about 1.1
TICK = os.sysconf('SC_CLK_TCK')


def ran(pid):
    """Seconds of processors that the process has had."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def stopped(nodes, how, env):
    """Node 0 is stopped for a while; the others must not use the processors."""
    used = []

    def act(_first, pids):
        time.sleep(SETTLE)
        os.kill(pids[0], signal.SIGSTOP)
        try:
            time.sleep(SETTLE)
            before = [ran(pid) for pid in pids[1:]]
            time.sleep(STOP)
            used.extend(ran(pid) - since for pid, since in zip(pids[1:], before))
        finally:
            os.kill(pids[0], signal.SIGCONT)
    result = run([program('contend'), 'stopped', str(nodes), how], env=env, wanted=nodes, act=act)
    if result.status != 0 or 'counted right' not in result.out or result.err:
        raise Wrong(f'status {result.status}, stderr {result.err[-900:]!r}')
    if max(used) > IDLE_MAX:
        raise Wrong(f'of {STOP} s those that waited took {used}')


def measured(command, env=None):
    """The milliseconds that the run took, and the milliseconds of processors."""
    result = run([program('contend'), *(str(word) for word in command)], env=env, timeout=60)
    found = re.fullmatch(r'(\S+) ms, (\S+) ms of processors\n', result.out)
    if result.status != 0 or found is None or result.err:
        raise Wrong(f'status {result.status}, stderr {result.err[-900:]!r}')
    return float(found[1]), float(found[2])


def crowd(nodes, threads, rounds, env):
    took, _ = measured(['locks', 0, nodes, threads, rounds, 1, 1], env)
    if took > CROWD_MAX * 1e3:
        raise Wrong(f'{threads} threads of {nodes} nodes took the lock {rounds} times in {took} ms')


def judged():
    """Threads that sleep before their turn for a lock are also asked whether they still wait."""
    result = run([program('contend'), 'stuck', '2', '4'])
    if result.status != 1 or 'no thread of the job can go on' not in result.err:
        raise Wrong(f'status {result.status}, stderr {result.err[-900:]!r}')


def load(nodes, rounds):
    """Beside as many programs that compute, locks cost little more time than computing does."""
    beside, times = len(os.sched_getaffinity(0)), []
    for _ in range(3):
        took, ran_ms = measured(['locks', beside, nodes, 1, rounds, 20, 20])
        times.append(took / measured(['alone', beside, nodes, int(ran_ms / nodes)])[0])
    if statistics.median(times) > LOAD_MAX:
        raise Wrong(f'took {times} times what computing takes')


def groups():
    def cases():
        for nodes, how, env in ((4, 'lock', {}), (4, 'lock', {'ROAM_TRANSPORT': 'udp'}),
                                (4, 'barrier', {}), (4, 'rounds', {}), (2, 'rounds', {})):
            yield (f'stopped {nodes} {how} {env}', stopped, nodes, how, env)
        yield ('crowd over udp', crowd, 2, 1024, 2, {'ROAM_TRANSPORT': 'udp'})
        yield ('crowd', crowd, 1, 2000, 5, {})
        yield ('judged', judged)
        for nodes, rounds in ((2, 2000), (4, 1000)):
            yield (f'load {nodes}', load, nodes, rounds)
    return {'contend': cases}


if __name__ == '__main__':
    main(groups())
