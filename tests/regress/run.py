#!/usr/bin/env python3
"""Programs that once went wrong, each under what it went wrong with."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'multi'))
import harness  # pylint: disable=wrong-import-position


def right(command, env):
    harness.expect(command, env=env, timeout=15)


def slow(command, env):
    harness.expect(command, env=env, timeout=100)


def refused(command):
    harness.expect(command, 1, 'more than 2048 threads use roam at a time',
                   timeout=100)


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
    for env in ({}, {'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_FAULT': 'sigsegv'}):
        for nodes in (2, 3, 4):
            words = ' '.join(f'{key}={value}' for key, value in env.items())
            yield (f'bands of {nodes} nodes {words}', right, [harness.program('bands'), str(nodes)], env)
    for env in ({}, {'ROAM_FAULT': 'sigsegv'}):
        yield (f'mappings of rounds that have ended {env}', right, [harness.program('round_maps'), '20'], env)
    for threads in ('1', '2'):
        yield (f'a seal at the end, {threads} threads', right, [harness.program('end_seals')],
               {'ROAM_THREADS': threads})
    for turn, protocol in enumerate(harness.protocols()):
        yield (f'a cache of one page, {protocol}', right, [harness.program('evicts')],
               {'ROAM_PROTOCOL': protocol, 'ROAM_CACHE_PAGES': '1'})
        yield early_reuse(protocol, *EARLY[turn % len(EARLY)])
        yield buffers(protocol, PAGES[turn % len(PAGES)])


EARLY = [(2, {}), (3, {'ROAM_ALLOC': 'own'})]
PAGES = ['1', '0', '4']


def early_reuse(protocol, nodes, env):
    return (f'memory freed before all synchronise, {nodes} nodes, {protocol}', right,
            launched(nodes, 'early_reuse'), {'ROAM_PROTOCOL': protocol, **env})


def buffers(protocol, pages):
    return (f'shared buffers, {protocol}, {pages} pages', right, [harness.program('pins')],
            {'ROAM_PROTOCOL': protocol, 'ROAM_CACHE_PAGES': pages})


def many_cases():
    """Every way of every protocol; and more threads than anything else here has, and so more time."""
    for protocol in harness.protocols():
        yield from (early_reuse(protocol, *how) for how in EARLY)
        yield from (buffers(protocol, pages) for pages in PAGES)
    yield ('100,000 threads in turn', slow,
           [harness.program('thread_ends'), 'turn', '2'], {})
    for transport, count in (('shm', 1024), ('udp', 100)):
        yield (f'{count} threads a node, {transport}', slow,
               [harness.program('thread_ends'), 'many', '2', str(count)],
               {'ROAM_TRANSPORT': transport})
    yield ('more threads than there may be', refused,
           [harness.program('thread_ends'), 'many', '2', '2048'])


if __name__ == '__main__':
    harness.main({'few': lambda: list(cases()), 'many': lambda: list(many_cases())})
