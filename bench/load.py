#!/usr/bin/env python3
"""Locks beside programs that compute: how much longer they take than without these programs, compared
with the fair share, (threads + load) / max(threads, processors).

Runs without and with the load alternate with runs of nodes that only compute beside that load, for the
processor time that the locks take without it: these show how much the kernel and other processes leave.
Prints a line of medians for each kind: `share`: the fair share; `took`: the time with the load divided by
the time without; `of share`: that divided by the share, at most 1.25; `mutex`: the value for a mutex of
POSIX threads, whose sections take as long as a lock and its pages here; `of computing`: the time divided
by that of computing nodes; `cpu`: the processor time with the load divided by that without.  Needs an
idle machine.
"""
import argparse
import os
import re
import statistics
import subprocess

LIMIT = 1.25
# By name: microseconds with the lock and without it, and rounds in which two nodes take about a
# second.
KINDS = {'long sections': (20, 20, 20000), 'short sections': (1, 1, 200000),
         'long rests': (2, 100, 8000), 'nothing else': (0, 0, 500000)}


def run(program, *words):
    """The run's time and processor time in milliseconds."""
    done = subprocess.run([program, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True,
                          timeout=300)
    return tuple(map(float, re.fullmatch(r'(\S+) ms, (\S+) ms of processors\n', done.stdout).groups()))


def run_mutex(program, load, words, cpu_ms):
    """How many times as long a mutex takes with the load; `cpu_ms`: processor time of all sections
    here."""
    nodes, threads, rounds, inside, outside = words
    inside = max(inside, round(cpu_ms * 1000 / (nodes * threads * rounds)) - outside)
    words = (nodes, threads, rounds, inside, outside)
    return run(program, 'mutex', load, *words)[0] / run(program, 'mutex', 0, *words)[0]


def line(program, kind, nodes, load, runs, scale):
    inside, outside, rounds = KINDS[kind]
    words = (nodes, 1, max(1, int(rounds * scale * 2 / nodes)), inside, outside)
    idle, beside, computing, mutex = [], [], [], []
    for _ in range(runs):
        idle.append(run(program, 'locks', 0, *words))
        beside.append(run(program, 'locks', load, *words))
        mutex.append(run_mutex(program, load, words, idle[-1][1]))
        computing.append(beside[-1][0] /
                         run(program, 'alone', load, nodes, round(idle[-1][1] / nodes))[0])
    alone, took = (statistics.median(ms for ms, _ in times) for times in (idle, beside))
    cpu = statistics.median(ms for _, ms in beside) / statistics.median(ms for _, ms in idle)
    share = (nodes + load) / max(nodes, len(os.sched_getaffinity(0)))
    share = max(share, 1.0)
    print(f'{kind:15} {nodes:5} {load:4} {alone:7.0f} {took:8.0f} {share:6.2f} {took / alone:6.2f} '
          f'{took / alone / share:9.2f} {statistics.median(mutex) / share:6.2f} '
          f'{statistics.median(computing):13.2f} {cpu:5.2f}', flush=True)
    return took / alone / share <= LIMIT


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build/gcc')
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--scale', type=float, default=1.0, help='of the rounds')
    parser.add_argument('--nodes', type=int, nargs='*', default=[2, 4])
    parser.add_argument('--load', type=int, nargs='*', default=[1, 2, 4])
    parser.add_argument('kinds', nargs='*', metavar='kind', help=', '.join(KINDS))
    options = parser.parse_args()
    program = os.path.join(options.build, 'tests', 'multi', 'multi_contend')
    print('kind            nodes load   ms    ms with  share   took  of share  mutex  of computing   cpu')
    within = [line(program, kind, nodes, load, options.runs, options.scale)
              for kind in options.kinds or KINDS for nodes in options.nodes for load in options.load]
    print(f'{sum(within)} of {len(within)} within {LIMIT} of the fair share')


if __name__ == '__main__':
    main()
