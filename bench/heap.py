#!/usr/bin/env python3
"""The examples of containers and arrays in the shared heap, on one node, and on two nodes under direct
(memory that the hardware shares) and under the default protocol, in turn; heat.py also over plain NumPy
memory in a process without roam.  Prints a line for each: medians of the times that they measure, in
ms, and the ratio to one node.

usage: bench/heap.py [--build DIRECTORY] [--times N]
"""
import argparse
import os
import re
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = '/usr/bin/python3'  # which has the distribution's numpy and cffi
HEAT = os.path.join(ROOT, 'apps', 'heap', 'heat.py')
WAYS = {'1 node': (1, {}), '2, direct': (2, {'ROAM_PROTOCOL': 'direct'}), '2': (2, {})}


def took(words, env):
    done = subprocess.run(words, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    return float(re.search(r'^(\d+) ms on ', done.stderr, re.MULTILINE).group(1))


def compiled(build, place):
    program = os.path.join(place, 'primes')
    subprocess.run(['c++', '-std=c++17', '-O2', '-I', os.path.join(ROOT, 'include'),
                    os.path.join(ROOT, 'apps', 'heap', 'primes.cpp'), '-o', program,
                    '-L' + os.path.join(build, 'src'), '-lroam'], check=True)
    return program


def ways(build, primes, env):
    """The ways to run each example: its command and environment."""
    run = os.path.join(build, 'tools', 'roam')
    yield 'primes.cpp, 2000000', {way: ([primes, str(nodes), '2000000'], {**env, **how})
                                  for way, (nodes, how) in WAYS.items()}
    heat = [PYTHON, HEAT, '1000', '200']
    yield 'heat.py, 1000 x 1000', {
        'plain': ([*heat, '--plain'], env),
        **{way: ([run, 'run', '-n', str(nodes), *heat], {**env, **how})
           for way, (nodes, how) in WAYS.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--build', type=os.path.abspath, default=os.path.join(ROOT, 'build', 'gcc'))
    parser.add_argument('--times', type=int, default=5)
    args = parser.parse_args()
    env = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    env['LD_LIBRARY_PATH'] = os.path.join(args.build, 'src')
    env['PYTHONPATH'] = os.path.join(ROOT, 'python')
    with tempfile.TemporaryDirectory(prefix='roam-heap-') as place:
        for name, each in ways(args.build, compiled(args.build, place), env):
            times = {way: [] for way in each}
            for _ in range(args.times):
                for way, how in each.items():
                    times[way].append(took(*how))
            middle = {way: statistics.median(values) for way, values in times.items()}
            print(name + ': ' + '; '.join(f'{way}: {value:.0f} ms, {value / middle["1 node"]:.2f} x'
                                          for way, value in middle.items()), flush=True)


if __name__ == '__main__':
    main()
