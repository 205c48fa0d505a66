#!/usr/bin/env python3
"""Transactions on real processes (tx.c): over each engine, near and far, with losses and delays; what
is refused, and how a function that does not return ends the job.

usage: transactions.py quick | more
"""
import itertools

from harness import (default_protocol, engines, expect, launched, main, program, run, those, Wrong)

TESTS = ['bank', 'state', 'retry', 'blocks', 'calls', 'threads']
WAYS = [{'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_TRANSPORT': 'udp', 'ROAM_FAULTY': 'drop=3%'},
        {'ROAM_IVY': 'fixed'}, {'ROAM_CACHE_PAGES': '3'}, {'ROAM_ALLOC': 'own'}]


def ends(command, env, text):
    """The job ends with one line, and status 1."""
    expect(command, 1, text, env=env)


def refused(command, env, text):
    result = run(command, env=env)
    if result.status == 0 or text not in result.err:
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')


def done(command, env):
    expect(command, out='^done$', env=env, timeout=60)


def cases(protocol, count, chaos, nodes):
    own = {'ROAM_PROTOCOL': protocol}
    for test, engine, start in itertools.product(TESTS, engines(), ('fork', 'run')):
        command = [program('tx'), start, test, str(nodes), str(count)]
        yield (f'{protocol} {test} {engine} {start}', done,
               command if start == 'fork' else launched(nodes, *command), {**own, 'ROAM_FAULT': engine})
    for test, way in itertools.product(TESTS, WAYS):
        words = ' '.join(f'{key}={value}' for key, value in way.items())
        yield (f'{protocol} {test} {words}', done, [program('tx'), 'fork', test, str(nodes), str(count)],
               {**own, **way})
    for test, seed in itertools.product(('bank', 'retry', 'blocks'), range(1, chaos + 1)):
        yield (f'{protocol} {test} chaos {seed}', done, [program('tx'), 'fork', test, str(nodes), str(count)],
               {**own, 'ROAM_CHAOS': str(seed)})


def odd_cases(protocol):
    own = {'ROAM_PROTOCOL': protocol}
    yield ('alone', done, [program('tx'), 'fork', 'alone', '1'], own)
    yield ('waits alone', ends, [program('tx'), 'fork', 'waits', '1'], own,
           r'^roam: node 0: roam_tx_retry in a job of one node: it would wait for ever$')
    for nodes in (2, 4):
        yield (f'team {nodes}', done, [program('tx'), 'fork', 'team', str(nodes)], {**own, 'ROAM_THREADS': '2'})
    yield ('jumps out', ends, [program('tx'), 'fork', 'leaves', '2'], own,
           r'^roam: node 1: a function of roam_tx was left by longjmp, or by an exception$')
    yield ('retry outside', ends, [program('tx'), 'fork', 'out', '2'], own,
           r'^roam: node 1: roam_tx_retry outside of a transaction$')
    yield ('exits', done, launched(2, program('tx'), 'run', 'exits', '2'), own)
    yield ('no transactions', refused, [program('tx'), 'fork', 'bank', '2'], {'ROAM_PROTOCOL': default_protocol()},
           'not supported by this kernel, build or protocol')
    for job, region in ((protocol, default_protocol()), (default_protocol(), protocol)):
        yield (f'a region of {region} beside {job}', refused, [program('regions'), 'fork', '2', region],
               {'ROAM_PROTOCOL': job},
               f'roam: roam_alloc_region: protocol {region} cannot be beside {job}: a transaction that is '
               f'aborted would not undo what it wrote under {default_protocol()}')


def all_cases(count, chaos, nodes):
    found = those('transactions')
    if not found:
        raise Wrong('no protocol has transactions')
    for protocol in found:
        yield from cases(protocol, count, chaos, nodes)
        yield from odd_cases(protocol)


GROUPS = {'quick': lambda: list(all_cases(100, 1, 2)), 'more': lambda: list(all_cases(1500, 6, 3))}

if __name__ == '__main__':
    main(GROUPS)
