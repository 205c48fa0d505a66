#!/usr/bin/env python3
"""Endpoints in jobs: over every transport, created and launched, sealed and with losses; on several
hosts, over udp and raw Ethernet frames.

usage: dp.py [-k PART_OF_A_NAME] [GROUP]...
"""
import netns
import packet
from harness import expect, main, program, run, Wrong

CASES = ['lengths', 'heap', 'bounds', 'full', 'closed', 'file', 'timeout', 'threads', 'stopped', 'ends',
         'creates', 'exits']
LOSSY = {'ROAM_TRANSPORT': 'udp', 'ROAM_FAULTY': 'drop=5%,reorder=2%,repeat=2%,seed=3'}
SEALED = {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'encrypt'}


def well(how, case, env):
    start = [] if how == 'create' else [program('roam'), 'run', '-n', '3']
    expect([*start, program('dp'), how, case], 0, '', '^right$', env=env)


def leaves(turns, env):
    """Signals come at all moments: wherever a handler calls exit, the job ends in order."""
    for _ in range(turns):
        well('run', 'leaves', env)


def hangs():
    """A job in which everybody waits for messages says so."""
    result = run([program('roam'), 'run', '-n', '3', program('dp'), 'run', 'hang'], env={'ROAM_HANG': '1'})
    if result.status != 1 or result.err.count('waits to receive at endpoint 7\n') != 3:
        raise Wrong(f'status {result.status}: {result.err!r}')


def quick_cases():
    for case in CASES:
        for how in ('create', 'run'):
            yield (f'{case}, {how}', well, how, case, {'ROAM_TRANSPORT': 'shm'})
        yield (f'{case}, udp', well, 'run', case, {'ROAM_TRANSPORT': 'udp'})
    yield ('all wait', hangs)
    for command in ([program('dp-farm')], [program('dp-farm'), '4'],
                    [program('roam'), 'run', '-n', '2', program('dp-farm'), '-']):
        yield (f'farm, {len(command)}', expect, command, 0, '', '^17984 primes below 200000$')


def more_cases():
    for case in CASES:
        yield (f'{case}, sealed', well, 'create', case, SEALED)
        yield (f'{case}, losses', well, 'run', case, LOSSY)
        yield (f'{case}, messages', well, 'run', case, {'ROAM_ONESIDED': '0', 'ROAM_CHAOS': '5'})
    for name in ('udp', 'shm'):
        yield (f'leaves, {name}', leaves, 100, {'ROAM_TRANSPORT': name})


def host_cases():
    """Two nodes on one host, one on another: packets between hosts, rings within one."""
    netns.hosts_or_skip()
    packet.make_cable()
    for case in CASES:
        command = netns.launched(3, 'aab', program('dp'), 'run', case)
        yield (f'{case}, hosts', netns.well, command, '^right$', {})
        yield (f'{case}, hosts, packet', netns.well, command, '^right$', packet.PACKET)
        yield (f'{case}, hosts, cable', netns.well, command, '^right$', packet.CABLE)


GROUPS = {'dp': lambda: list(quick_cases()), 'dp_more': lambda: list(more_cases()),
          'dp_hosts': lambda: list(host_cases())}


if __name__ == '__main__':
    main(GROUPS)
