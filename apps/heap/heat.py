#!/usr/bin/env python3
"""Heat spreads over a plate: NumPy arrays in the shared heap, a share of the rows for each node.

roam run -n 4 python3 apps/heap/heat.py [ROWS [STEPS]]

With --plain behind them: in one process, over memory of its own, to compare times.
"""
import sys
import time

import numpy

import roam


def main():
    plain = '--plain' in sys.argv
    words = [word for word in sys.argv[1:] if word != '--plain']
    rows, steps = (int(word) for word in words + ['400', '50'][len(words):])
    array = numpy.zeros if plain else roam.array
    plates = [array((rows + 2, rows), 'f8') for _ in range(2)]
    warm, lock = roam.array(1), roam.Lock()
    me, nodes = roam.node(), roam.nodes()
    first, last = 1 + rows * me // nodes, 1 + rows * (me + 1) // nodes
    if me == 0:
        for plate in plates:
            plate[0] = 100
    roam.barrier()
    start = time.monotonic()
    for _ in range(steps):
        old, new = plates
        new[first:last, 1:-1] = (old[first - 1:last - 1, 1:-1] + old[first + 1:last + 1, 1:-1] +
                                 old[first:last, :-2] + old[first:last, 2:]) / 4
        plates.reverse()
        roam.barrier()
    took = time.monotonic() - start
    with lock:
        warm[0] += numpy.sum(plates[0][first:last])
    roam.barrier()
    if me == 0:
        print(f'heat {warm[0]:.3f} after {steps} steps')
        print(f'{took * 1e3:.0f} ms on {nodes} nodes', file=sys.stderr)


if __name__ == '__main__':
    main()
