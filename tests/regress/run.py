#!/usr/bin/env python3
"""Programs that once went wrong, each under what it went wrong with."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'multi'))
import harness  # pylint: disable=wrong-import-position


def right(command, env):
    harness.expect(command, env=env, timeout=15)


def launched(nodes, name):
    return [harness.program('roam'), 'run', '-n', str(nodes), harness.program(name)]


def cases():
    for nodes in (2, 3, 5):
        for turn in range(5):
            yield (f'threads that seal together, {nodes} nodes, {turn}', right,
                   launched(nodes, 'seal_threads'), {'ROAM_CHAOS': str(turn)})
    for nodes in (2, 4, 6):
        for turn in range(3):
            env = {'ROAM_BARRIER': 'tree', 'ROAM_CHAOS': str(turn)}
            yield (f'a tree and threads, {nodes} nodes fork, {turn}', right,
                   [harness.program('tree_threads'), str(nodes)], env)
            yield (f'a tree and threads, {nodes} nodes run, {turn}', right,
                   launched(nodes, 'tree_threads'), env)


if __name__ == '__main__':
    harness.main({'all': lambda: list(cases())})
