#!/usr/bin/env python3
"""The SPLASH-2 programs take about as many locks and barriers, and allocate as often, as those of the suite.

usage: kernels_counts.py [-k PATTERN]
"""
import json
import os
import tempfile

import harness

NEAR = 0.2  # of the suite's count
# For 2 processes, both together: arguments; lock acquires, barriers and G_MALLOC calls of the real suite with
# such a size.
SUITE = {
    'fft': (['-m16'], 2, 16, 7),
    'lu': (['-n512', '-b16'], 2, 136, 11),
    'lu-nc': (['-n512', '-b16'], 2, 136, 8),
    # Three digits, which is what the suite's program takes for keys below a million.
    'radix': (['-n1M', '-r1024', '-m2M'], 2, 32, 13),
    'cholesky': (['-n16'], 1788, 10, 26),
    # Allocations are not compared: the suite has 25 grids of the size of the basin, each with a table of its
    # processes; here 11 are enough.
    'ocean': (['-n258'], 416, 1802, None),
    'ocean-nc': (['-n258'], 416, 1742, 16),
    'water-nsquared': (['-n512'], 4134, 50, 4101),
    'water-spatial': (['-n512'], 45, 50, 602),
    'barnes': (['-n16384'], 2139827, 36, 10),
    'fmm': (['-n16384'], 468318, 70, 7),
    'raytrace': (['-n128'], 346059, 4, 4),
    'radiosity': ([], 5560044, 54, 8),
}


def counts(name, arguments):
    """The numbers of lock acquires, barriers and allocations, which do not depend on the protocol,
    as the time they take does."""
    protocol = [*harness.those('one_heap'), harness.default_protocol()][0]
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, 'counts.json')
        result = harness.run([harness.program(name), '-p2', *arguments],
                             env={'ROAM_STATS': path, 'ROAM_PROTOCOL': protocol})
        if result.status != 0:
            raise harness.Wrong(f'status {result.status}: {result.err[-900:]!r}')
        with open(path, encoding='utf-8') as file:
            counters = json.load(file)['counters']
    return [sum(counters[each]) for each in ('lock_acquires', 'barriers', 'allocs')]


def near(name):
    arguments, *suite = SUITE[name]
    for what, count, wanted in zip(('locks', 'barriers', 'allocations'), counts(name, arguments), suite):
        if wanted is not None and not (1 - NEAR) * wanted <= count <= (1 + NEAR) * wanted:
            raise harness.Wrong(f'{count} {what}, the suite {wanted}')


def cases():
    for name in SUITE:
        yield (name, near, name)


if __name__ == '__main__':
    harness.main({'all': cases}, at_once=1)
