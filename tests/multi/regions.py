#!/usr/bin/env python3
"""Regions of several protocols in one heap; jobs whose nodes have one heap.

usage: regions.py [-k PART_OF_A_NAME] [GROUP]...
"""
import itertools
import re

from harness import Later, Wrong, expect, few, launched, main, program, rest, right, run, started, those
from shapes import (APART, DEFAULT, KINDS, ONE_HEAP, PROTOCOLS, SCOPED, frees, kernel_fails,
                    start_fails, unshown)

NO_SUCH = r'^roam: roam_alloc_region: protocol=.*: unknown; known are' + \
    ''.join(f'(?=.* {name})' for name in PROTOCOLS)


def regions(command, protocol, env):
    result = run(command, env={'ROAM_PROTOCOL': protocol, **env})
    strange = [line for line in result.err.splitlines() if not re.search(NO_SUCH, line)]
    if result.status != 0 or strange or 'all summed' not in result.out or \
            not re.search(NO_SUCH, result.err, re.MULTILINE):
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')


def region_refused(command, protocol, text):
    result = run(command, env={'ROAM_PROTOCOL': protocol})
    if result.status == 0 or not re.search(text, result.err, re.MULTILINE):
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')


# RC protocols, which cannot be beside those.
NEED_NOTICES = those('acquires', model='RC')
WINDOW = those(region_option='ROAM_MIRAGE_DELTA')[0]


def delta(command, env):
    """Runs delta.c with the names of a protocol that has the window and of one that has none."""
    result = run([*command, WINDOW, KINDS['one writer']], env=env)
    if result.status != 0 or 'all in time' not in result.out:
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')
    for line in ('^roam: ROAM_MIRAGE_DELTA=10000001: must be a number from 0 to 10000000$',
                 '^roam: ROAM_MIRAGE_DELTA=: must be a number from 0 to 10000000$',
                 '^roam: roam_alloc_region: option=ROAM_MIRAGE_DELTA: .* takes ROAM_MIRAGE_DELTA=NUMBER$',
                 f'^roam: .*: option=ROAM_IVY=fixed: a region under {WINDOW} takes ROAM_MIRAGE_DELTA=NUMBER$',
                 f'^roam: .*: option=ROAM_MIRAGE_DELTA=.*: a region under {KINDS["one writer"]} takes none$'):
        if not re.search(line, result.err, re.MULTILINE):
            raise Wrong(f'no line {line} in {result.err[-600:]!r}')


def regions_cases():
    """Each protocol beside each other one, and all at once; a region under the job's own
    protocol."""
    for start in ('fork', 'run'):
        for protocol in PROTOCOLS:
            if protocol in APART:
                yield (f'region of {protocol} itself, {start}', regions,
                       started(start, 'regions', start, 3, protocol), protocol, {})
                continue
            known = [name for name in PROTOCOLS if name not in APART
                     and not (protocol in SCOPED and name in NEED_NOTICES)]
            for others in ([protocol], known, *([name] for name in known if name != protocol)):
                yield (f'regions of {" ".join(others)} beside {protocol}, {start}', regions,
                       started(start, 'regions', start, 3, *others), protocol, {})
        for env in ({}, {'ROAM_PROTOCOL': WINDOW},
                    {'ROAM_TRANSPORT': 'udp', 'ROAM_MIRAGE_DELTA': '1000'}):
            words = ' '.join(f'{key}={value}' for key, value in env.items())
            yield (f'region with a delta {words}, {start}', delta, started(start, 'delta', start, 2),
                   env)
        for env in ({'ROAM_FAULT': 'sigsegv'}, {'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'},
                    {'ROAM_CACHE_PAGES': '3'}, {'ROAM_HEAP': '16M'}, {'ROAM_ALLOC': 'own'},
                    {'ROAM_CHAOS': '7'}):
            words = ' '.join(f'{key}={value}' for key, value in env.items())
            yield (f'regions of all, {words}, {start}', regions,
                   started(start, 'regions', start, 4,
                           *(name for name in PROTOCOLS if name not in APART)), DEFAULT, env)
    for protocol, name in itertools.product(SCOPED, NEED_NOTICES):
        yield (f'region of {name} refused beside {protocol}', region_refused,
               started('fork', 'regions', 'fork', 2, name), protocol,
               f'^roam: roam_alloc_region: protocol {name} needs the notices of RC, .*; '
               f'take ROAM_PROTOCOL={protocol}-rc$')
    for one, (own, name) in itertools.product(ONE_HEAP, ((True, DEFAULT), (False, DEFAULT))):
        own, name = (one, name) if own else (name, one)
        yield (f'region of {name} refused beside {own}', region_refused,
               started('fork', 'regions', 'fork', 2, name), own,
               f'^roam: roam_alloc_region: protocol {name} cannot be beside {own}: under {one} all '
               'of the heap is one memory$')


