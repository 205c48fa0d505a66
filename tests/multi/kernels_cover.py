#!/usr/bin/env python3
"""The SPLASH-2 programs, each answer verified: every two values of program, layout, protocol, number of
nodes, threads of a node, engine and way meet in some job.

usage: kernels_cover.py [--seeds FIRST..LAST] [--program NAME] [--list]
       kernels_cover.py --product FIRST --seeds SEED  forty jobs of the full product, from this number on

A seed draws one cover.  Values that exclude each other are in allowed().
"""
import argparse
import itertools
import random
import sys

import harness
import kernels_chaos

# Arguments: the suite's data at sizes that take a fraction of a second.
PROGRAMS = {
    'barnes': ['-n300', '-t'],
    'cholesky': ['-n6', '-t'],
    'fft': ['-m10', '-t'],
    'fmm': ['-n400', '-k2', '-t'],
    'lu': ['-n96', '-b16', '-t'],
    'lu-nc': ['-n96', '-b16', '-t'],
    'ocean': ['-n34', '-c'],
    'ocean-nc': ['-n18', '-c'],
    'radiosity': ['-r0', '-f0.3', '-a0.3', '-e0.1', '-t'],
    'radix': ['-n16384', '-r256', '-t'],
    'raytrace': ['-n16', '-l1', '-t'],
    'volrend': ['-n20', '-z33', '-r2', '-d50', '-t'],
    'water-nsquared': ['-n64', '-t'],
    'water-spatial': ['-n216', '-c4.6', '-t'],
}
NEEDS_RC = ['barnes', 'cholesky', 'fmm', 'radiosity']  # what they publish was written outside of the lock's section
PAGES = ['barnes', 'fmm', 'lu-nc', 'ocean-nc', 'radiosity', 'raytrace', 'volrend', 'water-nsquared']  # programs that have this layout
FINE = ['ocean-nc', 'radiosity', 'radix']  # each page is written by all nodes
NODES = [1, 2, 3, 4, 7, 16]
TRIES = 30  # rows of which the best one is taken
ROUND = 40  # jobs of a round through the product


def factors(programs):
    options = harness.info('options')
    return {
        'program': programs,
        'layout': ['suite', 'pages'] if set(PAGES) & set(programs) else ['suite'],
        'protocol': list(harness.protocols()),
        'nodes': NODES,
        'threads': [1, 2] if 'ROAM_THREADS' in options else [1],
        'engine': kernels_chaos.ENGINES,
        'way': sorted(set(kernels_chaos.WAYS)),
    }


def suits(name, protocol):
    return name not in NEEDS_RC or harness.protocols()[protocol] != 'ScC'


def processes_of(row):
    return row['nodes'] * row['threads']


def allowed(row):
    """Whether a job may have these values, and ends soon."""
    processes = processes_of(row)
    if row['layout'] == 'pages' and row['program'] not in PAGES:
        return False
    if row['program'] == 'water-spatial' and processes in (7, 14):
        return False  # there is no such grid of boxes
    if not suits(row['program'], row['protocol']):
        return False
    model = harness.protocols()[row['protocol']]
    if processes > 16:
        return False
    # Many moves of single pages, each of several datagrams, or among all nodes, take half a minute.
    moves = row['way'].startswith('udp') or row['program'] in FINE
    return not (model == 'SC' and moves and row['nodes'] > 4)


def pairs_of(row):
    return set(itertools.combinations(sorted(row.items()), 2))


def possible(values):
    """All pairs of values that some allowed row has."""
    names = sorted(values)
    found = set()
    for row in itertools.product(*(values[name] for name in names)):
        row = dict(zip(names, row))
        if allowed(row):
            found |= pairs_of(row)
    return found


def draw(values, wanted, rng):
    """A random allowed row with this pair."""
    while True:
        row = {name: rng.choice(choices) for name, choices in values.items()} | dict(wanted)
        if allowed(row):
            return row


def cover(values, seed):
    """Rows that have all pairs."""
    rng = random.Random(seed)
    missing = sorted(possible(values), key=str)
    rng.shuffle(missing)
    left = set(missing)
    for wanted in missing:
        if wanted in left:
            rows = [draw(values, wanted, rng) for _ in range(TRIES)]
            best = max(rows, key=lambda row: (len(pairs_of(row) & left), -abs(processes_of(row) - 3)))
            left -= pairs_of(best)
            yield best


def product(values, first):
    """The rows of the full product in an order of its own; as rounds go on, all of them are run."""
    names = sorted(values)
    rows = [row for row in (dict(zip(names, each)) for each in
                            itertools.product(*(values[name] for name in names))) if allowed(row)]
    random.Random(0).shuffle(rows)
    return [rows[(first + at) % len(rows)] for at in range(ROUND)]


def job(row, seed):
    """(command, environment)."""
    layout = ['--layout', 'pages'] if row['layout'] == 'pages' else []
    threads = {'ROAM_THREADS': str(row['threads'])} if row['threads'] > 1 else {}
    return ([harness.program(row['program']), f'-p{processes_of(row)}',
             *PROGRAMS[row['program']], *layout],
            {'ROAM_CHAOS': str(seed), 'ROAM_FAULT': row['engine'], 'ROAM_PROTOCOL': row['protocol'],
             **threads, **kernels_chaos.WAY[row['way']]})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--seeds', default='1..1')
    parser.add_argument('--program', choices=list(PROGRAMS), action='append')
    parser.add_argument('--product', type=int, metavar='FIRST')
    parser.add_argument('--list', action='store_true', help='the jobs, without running them')
    wanted = parser.parse_args()
    first, _, last = wanted.seeds.partition('..')
    values = factors(wanted.program or list(PROGRAMS))

    def jobs(seed, _kernels, _engines):
        rows = cover(values, seed) if wanted.product is None else product(values, wanted.product)
        return (job(row, seed) for row in rows)

    if wanted.list:
        for command, env in jobs(int(first), None, None):
            print(' '.join([f'{key}={value}' for key, value in env.items()] + command))
        return
    sys.exit(kernels_chaos.run_seeds(int(first), int(last or first), None, None, jobs))


if __name__ == '__main__':
    main()
