#!/usr/bin/env python3
"""A page that two threads of a node close at once, under diffs kept by their writers and sigsegv, again and again.

usage: closes.py [RUNS]

A handler makes a diff of a page, which it closes for writing, while an acquire closes the page
altogether.  When either could undo the other's closing, 3 to 5 of 1,000 runs of this program read
an old copy; simulated worlds have no step between a page's entry and the engine.
"""
import sys

import harness

ENV = {'ROAM_PROTOCOL': harness.those('keeps_twins')[0], 'ROAM_FAULT': 'sigsegv', 'ROAM_BARRIER': 'tree', 'ROAM_HOT': '0',
       'ROAM_PREFETCH': '2', 'ROAM_ONESIDED': '1'}
COMMAND = ['--seed', '5', '--nodes', '2', '--seconds', '20']


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    command = [harness.program('random'), *COMMAND, '--roam', harness.program('roam')]
    for _ in range(runs):
        harness.expect(command, out='right', env=ENV, timeout=25)
    print(f'{runs} of {runs} runs right')


if __name__ == '__main__':
    main()