def one_heap_checks(protocol):
    """A check that looks at stores is refused in one line, before anything runs; other checks are
    not."""
    env = {'ROAM_PROTOCOL': protocol, 'ROAM_CHECK': 'race'}
    start_fails(env, unshown('race', protocol))
    start_fails({**env, 'ROAM_CHECK': 'race,statics'}, unshown('race', protocol))
    kernel_fails(env, unshown('race', protocol))


def one_heap_apart(protocol):
    """Nodes of several hosts are refused before a host is reached; so are nodes of one host that do
    not map each other's memory."""
    env = {'ROAM_PROTOCOL': protocol, 'ROAM_RSH': 'false'}
    why = (f'ROAM_PROTOCOL={protocol}: its nodes have one memory, so all must be on one host; take '
           f'ROAM_PROTOCOL={DEFAULT}$')
    expect(launched(2, '-H', 'nowhere:1,noplace:1', program('hello')), 2, f'^roam: run: {why}', env=env)
    expect(launched(2, '-H', 'localhost:2', program('hello')), out='the sum of 1 to 2 is 3', env=env)
    result = run(launched(2, '-H', 'localhost:2', program('hello')),
                 env={**env, 'ROAM_TRANSPORT': 'udp'})
    if result.status == 0 or re.search(rf'^roam: .*{why}', result.err, re.M) is None or \
            len(result.err.splitlines()) != 1:
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')


def one_heap_cases():
    ways = [('fork', 2, {}), ('fork', 4, {'ROAM_CHAOS': '1'}), ('fork', 1, {}), ('each', 3, {}),
            ('fork', 3, {'ROAM_ONESIDED': '0'}), ('fork', 2, {'ROAM_TRANSPORT': 'udp'}),
            ('fork', 2, {'ROAM_FAULT': 'sigsegv', 'ROAM_CACHE_PAGES': '1', 'ROAM_ALLOC': 'own'}),
            ('run', 3, {}), ('run', 1, {}), ('run', 2, {'ROAM_TRANSPORT': 'udp'}), ('once', 3, {}),
            ('once', 2, {'ROAM_ONESIDED': '0', 'ROAM_CHAOS': '2'})]
    for protocol in ONE_HEAP:
        for start, nodes, env in ways:
            words = ' '.join(f'{key}={value}' for key, value in env.items())
            command = [program('oneheap'), start, str(nodes)]
            yield (f'{protocol} {start} {nodes} {words}', right,
                   command if start in ('fork', 'each') else launched(nodes, *command),
                   'all of one heap', {'ROAM_PROTOCOL': protocol, **env})
        yield (f'{protocol} -H', right, launched(2, '-H', 'localhost:2', program('oneheap'), 'once', '2'),
               'all of one heap', {'ROAM_PROTOCOL': protocol})
        yield (f'checks under {protocol}', one_heap_checks, protocol)
        yield (f'other hosts under {protocol}', one_heap_apart, protocol)


def frees_cases():
    yield ('frees', frees, 'fork', 100, {})
    yield Later(('frees', frees, 'fork', 200, {}))
    yield ('frees, roam run', frees, 'run', 1, {})
    yield ('frees by message', frees, 'fork', 2, {'ROAM_ONESIDED': '0'})


GROUPS = {
    'regions': lambda: [*regions_cases(), *rest(frees_cases())],
    'one_heap': lambda: [*few(frees_cases()), *one_heap_cases()],
}

if __name__ == '__main__':
    main(GROUPS)
