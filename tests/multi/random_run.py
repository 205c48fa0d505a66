#!/usr/bin/env python3
"""Random race-free programs on real processes: protocols x engines x ways to reach a peer's memory.

usage: random_run.py [--seeds FIRST..LAST] [--seconds MOST] [--protocol NAME] [--engine NAME]
                     [--way NAME] [--step COMBINATIONS] [--loss]

A way is shm, by loads and stores or by messages as the seed draws (or one of them: onesided,
messages), another transport of the build, or that one with ROAM_FAULTY: NAME+faulty.  Transports that
must be named (`roam info transports`) are tried only if --way names them, too.

With --step 5 only each fifth combination is tried.

With --loss every program runs twice over udp, without and with loss, repeats and reordering: all
must be right, and the second runs, taken together, may take LOSS_MAX times as long as the first.

Every seed runs under each of the combinations, seed by seed; it draws nodes, how they start, and
roam's options, and whether parts of the heap are regions of other protocols; odd seeds have
ROAM_CHAOS, and in three of ten jobs nodes are teams of threads (ROAM_THREADS).  A failure prints the command that repeats it.  The soft
engine is not among them: it sees only loads and stores that ask it, which the world's and the
threads' random programs do.
"""
import argparse
import itertools
import os
import random
import re
import sys
import time

import harness

TIMEOUT = 25    # the program ends itself at SECONDS, and says which thread waits for what
SECONDS = 20
LOSS = 'drop=5%,repeat=1%,reorder=2%,seed='
LOSS_MAX = 3.0  # times as long


UDP_WAYS = harness.udp_ways()


def ways():
    """How nodes reach each other's memory."""
    return ['shm'] + [name + end for name in harness.transports() if name != 'shm'
                      for end in ('', '+faulty')]


def way_env(way, seed, rng):
    """The options of a way; over a network, the faults that a seed draws."""
    if way == 'shm':
        way = rng.choice(['onesided', 'messages'])
    if way in ('onesided', 'messages'):
        return {'ROAM_ONESIDED': '1' if way == 'onesided' else '0'}
    transport, _, faulty = way.partition('+')
    env = {'ROAM_TRANSPORT': transport, 'ROAM_MTU': rng.choice(['0', '1500', '600']),
           'ROAM_UDP': rng.choice(['plain', 'plain', UDP_WAYS[-1]]),
           'ROAM_SEAL': rng.choice(['off', 'off', 'auth', 'encrypt'])}
    if faulty:
        env['ROAM_FAULTY'] = f'drop=5%,repeat=2%,reorder=5%,corrupt=1%,seed={seed}'
    return env


def drawn(seed, salt, way, protocols):
    """What a seed draws besides the program: the same under every combination except for `salt`."""
    rng = random.Random(f'{seed} {salt}')
    env = {'ROAM_CACHE_PAGES': rng.choice(['0', '0', '1', '4']),
           'ROAM_PREFETCH': rng.choice(['64', '64', '0', '2']),
           'ROAM_HOT': rng.choice(['1', '1', '0']),
           'ROAM_BARRIER': rng.choice(['flat', 'tree']),
           'ROAM_SIMD': rng.choice(['auto', 'scalar'])}
    env['ROAM_IVY'] = rng.choice(['fixed', 'dynamic'])
    env['ROAM_LRC_MEMORY'] = rng.choice(['128K', '1M', '64M'])
    env['ROAM_ERC'] = rng.choice(['update', 'invalidate', 'auto'])
    env['ROAM_MIRAGE_DELTA'] = rng.choice(['0', '0', '1', '300', '3000'])
    if seed % 2 == 1:
        env['ROAM_CHAOS'] = str(rng.randrange(1, 1 << 32))
    command = [harness.program('random'), '--seed', str(seed), '--nodes', str(rng.randint(2, 4)),
               '--seconds', str(SECONDS)]
    if rng.random() < 0.4:
        command += ['--threads', '1']
    if rng.random() < 0.3:
        command += ['--team', str(rng.randint(2, 3))]
        if rng.random() < 0.3:  # one node, whose locks are thin
            command[command.index('--nodes') + 1] = '1'
    if rng.random() < 0.5:
        command += ['--roam', harness.program('roam')]
    if rng.random() < 0.4:
        for name in rng.choices(protocols, k=rng.randint(1, 3)):
            command += ['--region', name]
    env.update(way_env(way, seed, rng))
    if os.environ.get('MULTI_JITTER'):  # delays at atomic operations: tests/lib/jitter.h
        env['JITTER'] = str(rng.randrange(1, 1 << 32))
    return env, command


