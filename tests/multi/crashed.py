#!/usr/bin/env python3
"""SIGKILL of a node, of all nodes or of the page server at random moments, while nodes commit to it, snapshots are
written and logs trimmed: what the next job finds is closed under what was read and under the order of each page's
versions, has all that was acknowledged as durable, and nothing is torn (crashed.c checks that, and is killed too).

usage: crashed.py [-k PART_OF_A_NAME]     CRASHED_SEEDS=FIRST..LAST: of other seeds
"""
import os
import random
import re
import signal
import subprocess
import tempfile
import time

from harness import Wrong, clean_env, end_session, expect, main, program, session_pids, those
from pages import Server

KILLS = 2
LONG = 1000000  # transactions: until it is killed
LIMIT = 20.0    # seconds for what takes one or two
WAYS = [{}, {'ROAM_TX_COMMIT': 'pages'}, {'ROAM_TX_READS': 'exact'}, {'ROAM_TX_VALIDATE': 'backward'},
        {'ROAM_STORE_SYNC': 'each'}, {'ROAM_TX_COMMIT': 'pages', 'ROAM_TRANSPORT': 'udp'}]


class Acknowledged:
    """What the nodes of all jobs have said so far."""

    def __init__(self):
        self.counts = [0] * 4

    def hear(self, out):
        for line in out.splitlines(keepends=True):
            words = line.split()
            if not line.endswith('\n'):
                continue
            if words[0] == 'found' and any(int(word) < count for word, count in zip(words[1:], self.counts)):
                raise Wrong(f'found {words[1:]}, acknowledged {self.counts}')
            if words[0] == 'durable':
                node = int(words[1])
                self.counts[node] = max(self.counts[node], int(words[2]))


def environment(server, way):
    return {'ROAM_PROTOCOL': those('transactions')[0], 'ROAM_STORE': server.address, 'ROAM_STORE_KEY': server.key,
            'ROAM_HEAP': '16M', **way}


def strike(server, job, dice):
    victim = dice.choice(['job', 'node', 'server'])
    pids = sorted(session_pids(job.pid))
    if victim == 'server':
        server.end(signal.SIGKILL)
        server.start()
        time.sleep(dice.uniform(0, .05))
    elif victim == 'node' and pids:
        os.kill(dice.choice(pids), signal.SIGKILL)
        time.sleep(dice.uniform(0, .01))
    end_session(job.pid)


def killed(server, seed, dice, way):
    """A job that is killed, or loses its server; what it said."""
    words = [program('crashed'), str(dice.choice([1, 2, 3, 4])), str(LONG), str(dice.randrange(1 << 30))]
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        with subprocess.Popen(words, env=clean_env(environment(server, way)), stdout=out, stderr=err,
                              start_new_session=True) as job:
            time.sleep(dice.uniform(.04, .14))
            strike(server, job, dice)
            job.wait(LIMIT)
        out.seek(0)
        err.seek(0)
        said = out.read(), err.read()
    if re.search('(?m)^line ', said[1]):
        raise Wrong(f'seed {seed}: {said[1]!r}')
    return said[0]


def last_job(server, seed, dice, way):
    """One that ends in order; what it said."""
    words = [program('crashed'), str(dice.choice([1, 2, 4])), '5', str(seed)]
    try:
        return expect(words, out=r'done\n\Z', env=environment(server, way), timeout=60).out
    except Wrong as wrong:
        raise Wrong(f'{wrong}; the server before it was ended: {server.process.poll()}, {server.end()}') from wrong


def crash(seed):
    dice = random.Random(seed)
    way = WAYS[seed % len(WAYS)]
    acknowledged = Acknowledged()
    slow = {'LD_PRELOAD': program('bad_disk'), 'BAD_DISK': 'slow'} if seed % 2 == 1 else None
    with Server('--log', '0.05', '--snapshot', '0.15', *(['--no-uring'] if seed % 5 == 4 else []), env=slow) as server:
        for _ in range(KILLS):
            acknowledged.hear(killed(server, seed, dice, way))
        acknowledged.hear(last_job(server, seed, dice, way))
        if seed % 10 == 0:
            server.end(signal.SIGKILL)
            server.check(out=r'heap of 16777216 bytes')
            server.start()


def seeds():
    first, last = os.environ.get('CRASHED_SEEDS', '1..50').split('..')
    return range(int(first), int(last) + 1)


GROUPS = {'crash': lambda: [(f'seed {seed} again: CRASHED_SEEDS={seed}..{seed} crashed.py', crash, seed)
                            for seed in seeds()]}

if __name__ == '__main__':
    main(GROUPS)
