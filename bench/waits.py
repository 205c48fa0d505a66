#!/usr/bin/python3
"""Plots the time of each of 1,000 moves, as figures 4 and 5 of the PastSet paper do, for each way
in which roam waits: asleep, as usual (spinning, then asleep), spinning; and for moves to a local
element.

    roam bench past --only move_ --series moves.json
    python3 waits.py moves.json moves.png
"""
import json
import statistics
import sys

import matplotlib
matplotlib.use('Agg')
from matplotlib import pyplot

MOVES = 1000
SIZES = {'1': '1 byte', '1k': '1 KiB', '31k': '31 KiB'}
# Title, and the row's name before its size, and its variant.
PANELS = (('local', 'move_local_', ''), ('remote, asleep', 'move_remote_', 'asleep'),
          ('remote, as usual', 'move_remote_', ''), ('remote, spinning', 'move_remote_', 'spinning'))


def read(path):
    """{(row, variant): microseconds}"""
    with open(path, encoding='utf-8') as file:
        return {(name, variant): us for name, variant, us in map(json.loads, file)}


def draw(axes, title, rows):
    for size, us in rows.items():
        axes.plot(us, '.', markersize=2,
                  label=f'{SIZES[size]}: {statistics.median(us):.2f}')
    axes.set(xlabel='move', title=title, yscale='log')
    axes.legend(markerscale=5, title='median, us', loc='upper right')


def main():
    source, picture = sys.argv[1:]
    series = read(source)
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(4 * len(PANELS), 4.5), sharey=True)
    for axes, (title, name, variant) in zip(panels, PANELS):
        rows = {size: series[name + size, variant][:MOVES] for size in SIZES}
        draw(axes, title, rows)
    panels[0].set_ylabel('microseconds')
    figure.tight_layout()
    figure.savefig(picture)


if __name__ == '__main__':
    main()