def beside(own, models, name):
    """Whether a region of protocol `name` may be in a job of protocol `own`: roam_alloc_region."""
    alone = harness.those('one_heap') + harness.those('transactions')
    if own in alone or name in alone:
        return own == name
    return models[own] != 'ScC' or name not in harness.those('acquires', model='RC')


def jobs(first, last, combinations):
    """A combination has a place, by which it draws, and which --step does not change."""
    models = harness.protocols()
    for seed in range(first, last + 1):
        for at, (protocol, engine, way) in combinations:
            env, command = drawn(seed, at, way,
                                 [name for name in models if beside(protocol, models, name)])
            if models[protocol] == 'ScC':
                command += ['--scoped', '1']
            yield {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine, **env}, command


def run_job(env, command):
    """The block counts of the run, or None if it went wrong."""
    try:
        result = harness.expect(command, out='^right', env=env, timeout=TIMEOUT)
    except harness.Wrong as wrong:
        words = ' '.join(f'{key}={value}' for key, value in env.items())
        print(f'FAILED {wrong}; again: {words} {" ".join(command)}', flush=True)
        return None
    reads, foreign, reused = re.search(
        r'right: (\d+) reads \((\d+) .* \((\d+) of memory', result.out).groups()
    return int(reads), int(foreign), int(reused)


def run_loss(first, last, combinations):
    """Runs every program without and with loss; returns the exit status."""
    took = [0.0, 0.0]
    count = failed = 0
    for env, command in jobs(first, last, combinations):
        env.pop('ROAM_FAULTY', None)
        env.pop('ROAM_CHAOS', None)  # otherwise it would hide the difference
        for lossy in (False, True):
            start = time.monotonic()
            if lossy:
                env['ROAM_FAULTY'] = LOSS + str(count)
            if run_job(env, command) is None:
                failed += 1
            took[lossy] += time.monotonic() - start
        count += 1
    print(f'{2 * count - failed} of {2 * count} runs right, {count} of them with 5 % loss, which '
          f'took {took[1]:.1f} s, {took[1] / took[0]:.2f} times as long as the others')
    return 1 if failed or took[1] > LOSS_MAX * took[0] else 0


def run_all(first, last, combinations, seconds):
    failed = count = reads = foreign = reused = 0
    start = time.monotonic()
    for env, command in jobs(first, last, combinations):
        if seconds and time.monotonic() - start > seconds:
            print(f'stopped after {seconds} s: seed {command[2]} and later ones did not run')
            return 1
        counts = run_job(env, command)
        count += 1
        if counts is None:
            failed += 1
            continue
        reads, foreign, reused = reads + counts[0], foreign + counts[1], reused + counts[2]
    print(f'{count - failed} of {count} programs right ({len(combinations)} combinations), '
          f'{reads} reads checked ({foreign} of another node\'s value), {reused} blocks of memory '
          f'freed elsewhere, {time.monotonic() - start:.0f} s')
    # Programs without sharing test nothing; with few seeds it may happen that no block is freed
    # elsewhere.
    return 1 if failed or foreign < 20 * count or (last - first >= 20 and reused == 0) else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', default='1..30', help='FIRST..LAST, or how many')
    parser.add_argument('--seconds', type=int, default=0, help='fail if it takes longer')
    parser.add_argument('--protocol', action='append')
    parser.add_argument('--engine', action='append')
    parser.add_argument('--way', action='append')
    parser.add_argument('--step', type=int, default=1)
    parser.add_argument('--loss', action='store_true')
    wanted = parser.parse_args()
    first, dots, last = wanted.seeds.partition('..')
    if not dots:
        first, last = '1', first
    product = itertools.product(wanted.protocol or list(harness.protocols()), wanted.engine or harness.engines(),
                                wanted.way or ways())
    combinations = list(enumerate(product))[::wanted.step]
    if wanted.loss:
        sys.exit(run_loss(int(first), int(last), combinations))
    sys.exit(run_all(int(first), int(last), combinations, wanted.seconds))


if __name__ == '__main__':
    main()
