#!/usr/bin/env python3
"""The kernels at small sizes with random delays at every step: each answer is verified.

usage: kernels_chaos.py [--seeds FIRST..LAST] [--kernel NAME] [--engine NAME] [--short]

usage: kernels_chaos.py --product: each of them under every protocol.

A seed runs every kernel on all its numbers of nodes, and over the seeds goes through engines,
protocols and ways; --short has less of what takes longest; --product takes every kernel under every protocol, and engines and ways in turn.
The job of a failure can be repeated by the line that it prints.
"""
import argparse
import itertools
import sys
import time

import harness

KERNELS = {
    'fft': (['-m12', '-t'], [2, 4]),
    'lu': (['-n128', '-b16', '-t'], [2, 3, 4]),
    'ocean': (['-n34', '-c'], [2, 4]),
    'radix': (['-n65536', '-t'], [2, 3, 4]),
    'jump-bk': (['-n2000', '-t'], [3]),
    'jump-lu': (['-n50', '-t'], [3]),
    'jump-me': (['-n20000', '-f', '-t'], [4]),
    'jump-mm': (['-n60', '-t'], [3]),
    'jump-rx': (['-n2000', '-t'], [3]),
    'jump-sor': (['-n100', '-f', '-t'], [3]),
}
SHORT = {'radix': ['-n16384', '-t']}  # with 65,536 keys it takes most of the time
ENGINES = harness.engines()
DEFAULT = harness.default_protocol()
PROTOCOLS = [DEFAULT] * 3 + list(harness.protocols())
WAYS = ['onesided', 'onesided', 'messages', 'udp', 'udp_bad']
WAY = {
    'onesided': {'ROAM_ONESIDED': '1'},
    'messages': {'ROAM_ONESIDED': '0'},
    'udp': {'ROAM_TRANSPORT': 'udp'},
    'udp_bad': {'ROAM_TRANSPORT': 'udp', 'ROAM_MTU': '1500',
                'ROAM_FAULTY': 'drop=5%,repeat=2%,reorder=2%'},
}
TIMEOUT = 60


# Programs of many small writes move a page for each; where a move takes several datagrams, a run
# takes half a minute.
FINE = ['ocean', 'radix']


def way_of(name, protocol, way):
    """The way that a job uses: messages in shared memory where datagrams would take too long."""
    return 'messages' if name in FINE and protocol != DEFAULT and way.startswith('udp') else way


OFTEN = ['fft', 'lu', 'ocean', 'radix']


def jobs(seed, kernels, engines):
    """(command, environment) of all jobs: on all nodes, engine and protocol by seed; some kernels
    only now and then."""
    kernels = [name for name in kernels if name in OFTEN or seed % 5 == 0 or len(kernels) == 1]
    for at, (name, nodes) in enumerate((name, nodes) for name in kernels
                                       for nodes in KERNELS[name][1]):
        pick = seed + at
        protocol = PROTOCOLS[pick // len(engines) % len(PROTOCOLS)]
        yield ([harness.program(name), f'-p{nodes}', *KERNELS[name][0]],
               {'ROAM_CHAOS': str(seed), 'ROAM_FAULT': engines[pick % len(engines)],
                'ROAM_PROTOCOL': protocol,
                **WAY[way_of(name, protocol, WAYS[pick % len(WAYS)])]})


def product(seed, kernels, engines):
    """Every kernel on all its nodes under every protocol; engines and ways in turn."""
    pairs = list(itertools.product(engines, sorted(set(WAYS))))
    jobs_of = ((name, nodes, protocol) for name in kernels for nodes in KERNELS[name][1]
               for protocol in sorted(set(PROTOCOLS)))
    for at, (name, nodes, protocol) in enumerate(jobs_of):
        # Each protocol counts its own steps; otherwise it would always meet the same engine and
        # way.
        engine, way = pairs[(seed + at + at // len(pairs)) % len(pairs)]
        yield ([harness.program(name), f'-p{nodes}', *KERNELS[name][0]],
               {'ROAM_CHAOS': str(seed), 'ROAM_FAULT': engine, 'ROAM_PROTOCOL': protocol,
                **WAY[way_of(name, protocol, way)]})


def crowd(seed, _kernels, engines):
    """Sixteen nodes flush at once while their pages move; none may wait for another for ever."""
    for protocol in harness.those(homes='moving'):
        yield ([harness.program('jump-lu'), '-p16', '-n128', '-f', '-t'],
               {'ROAM_FAULT': engines[seed % len(engines)], 'ROAM_PROTOCOL': protocol,
                **WAY['messages']})


def run_job(command, env):
    """Why the run is wrong, or None."""
    try:
        harness.expect(command, out='verified ok', env=env, timeout=TIMEOUT)
    except harness.Wrong as wrong:
        return str(wrong)
    return None


def run_seeds(first, last, kernels, engines, draw):
    failed = count = 0
    start = time.monotonic()
    for command, env in itertools.chain.from_iterable(
            draw(seed, kernels, engines) for seed in range(first, last + 1)):
        why = run_job(command, env)
        count += 1
        if why is not None:
            failed += 1
            words = ' '.join(f'{key}={value}' for key, value in env.items())
            print(f'FAILED {words} {" ".join(command)}: {why}', flush=True)
    print(f'{count - failed} of {count} jobs verified, {time.monotonic() - start:.0f} s')
    return 1 if failed or count == 0 else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', default='1..3', help='FIRST..LAST, or how many')
    parser.add_argument('--kernel', choices=list(KERNELS), action='append')
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--product', action='store_true')
    parser.add_argument('--crowd', action='store_true')
    parser.add_argument('--engine', choices=ENGINES, action='append')
    wanted = parser.parse_args()
    if wanted.short:
        KERNELS.update({name: (words, KERNELS[name][1]) for name, words in SHORT.items()})
    first, dots, last = wanted.seeds.partition('..')
    if not dots:
        first, last = '1', first
    sys.exit(run_seeds(int(first), int(last), wanted.kernel or list(KERNELS),
                       wanted.engine or ENGINES,
                       crowd if wanted.crowd else product if wanted.product else jobs))


if __name__ == '__main__':
    main()
