#!/usr/bin/env python3
"""Programs that once went wrong, each under what it went wrong with."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'multi'))
import harness  # pylint: disable=wrong-import-position


def right(command, env):
    harness.expect(command, env=env, timeout=15)


def locked(command, env):
    harness.pass_skips(harness.expect(command, env=env, timeout=15).out)


def slow(command, env):
    harness.expect(command, env=env, timeout=100)


def refused(command):
    harness.expect(command, 1, 'more than 2048 threads use roam at a time',
                   timeout=100)


def launched(nodes, name):
    return [harness.program('roam'), 'run', '-n', str(nodes), harness.program(name)]


CLOSED = 'the program has closed descriptors that roam had opened'


def closed(command, env):
    """The job ends at the next look, one second later at most, and with one line."""
    harness.expect(command, 1, CLOSED, env=env, timeout=10)


def descriptor_cases():
    ways = {'fork': [], 'run': [harness.program('roam'), 'run', '-n', '2'],
            'run -H': [harness.program('roam'), 'run', '-n', '2', '-H', 'localhost']}
    engines = harness.engines()
    for way, words in ways.items():
        command = [*words, harness.program('descriptors')]
        yield f'what exec closes, {way}', right, [*command, 'look', '2'], {}
        yield from harness.thin(9, closed_cases(way, [*command, 'close', '2'], engines))


def closed_cases(way, command, engines):
    for turn, protocol in enumerate(harness.kinds().values()):
        env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engines[turn % len(engines)],
               'ROAM_TRANSPORT': 'udp' if way == 'run -H' else ['shm', 'udp'][turn // 2 % 2]}
        yield f'all are closed, {way}, {env}', closed, command, env


def some_cases():
    """Without one of them a node would see no accesses, or hear nothing."""
    for engine in harness.engines():
        for word, env in {'userfaultfd': {}, 'socket:': {'ROAM_TRANSPORT': 'udp'}}.items():
            if word == 'socket:' or engine == 'uffd':
                yield (f'{word} is closed, {engine}', closed, [harness.program('descriptors'), word, '2'],
                       {'ROAM_FAULT': engine, **env})


def limited_cases():
    for protocol in harness.kinds().values():
        for engine in harness.engines():
            for transport in ('shm', 'udp'):
                env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine, 'ROAM_TRANSPORT': transport}
                yield f'limited files, {env}', right, [harness.program('limited'), '20'], env


def locked_cases():
    for protocol in harness.kinds().values():
        for engine in harness.engines():
            yield (f'locked memory, {protocol}, {engine}', locked, [harness.program('locked'), '20'],
                   {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine})


def lone_cases():
    for protocol in harness.kinds().values():
        for engine in harness.engines():
            yield (f'one node touches, {protocol}, {engine}', right, launched(1, 'lone_touches'),
                   {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine})


def thread_cases():
    for nodes in (2, 3, 5):
        for turn in range(5):
            yield (f'threads that seal together, {nodes} nodes, {turn}', right,
                   launched(nodes, 'seal_threads'), {'ROAM_CHAOS': str(turn)})


def tree_cases():
    for nodes in (2, 4, 6):
        for turn in range(3):
            env = {'ROAM_BARRIER': 'tree', 'ROAM_CHAOS': str(turn)}
            yield (f'a tree and threads, {nodes} nodes fork, {turn}', right,
                   [harness.program('tree_threads'), str(nodes)], env)
            yield (f'a tree and threads, {nodes} nodes run, {turn}', right,
                   launched(nodes, 'tree_threads'), env)


def band_cases():
    for nodes in (2, 3, 4):
        for env in ({}, {'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_FAULT': 'sigsegv'}):
            words = ' '.join(f'{key}={value}' for key, value in env.items())
            yield (f'bands of {nodes} nodes {words}', right, [harness.program('bands'), str(nodes)], env)


def home_cases():
    for nodes in (2, 3, 4):
        for env in ({}, {'ROAM_ALLOC': 'own'}, {'ROAM_FAULT': 'sigsegv'}, {'ROAM_ONESIDED': '0'},
                    {'ROAM_TRANSPORT': 'udp'}):
            yield (f'homes of {nodes} nodes {env}', right, [harness.program('homes'), str(nodes), '4'], env)


def protocol_cases():
    for turn, protocol in enumerate(harness.protocols()):
        yield (f'a cache of one page, {protocol}', right, [harness.program('evicts')],
               {'ROAM_PROTOCOL': protocol, 'ROAM_CACHE_PAGES': '1'})
        yield early_reuse(protocol, *EARLY[turn % len(EARLY)])
        yield buffers(protocol, PAGES[turn % len(PAGES)])


def cases():
    """Of each product `quick` runs a few cases, which have each engine, each way and each number of nodes."""
    yield from descriptor_cases()
    yield from some_cases()
    for step, product in ((5, limited_cases()), (5, locked_cases()), (5, lone_cases()), (7, thread_cases()),
                          (5, tree_cases()), (3, band_cases()), (3, home_cases()), (2, protocol_cases())):
        yield from harness.thin(step, product)
    yield from flat_cases(1)  # fewer are to leave in `quick`: the last of them
    for threads in ('1', '2'):
        yield (f'a seal at the end, {threads} threads', right, [harness.program('end_seals')],
               {'ROAM_THREADS': threads})
    yield ('a first lock, and a thread that waits for the end', right, [harness.program('first_ends')],
           {'ROAM_THREADS': '2'})


def flat(how, turns, env=None):
    env = {'ROAM_HEAP': '16M' if how == 'leaves' and turns < 400 else '32M', **(env or {})}
    words = ' '.join(f'{key}={value}' for key, value in env.items())
    return (f'{turns} x {how}, {words}', right, [harness.program('flat'), how, '3', str(turns)], env)


def flat_cases(times):
    """What is done again and again takes no more memory."""
    for how, turns in {'rounds': 60, 'leaves': 300, 'alone': 100000, 'threads': 300, 'objects': 500,
                       'churn': 4000, 'ends': 1500}.items():
        # The rings of messages are written whole before a quarter of the turns is over.
        case = flat(how, turns * times * (4 if how == 'ends' and times > 1 else 1))
        yield harness.Later(case) if how == 'leaves' else case
    # (The guard pages around the segments of ended nodes once stayed.)
    yield flat('rounds', 20 * times, {'ROAM_FAULT': 'sigsegv'})
    yield flat('tx', 2000 * times * (10 if times > 1 else 1), {'ROAM_PROTOCOL': harness.those('transactions')[0]})
    yield flat('leaves', 100 * times, {'ROAM_ALLOC': 'own', 'ROAM_PROTOCOL': harness.those('evicts')[0]})


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
    for name, check, command, env in flat_cases(5):
        yield name, slow if check is right else check, command, env
    for protocol in harness.protocols():
        yield from (early_reuse(protocol, *how) for how in EARLY)
        yield from (buffers(protocol, pages) for pages in PAGES)
    yield 'more than a million locks', slow, [harness.program('many_locks'), '1100000'], {}
    yield ('100,000 threads in turn', slow,
           [harness.program('thread_ends'), 'turn', '2'], {})
    for transport, count in (('shm', 1024), ('udp', 100)):
        yield (f'{count} threads a node, {transport}', slow,
               [harness.program('thread_ends'), 'many', '2', str(count)],
               {'ROAM_TRANSPORT': transport})
    yield ('more threads than there may be', refused,
           [harness.program('thread_ends'), 'many', '2', '2048'])


if __name__ == '__main__':
    harness.main({'few': lambda: harness.few(cases()), 'rest': lambda: harness.rest(cases()),
                  'many': lambda: list(many_cases())}, at_once=2)  # many wait a second for a look
