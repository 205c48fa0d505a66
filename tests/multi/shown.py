#!/usr/bin/env python3
"""Elements whose last tuple a program in the kernel shows (ROAM_PS_KERNEL), between hosts: both ways to
observe at once, strangers' frames, nothing left of killed nodes, and lines where it is not possible.

usage: shown.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import signal
import socket
import struct
import sys
import threading

from bpf import links, links_of
from harness import Wrong, expect, main, program, run
from netns import env_of, hosts_or_skip, launched, nothing_left, reached_by
from packet import counters, in_namespace, make_cable

SHOWN = {'ROAM_SEAL': 'off', 'ROAM_PS_KERNEL': 'eth0'}


def both(rounds, looks):
    """The kernel has answered most of what it could."""
    count = counters(launched(3, 'abc', program('shown'), rounds, looks), SHOWN, 'shown ok')['ps_looks']
    if count[0] != 0 or min(count[1:]) < looks // 2:
        raise Wrong(f'ps_looks {count}')


def strangers():
    """Datagrams of others at every port of a host, long, short and nearly right ones, do no harm."""
    over = threading.Event()

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK
            look = struct.pack('<IIQQIIQ', 0x6c6f6f6b, 0, 1, 1, 0, 0, 0)
            while not over.is_set():
                for port in range(32768, 61000, 7):
                    for data in (look, look + bytes(240), look[:39], b''):
                        sender.sendto(data, ('10.77.0.1', port))
                    if over.is_set():
                        break

    sender = threading.Thread(target=in_namespace, args=('c', send))
    sender.start()
    try:
        both(20, 500)
    finally:
        over.set()
        sender.join()


def killed():
    """Nothing stays attached of nodes that are killed."""
    seen = set()

    def kill(_first, pids):
        seen.update(links_of(pids))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    expect(launched(2, 'ab', program('deaths'), 'run', 2, 1, 'never', 'barrier'), 137, 'was killed by signal 9',
           wanted=2, act=kill, env=env_of(SHOWN))
    nothing_left()
    if len(seen) != 2 or seen & links():
        raise Wrong(f'attached {seen}, left {seen & links()}')


def unheard():
    """Where observers cannot reach the interface they ask the node."""
    count = counters(launched(3, 'abc', program('shown'), 3, 50), {**SHOWN, 'ROAM_PS_KERNEL': 'lo'}, 'shown ok')
    if any(count['ps_looks']):
        raise Wrong(f'{count["ps_looks"]}')


def without(env, why):
    """A line for each node says why, and the job goes on."""
    result = run(launched(3, 'ab', program('shown'), 3, 50), env=env_of({**SHOWN, **env}))
    lines = sorted(result.err.splitlines())
    wanted = rf'roam: warning: node \d: ROAM_PS_KERNEL=\S+ has no effect: {why}$'
    if result.status != 0 or 'shown ok' not in result.out or len(lines) != 3 or \
            not all(re.match(wanted, line) for line in lines):
        raise Wrong(f'status {result.status}, {result.err!r}')


def unprivileged():
    drop = '-bpf,-sys_admin'
    with reached_by(f'where=$1; shift; set -- $where setpriv --bounding-set={drop} --inh-caps={drop} "$@"') as (env, _):
        without(env, r'Operation not permitted \(it needs CAP_BPF and CAP_NET_ADMIN\)')


GROUPS = {
    'quick': lambda: [('both ways, short', both, 10, 300)],
    'more': lambda: [
        ('both ways', both, 60, 3000),
        ('strangers', strangers),
        ('killed', killed),
        ('sealed', without, {'ROAM_SEAL': 'auto'}, 'it is for ROAM_SEAL=off, as its datagrams have no seal'),
        ('no such interface', without, {'ROAM_PS_KERNEL': 'none0'}, 'No such device'),
        ('no address', without, {'ROAM_PS_KERNEL': 'dp0'}, 'Cannot assign requested address'),
        ('unheard', unheard),
        ('no CAP_BPF', unprivileged),
    ],
}


def may_or_skip():
    """Skipped where the kernel refuses such a program, or is too old for it."""
    result = run(launched(3, 'ab', program('shown'), 1, 1), env=env_of(SHOWN))
    why = re.search(r'has no effect: (.*)', result.err)
    if why is not None:
        print(f'skip: shown: {why.group(1)}')
        sys.exit(77)


if __name__ == '__main__':
    hosts_or_skip()
    make_cable()
    may_or_skip()
    main(GROUPS)
