#!/usr/bin/env python3
"""Transactions on real processes (tx.c, tx_beside.c): over each engine, near and far, with losses and delays; what
is refused, and how a function that does not return ends the job.

usage: transactions.py quick | more
"""
import itertools
import re

from harness import (default_protocol, engines, expect, few, launched, main, program, rest, run, thin, those, Wrong)

TESTS = {'bank': 'tx', 'state': 'tx', 'retry': 'tx', 'blocks': 'tx', 'calls': 'tx', 'spins': 'tx_beside',
         'threads': 'tx_beside', 'mates': 'tx_beside'}
WAYS = [{'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_TRANSPORT': 'udp', 'ROAM_FAULTY': 'drop=3%'},
        {'ROAM_TX_COMMIT': 'pages'}, {'ROAM_TX_COMMIT': 'pages', 'ROAM_TRANSPORT': 'udp', 'ROAM_FAULTY': 'drop=3%'},
        {'ROAM_TX_COMMIT': 'pages', 'ROAM_TX_VALIDATE': 'backward', 'ROAM_ONESIDED': '0'}, {'ROAM_IVY': 'fixed'}, {'ROAM_TX_READS': 'exact'}, {'ROAM_TX_READS': 'resident'},
       {'ROAM_TX_VALIDATE': 'backward'}, {'ROAM_TX_VALIDATE': 'backward', 'ROAM_TX_READS': 'exact'}, {'ROAM_CACHE_PAGES': '3'}, {'ROAM_ALLOC': 'own'}]


def ends(command, env, text):
    """The job ends with one line, and status 1."""
    expect(command, 1, text, env=env)


def refused(command, env, text):
    result = run(command, env=env)
    if result.status == 0 or text not in result.err:
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')


def frees_twice(command, env):
    expect(command, out='^done$', env=env,
           err=r'\Aroam: warning: node \d: roam_free of .*, which is no block of roam_alloc, or freed already, '
               r'at multi_tx\+0x[0-9a-f]+.*; later ones are not reported\Z')


def names(command, env):
    """At least one node has lost attempts for the page, and nothing else."""
    result = run(command, env=env)
    line = (r'roam: conflicts: node \d: page 0x[0-9a-f]+ \(block of multi_tx_beside\+0x[0-9a-f]+.* \+ 0, of 4096 bytes '
            r'from 0x[0-9a-f]+\) was lost by [1-9]\d* attempts, 0 of them in vain\n')
    if result.status != 0 or result.out != 'done\n' or not re.fullmatch(f'({line})+', result.err):
        raise Wrong(f'status {result.status}, stderr {result.err[-900:]!r}')


def done(command, env):
    expect(command, out='^done$', env=env, timeout=60)


def start_cases(protocol, count, nodes):
    own = {'ROAM_PROTOCOL': protocol}
    for test, engine, start in itertools.product(TESTS, engines(), ('fork', 'run')):
        command = [program(TESTS[test]), start, test, str(nodes), str(count)]
        yield (f'{protocol} {test} {engine} {start}', done,
               command if start == 'fork' else launched(nodes, *command), {**own, 'ROAM_FAULT': engine})


def way_cases(protocol, count, nodes):
    own = {'ROAM_PROTOCOL': protocol}
    for test, way in itertools.product(TESTS, WAYS):
        if test == 'spins' and way.get('ROAM_TX_VALIDATE') == 'backward':
            continue  # nothing tells it before it ends
        words = ' '.join(f'{key}={value}' for key, value in way.items())
        yield (f'{protocol} {test} {words}', done, [program(TESTS[test]), 'fork', test, str(nodes), str(count)],
               {**own, **way})


def cases(protocol, count, chaos, nodes):
    own = {'ROAM_PROTOCOL': protocol}
    yield from thin(3, start_cases(protocol, count, nodes))
    yield from thin(7, way_cases(protocol, count, nodes))
    for test, seed in itertools.product(('bank', 'retry', 'blocks', 'threads'), range(1, chaos + 1)):
        yield (f'{protocol} {test} chaos {seed}', done, [program(TESTS[test]), 'fork', test, str(nodes), str(count)],
               {**own, 'ROAM_CHAOS': str(seed), **({'ROAM_TX_COMMIT': 'pages'} if seed % 2 == 0 else {})})


def odd_cases(protocol):
    own = {'ROAM_PROTOCOL': protocol}
    yield ('alone', done, [program('tx'), 'fork', 'alone', '1'], own)
    yield ('waits alone', ends, [program('tx'), 'fork', 'waits', '1'], own,
           r'^roam: node 0: roam_tx_retry in a job of one node: it would wait for ever$')
    for nodes in (2, 4):
        yield (f'team {nodes}', done, [program('tx'), 'fork', 'team', str(nodes)], {**own, 'ROAM_THREADS': '2'})
    yield ('jumps out', ends, [program('tx'), 'fork', 'leaves', '2'], own,
           r'^roam: node 1: a function of roam_tx was left by longjmp, or by an exception$')
    yield ('thread ends', ends, [program('tx'), 'fork', 'gone', '2'], own,
           r'^roam: node 1: a thread has ended within a function of roam_tx$')
    yield ('retry outside', ends, [program('tx'), 'fork', 'out', '2'], own,
           r'^roam: node 1: roam_tx_retry outside of a transaction$')
    for nodes in (1, 2):
        yield (f'frees twice, {nodes}', frees_twice, [program('tx'), 'fork', 'twice', str(nodes)], own)
        yield (f'frees twice, {nodes}, strict', refused, [program('tx'), 'fork', 'twice', str(nodes)],
               {**own, 'ROAM_STRICT': '1'}, 'freed already, at multi_tx+0x')
    yield ('conflicts', names, [program('tx_beside'), 'fork', 'clash', '2', '20000'],
           {**own, 'ROAM_CHECK': 'conflicts', 'ROAM_CHAOS': '3'})
    yield ('conflicts without transactions', refused, [program('tx_beside'), 'fork', 'clash', '2'],
           {'ROAM_PROTOCOL': default_protocol(), 'ROAM_CHECK': 'conflicts'},
           f'roam: ROAM_CHECK=conflicts: ROAM_PROTOCOL={default_protocol()} has no transactions')
    yield ('exits', done, launched(2, program('tx'), 'run', 'exits', '2'), own)
    yield ('no transactions', refused, [program('tx'), 'fork', 'bank', '2'], {'ROAM_PROTOCOL': default_protocol()},
           'not supported by this kernel, build or protocol')
    for job, region in ((protocol, default_protocol()), (default_protocol(), protocol)):
        yield (f'a region of {region} beside {job}', refused, [program('regions'), 'fork', '2', region],
               {'ROAM_PROTOCOL': job},
               f'roam: roam_alloc_region: protocol {region} cannot be beside {job}: a transaction that is '
               f'aborted would not undo what it wrote under {default_protocol()}')


def transactional():
    found = those('transactions')
    if not found:
        raise Wrong('no protocol has transactions')
    return found


def all_cases(count, chaos, nodes):
    for protocol in transactional():
        yield from cases(protocol, count, chaos, nodes)
        yield from odd_cases(protocol)


def long_cases():
    for protocol in transactional():
        yield from cases(protocol, count=500, chaos=4, nodes=3)


GROUPS = {'quick': lambda: few(all_cases(100, 1, 2)),
          'more': lambda: [*rest(all_cases(100, 1, 2)), *long_cases()]}

if __name__ == '__main__':
    main(GROUPS)
