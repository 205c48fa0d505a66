#!/usr/bin/env python3
"""The time of each of 1,000 moves, as the PastSet papers plot it: tuples of 1 byte, 1 KiB and 31 KiB, to
an element at this node and to one at another node.  Prints a table; with matplotlib, and the name of
a picture as its argument, draws a plot.

    roam run -n 2 python3 latency.py latency.png
"""
import statistics
import sys
import time

import roam

SIZES = (1, 1024, 31 * 1024)
MOVES = 1000


def measure(element, size):
    """Microseconds of each move."""
    data = bytes(size)
    times = []
    for _ in range(MOVES):
        begun = time.perf_counter_ns()
        element.move(data)
        times.append((time.perf_counter_ns() - begun) / 1000)
        element.truncate()
    return times


def rows():
    """Node 1 measures, and moves its results to node 0."""
    found = roam.Element('found', 'u8[], u32, f64[]', place=0)
    wheres = {'local': 1, 'remote': 0} if roam.nodes() > 1 else {'local': 0}
    if roam.node() == roam.nodes() - 1:
        for where, node in wheres.items():
            element = roam.Element(where, 'u8[]', place=node)
            for size in SIZES:
                found.move(where, size, measure(element, size))
    if roam.node() == 0:
        for _ in range(len(wheres) * len(SIZES)):
            where, size, times = found.observe()
            yield where.decode(), size, times
    roam.barrier()


def plot(path, measured):
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for where, size, times in measured:
        axes.plot(times, '.', markersize=2, label=f'{where}, {size} bytes')
    axes.set(xlabel='operation', ylabel='microseconds', yscale='log', title='move')
    axes.legend(markerscale=5)
    figure.savefig(path)


def main():
    measured = list(rows())
    for where, size, times in measured:
        print(f'{where:6} {size:6} bytes: median {statistics.median(times):8.2f} us, '
              f'most {max(times):8.2f} us')
    if roam.node() == 0 and len(sys.argv) > 1:
        plot(sys.argv[1], measured)


if __name__ == '__main__':
    main()
