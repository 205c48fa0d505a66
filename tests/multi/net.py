#!/usr/bin/env python3
"""Programs on real processes over a network's transport.

usage: net.py [-k PART_OF_A_NAME] [GROUP]...
"""
import glob
import json
import os
import random
import re
import signal
import socket
import tempfile
import time

from harness import Wrong, expect, main, program, right, started, udp_ways

UDP = {'ROAM_TRANSPORT': 'udp'}
SEALS = ['auth', 'encrypt']


def way_cases():
    """What nodes of one host do over a network's transport, they do over udp, too."""
    ways = {'udp': UDP,
            'udp, 5 % lost': {**UDP, 'ROAM_FAULTY': 'drop=5%,reorder=2%'},
            'shm, 5 % lost': {'ROAM_FAULTY': 'drop=5%,reorder=2%'},
            'udp, cut for a time': {**UDP,
                                    'ROAM_FAULTY': 'cut=0-1@20ms+300ms,cut=1>0@600ms+100ms'},
            'udp, auth, 5 % lost': {**UDP, 'ROAM_SEAL': 'auth',
                                    'ROAM_FAULTY': 'drop=5%,repeat=5%,corrupt=2%'},
            'udp, encrypt': {**UDP, 'ROAM_SEAL': 'encrypt'}}
    for text, env in ways.items():
        if 'ROAM_SEAL' not in env:  # these cases are of the program for strangers
            yield (f'idle {text}', right, [program('idle'), '3'], 'node 2: ', env)
            yield (f'rounds 4 {text}', right, [program('rounds'), 'loop', '4', '5'],
                   '5 rounds right', env)
        yield (f'rounds 3 {text}', right, [program('rounds'), 'all', '3', '5'], '5 rounds right',
               env)
        yield (f'threads {text}', right, started('run', 'threads', 'run', 3, 2, 10, 'settled'),
               'counted right', env)


def heard_cases():
    for way in udp_ways():
        yield (f'heard while computing, {way}', right, [program('heard')], 'heard',
               {**UDP, 'ROAM_UDP': way, 'ROAM_PREFETCH': '0'})


def seal_cases():
    for seal in SEALS:
        env = {**UDP, 'ROAM_SEAL': seal}
        for kernel, *words in (('fft', '-p2', '-m12', '-t'), ('lu', '-p3', '-n128', '-t'),
                               ('ocean', '-p2', '-n34', '-c'), ('radix', '-p3', '-n65536', '-t')):
            yield (f'{kernel} {seal}', right, [program(kernel), *words], 'verified ok', env)
        for how in ('fork', 'system', 'efault', 'blocked', 'evict'):
            yield (f'stranger {how} {seal}', right, [program('stranger'), how, '2'],
                   'ended in order', {**env, 'ROAM_CACHE_PAGES': '300'})
        yield (f'strangers at the ports, {seal}', strangers, env)
    yield ('strangers at the ports, unsealed', strangers, UDP)


def ports(pid):
    """The ports of a process's UDP sockets."""
    inodes = set()
    for link in glob.glob(f'/proc/{pid}/fd/*'):
        try:
            inodes.update(re.findall(r'^socket:\[(\d+)\]$', os.readlink(link)))
        except OSError:
            pass
    with open('/proc/net/udp', encoding='utf-8') as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return [int(row[1].split(':')[1], 16) for row in rows if row[9] in inodes]


SENT = 100


def strangers(env):
    """Datagrams of another program at the nodes' ports are only counted; nobody answers them."""
    rng = random.Random(1)
    with tempfile.TemporaryDirectory() as directory, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(('127.0.0.1', 0))
        stranger.setblocking(False)
        path = os.path.join(directory, 'stats.json')

        def act(_first, pids):
            for pid in pids:
                found = ports(pid)
                if len(found) != 1:
                    raise Wrong(f'process {pid} has the ports {found}')
                for _ in range(SENT):
                    size = rng.choice([0, 1, 7, 8, 64, 72, 1400])
                    stranger.sendto(rng.randbytes(size), ('127.0.0.1', found[0]))

        expect([program('idle'), '3'], out='node 2: ', env={**env, 'ROAM_STATS': path}, wanted=3,
               act=act)
        with open(path, encoding='utf-8') as file:
            counted = json.load(file)['counters']['datagrams_strange']
        if counted != [SENT] * 3:
            raise Wrong(f'counted {counted} strange datagrams')
        try:
            raise Wrong(f'answered: {stranger.recv(4096)!r}')
        except BlockingIOError:
            pass


# ------------------------------------------------------------------------------------- silence

DEADLINE = 2
LATE = 1.5  # time until the next sign of life is looked for, on a busy machine


def stopped_for_good(start, who):
    """A node that stays stopped ends the job, in time, and nothing of it is left."""
    line = rf'^roam: node \d: node {who} has been silent for {DEADLINE}\.\d s, longer than ' \
        rf'ROAM_DEADLINE; .*node {1 - who} waited at roam_barrier_all'  # perhaps it did, too
    status = -signal.SIGKILL if start == 'fork' and who == 0 else 1
    result = expect(started(start, 'deaths', start, 3, who, 'never', 'barrier'), status, line,
                    env={**UDP, 'ROAM_DEADLINE': str(DEADLINE)}, wanted=3,
                    act=lambda _first, pids: os.kill(pids[who], signal.SIGSTOP))
    if not DEADLINE - 0.7 <= result.after <= DEADLINE + LATE:
        raise Wrong(f'ended after {result.after:.1f} s')


def stopped_for(seconds, some, env):
    """Nodes that go on before the deadline, or all of which were stopped, are not dead."""
    def act(_first, pids):
        pids = pids[:some]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    expect([program('idle'), '3'], out='node 2: ', wanted=3, act=act,
           env={**UDP, 'ROAM_DEADLINE': str(DEADLINE), **env})


def silence_cases():
    for start in ('fork', 'run'):
        for who in (0, 1):
            yield (f'node {who} stopped for good, {start}', stopped_for_good, start, who)
    for some in (1, 2):
        yield (f'{some} stopped for a second', stopped_for, 1, some, {})
    yield ('1 stopped for a second, encrypted', stopped_for, 1, 1, {'ROAM_SEAL': 'encrypt'})
    yield ('all stopped for long', stopped_for, 2 * DEADLINE, 3, {})
    yield ('one stopped for long without a deadline', stopped_for, 2 * DEADLINE, 1,
           {'ROAM_DEADLINE': '0'})
    yield ('idle', right, [program('idle'), '3'], 'node 2: ', {**UDP, 'ROAM_DEADLINE': '5'})


GROUPS = {
    'silence': lambda: list(silence_cases()),
    'ways': lambda: [*heard_cases(), *way_cases()],
    'seal': lambda: list(seal_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
