#!/usr/bin/env python3
"""Programs on real processes: bad input, bad days, and jobs of several shapes.

usage: run.py [-k PART_OF_A_NAME] [GROUP]...
"""
import json
import os
import re
import resource
import signal
import tempfile

from harness import Wrong, expect, expect_end, main, program, run

ENGINES = ['uffd', 'sigsegv']
PROTOCOLS = ['hlrc', 'onecopy']
SIGNALLED = 128


def launched(nodes, *command):
    return [program('roam'), 'run', '-n', str(nodes), *command]


def started(start, name, *arguments):
    """A program of this directory: one that forks its nodes (its first argument `fork`), or under
    roam run."""
    words = [program(name), *(str(word) for word in arguments)]
    return words if start == 'fork' else launched(arguments[1], *words)


# ------------------------------------------------------------------------------------- options

def expect_env(command, status, err, out, env):
    return expect(command, status, err, out, env=env)


BAD_VALUES = [
    ('ROAM_HEAP', 'big', r'ROAM_HEAP=big: must be a size from 16M to 1T'),
    ('ROAM_HEAP', '1M', r'ROAM_HEAP=1M: must be a size'),
    ('ROAM_NODES_MAX', '65', r'ROAM_NODES_MAX=65: must be a number from 1 to 64'),
    ('ROAM_NODES_MAX', '-1', r'ROAM_NODES_MAX=-1: must be a number'),
    ('ROAM_SIMD', 'mmx', r'ROAM_SIMD=mmx: must be auto, scalar, avx2 or avx512'),
    ('ROAM_CHECK', 'all', r'ROAM_CHECK=all: must be none or race'),
    ('ROAM_PIN', '2', r'ROAM_PIN=2: must be 0 or 1'),
    ('ROAM_STATS', 'here', r'ROAM_STATS=here: must be 0, 1, or a path'),
    ('ROAM_CHAOS', '1x', r'ROAM_CHAOS=1x: must be a number'),
]


def start_fails(env, line):
    """Whether it forks its nodes or runs under roam run, the program ends with one line."""
    expect([program('stranger'), 'start', '2'], 1, line, env=env)
    expect(launched(2, program('stranger'), 'start', '2'), 2, line, env=env)


def kernel_fails(env, line):
    result = expect([program('fft'), '-p2', '-m10'], 1, line, env=env)
    if 'verified' in result.out:
        raise Wrong('it went on')


def option_cases():
    for variable, known in (('ROAM_PROTOCOL', ['hlrc', 'onecopy']), ('ROAM_TRANSPORT', ['shm']),
                            ('ROAM_FAULT', ['auto', 'sigsegv', 'uffd'])):
        line = f'^roam: {variable}=nope: unknown.*known' + ''.join(f'(?=.* {name})'
                                                                   for name in known)
        yield (f'{variable} unknown', start_fails, {variable: 'nope'}, line)
        yield (f'{variable} unknown to a kernel', kernel_fails, {variable: 'nope'}, line)
    for variable, value, line in BAD_VALUES:
        yield (f'{variable}={value}', start_fails, {variable: value}, '^roam: ' + line)
    near = r'^roam: warning: unknown variable ROAM_PROTCOL; did you mean ROAM_PROTOCOL\?$'
    yield ('unknown variable, fork', expect_env, [program('stranger'), 'start', '2'],
           0, near, 'ended in order', {'ROAM_PROTCOL': 'hlrc'})
    yield ('unknown variable, run', expect_env, launched(2, program('hello')),
           0, near, None, {'ROAM_PROTCOL': 'hlrc'})


def launcher_cases():
    for bad in ('0', '-1', '65', 'two', '2x', ''):
        yield (f'run -n {bad or "nothing"}', expect, launched(bad, program('hello')), 2,
               '^roam: run: -n .*: the number of nodes must be from 1 to 64$')
    yield ('run without -n', expect, [program('roam'), 'run', program('hello')], 2,
           'roam run --help')
    yield ('run without a program', expect, launched(2), 2, 'PROGRAM missing')
    yield ('run of more than allowed', expect_env, launched(5, program('hello')), 2,
           'ROAM_NODES_MAX allows 4', None, {'ROAM_NODES_MAX': '4'})
    yield ('run of nothing there', expect, launched(2, '/nonexistent/program'), 127,
           '^roam: run: cannot run /nonexistent/program: No such file')
    yield ('run of what cannot run', expect, launched(2, '/etc/passwd'), 126,
           '^roam: run: cannot run /etc/passwd: Permission denied')
    for status in (1, 3, 77):
        yield (f'run passes on status {status}', expect,
               launched(2, 'sh', '-c', f'exit {status}'), status,
               rf'^roam: node [01] \(pid \d+\) exited with status {status}')
    yield ('run passes on signals', expect, launched(2, 'sh', '-c', 'kill -USR1 $$'),
           SIGNALLED + signal.SIGUSR1, r'^roam: node [01] \(pid \d+\) was killed by signal 10')


# ------------------------------------------------------------------------------------- trouble

def stranger(how, nodes, env=None, **rest):
    expect([program('stranger'), how, str(nodes)], env=env, out='ended in order', **rest)


def misuse(start, nodes):
    """All is refused; what the library says of a call that returns its error is one line."""
    result = run(started(start, 'misuse', start, nodes))
    strange = [line for line in result.err.splitlines() if not re.match(
        'roam: (nodes cannot be created here|the program asks for )', line)]
    if result.status != 0 or strange or 'all refused' not in result.out:
        raise Wrong(f'status {result.status}, stderr {result.err[-600:]!r}')


def too_many_creates():
    line = '^roam: 4 nodes asked for, at most 3 allowed .ROAM_NODES_MAX.$'
    expect([program('stranger'), 'creates', '9'], 4, line, env={'ROAM_NODES_MAX': '3'})
    expect([program('stranger'), 'start', '4'], 1, line, env={'ROAM_NODES_MAX': '3'})


def refused(calls, command, *arguments, **how):
    return expect([program('refuse'), calls, *command], *arguments, **how)


def refused_uffd():
    count = [program('threads'), 'fork', '2', '1', '5', 'settled']
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        refused('userfaultfd', count, out='counted right', env={'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            engine = json.load(file)
    if 'sigsegv' not in json.dumps(engine):
        raise Wrong(f'did not take sigsegv: {json.dumps(engine)[:200]}')
    refused('userfaultfd', [program('stranger'), 'start', '2'], 1,
            '^roam: ROAM_FAULT=uffd: .*(userfaultfd|not permitted)', env={'ROAM_FAULT': 'uffd'})


def refused_memfd():
    line = '^roam: cannot make the shared memory of node 0: Operation not permitted'
    refused('memfd_create', [program('stranger'), 'start', '2'], 1, line)
    refused('memfd_create', launched(2, program('stranger'), 'start', '2'), 1, line)


def refused_io_uring():
    refused('io_uring_setup', [program('stranger'), 'start', '2'], out='ended in order')


def races():
    def race(how, **rest):
        return expect([program('race'), how], out='ran', env={'ROAM_CHECK': 'race'}, **rest)
    race('racing', err=r'^roam: race: 0x[0-9a-f]+ \(the words \+ 0x38\) was written by node \d '
         r'and node \d in intervals that nothing orders$')
    race('locked')
    race('neighbours')


def stats_once(start):
    result = run(started(start, 'threads', start, 2, 1, 3, 'settled'), env={'ROAM_STATS': '1'})
    tables = len(re.findall('^.*lock_acquires', result.err, re.MULTILINE))
    if result.status != 0 or tables != 1:
        raise Wrong(f'status {result.status}, {tables} tables: {result.err[:600]!r}')


def limits_of_space():
    line = r'^roam: cannot (map|start).*(limit of address space|memory)'
    for command, status in (([program('stranger'), 'start', '2'], 1),
                            (launched(2, program('stranger'), 'start', '2'), 1)):
        expect(command, status, line, limits={resource.RLIMIT_AS: 4 << 30})


def limits_of_files():
    for command in ([program('stranger'), 'start', '20'],
                    launched(20, program('stranger'), 'start', '20')):
        for files in (4, 8, 16):
            expect(command, 1, '^roam: .*ulimit -n', limits={resource.RLIMIT_NOFILE: files})


def trouble_cases():
    yield ('too many CREATEs', too_many_creates)
    yield ('heap exhausted', stranger, 'exhaust', 3, {'ROAM_HEAP': '16M'})
    for start in ('fork', 'run'):
        for nodes in (2, 3):
            yield (f'misuse {start} {nodes}', misuse, start, nodes)
        yield (f'ROAM_STATS printed once, {start}', stats_once, start)
    yield ('userfaultfd refused', refused_uffd)
    yield ('memfd_create refused', refused_memfd)
    yield ('io_uring refused', refused_io_uring)
    yield ('RLIMIT_AS', limits_of_space)
    yield ('RLIMIT_NOFILE', limits_of_files)
    yield ('races', races)
    for engine in ENGINES:
        for how in ('fork', 'system', 'efault', 'blocked'):
            yield (f'{how} {engine}', stranger, how, 2, {'ROAM_FAULT': engine})
        yield (f'beyond the heap {engine}', beyond_heap, engine)
        yield (f'evict {engine}', stranger, 'evict', 2,
               {'ROAM_FAULT': engine, 'ROAM_CACHE_PAGES': '300'})


def beyond_heap(engine):
    """The first byte after the heap is a wild pointer; the last one in it, of no block, is not
    our business, as with malloc."""
    expect([program('stranger'), 'beyond', '2'], SIGNALLED + signal.SIGSEGV,
           r'^roam: node 1 \(pid \d+\) was killed by signal 11',
           env={'ROAM_HEAP': '16M', 'BEYOND': str(16 << 20), 'ROAM_FAULT': engine})


def map_count():
    """More ranges of pages with rights of their own than the kernel allows: it works all the same,
    or says in one line what is too small."""
    result = run([program('stranger'), 'alternate', '2'], env={'ROAM_FAULT': 'sigsegv'}, timeout=60)
    lines = result.err.splitlines()
    if result.status != 0 and not (len(lines) == 1 and 'max_map_count' in lines[0]):
        raise Wrong(f'status {result.status}, stderr {result.err[-500:]!r}')


def limit_cases():
    yield ('max_map_count', map_count)
    yield ('as many ranges with uffd', stranger, 'alternate', 2, {'ROAM_FAULT': 'uffd'})
    for seed in range(1, 6):
        for engine in ENGINES:
            yield (f'evict {engine} chaos {seed}', stranger, 'evict', 3,
                   {'ROAM_FAULT': engine, 'ROAM_CACHE_PAGES': '100', 'ROAM_CHAOS': str(seed)})


# -------------------------------------------------------------------------------------- deaths

ENDS = {
    'kill': (SIGNALLED + 9, r'was killed by signal 9 \(Killed\)'),
    'abort': (SIGNALLED + 6, r'was killed by signal 6'),
    'exit3': (3, 'exited with status 3'),
    '_exit3': (3, 'exited with status 3'),
    '_exit0': (1, r'(exited|ended)'),
    'null': (SIGNALLED + 11, r'was killed by signal 11'),
    'wild': (SIGNALLED + 11, r'was killed by signal 11'),
    'beyond': (SIGNALLED + 11, r'was killed by signal 11'),
    'jump': (SIGNALLED + 11, r'was killed by signal 11'),
}
WAITS = {'barrier': 'at barrier', 'partial': 'at barrier', 'lock': 'in lock', 'flag': 'for flag',
         'reduce': 'in reduction', 'cond': 'waited', 'end': 'at the end', 'compute': ''}


def death(start, nodes, who, how, others, env=None):
    """A node comes to its end; the others end with it, and one line says who and what for."""
    status, said = ENDS[how]
    line = rf'^roam: node {who} \(pid \d+\) {said}'
    if WAITS[others]:
        line += rf'.*node \d waited {WAITS[others]}'.replace('waited waited', 'waited')
    if start == 'fork' and who == 0:  # no watcher of its own is left: its status is the job's
        raise ValueError('see creator_dies')
    expect_end(started(start, 'deaths', start, nodes, who, how, others), nodes, status, line,
               env={'BEYOND': '0x7ff000000000', **(env or {})})


def leaves(start, who):
    """A node may end in order, but not while a barrier counts it."""
    expect_end(started(start, 'deaths', start, 2, who, 'exit0', 'partial'), 2, 1,
               rf'^roam: node \d: barrier 0x[0-9a-f]+ counts node {who}, which has ended$')


def leaves_lock(start, who, others):
    """A node may end in order, but not holding a lock that others ask for, before or after."""
    expect_end(started(start, 'deaths', start, 3, who, 'exit0', others), 3, 1,
               rf'^roam: node {who}: ended holding lock 0x[0-9a-f]+, which node \d waits for$')


def creator_dies(how, status, others):
    """The creator's end is seen by whoever started it; no orphan may be left."""
    expect_end([program('deaths'), 'fork', '3', '0', how, others], 3, status, '')


def interrupted(start, to_all, number):
    """Ctrl-C: the signal reaches the whole session's foreground, or the first process alone."""
    def act(first, pids):
        for pid in {first, *pids} if to_all else {first}:
            os.kill(pid, number)
    command = started(start, 'deaths', start, 3, 1, 'never', 'barrier')
    result = run(command, wanted=3, act=act)
    if result.after is None or result.after > 3:
        raise Wrong(f'ended after {result.after}')
    if result.status not in (-number, SIGNALLED + number):
        raise Wrong(f'status {result.status}, stderr {result.err!r}')
    if len(result.err.splitlines()) > 1:
        raise Wrong(f'more than one line: {result.err!r}')


def launcher_killed():
    expect_end(started('run', 'deaths', 'run', 3, 1, 'never', 'barrier'), 3, -9,
               '', act=lambda first, pids: os.kill(first, signal.SIGKILL))


def killed_from_outside(start, others):
    expect_end(started(start, 'deaths', start, 3, 2, 'never', others), 3, SIGNALLED + 9,
               r'^roam: node 1 \(pid \d+\) was killed by signal 9',
               act=lambda first, pids: os.kill(node_pid(pids), signal.SIGKILL))


def node_pid(pids):
    """Node 1's, which is neither the smallest nor the largest of three."""
    return sorted(pids)[1]


def death_cases():
    for start in ('fork', 'run'):
        for how, others in (('kill', 'barrier'), ('kill', 'lock'), ('kill', 'compute'),
                            ('exit3', 'barrier'), ('_exit3', 'flag'), ('abort', 'partial'),
                            ('_exit0', 'barrier'), ('null', 'barrier'), ('wild', 'lock'),
                            ('beyond', 'barrier')):
            yield (f'{how} {start} others {others}', death, start, 3, 1, how, others)
        yield (f'killed from outside, {start}', killed_from_outside, start, 'compute')
        for to_all in (False, True):
            yield (f'Ctrl-C {start} {"to all" if to_all else "to one"}', interrupted, start, to_all,
                   signal.SIGINT)
        for who in (0, 1):
            yield (f'exit(0) of node {who} {start}', leaves, start, who)
            for others in ('lock', 'late'):
                yield (f'exit(0) of node {who} {start}, {others}', leaves_lock, start, who, others)
        yield (f'SIGTERM {start}', interrupted, start, False, signal.SIGTERM)
    yield ('creator killed', creator_dies, 'kill', -9, 'barrier')
    yield ('launcher killed', launcher_killed)


def more_death_cases():
    for others in WAITS:
        for start in ('fork', 'run'):
            for how in ('kill', 'exit3'):
                yield (f'{how} {start} others {others}', death, start, 4, 2, how, others)
        yield (f'creator killed, others {others}', creator_dies, 'kill', -9, others)
        yield (f'creator aborts, others {others}', creator_dies, 'abort', -6, others)
        yield (f'creator exit(3), others {others}', creator_dies, 'exit3', 3, others)
        yield (f'node 0 killed under run, others {others}', death, 'run', 3, 0, 'kill', others)
    for engine in ENGINES:
        for how in ('null', 'wild', 'beyond', 'jump'):
            for start in ('fork', 'run'):
                yield (f'{how} {start} {engine}', death, start, 2, 1, how, 'barrier',
                       {'ROAM_FAULT': engine})


# ---------------------------------------------------------------------------- threads and rounds

def matrix(seeds):
    for seed in seeds:
        for protocol in PROTOCOLS:
            for engine in ENGINES:
                env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine, 'ROAM_CHAOS': str(seed)}
                yield (f'{protocol} {engine} chaos {seed}', env)


def right(command, out, env):
    expect(command, out=out, env=env, timeout=60)


def thread_cases():
    for text, env in matrix([0, 1, 2]):
        for nodes, threads, start, when in ((2, 2, 'fork', 'settled'), (3, 3, 'fork', 'at-once'),
                                            (3, 2, 'run', 'settled'), (2, 3, 'run', 'at-once')):
            yield (f'threads {start} {nodes} x {threads} {when} {text}', right,
                   started(start, 'threads', start, nodes, threads, 10, when), 'counted right', env)


def round_cases():
    for text, env in matrix([0, 1, 2]):
        for nodes, how in ((2, 'all'), (3, 'all'), (2, 'loop'), (4, 'loop')):
            yield (f'rounds {how} {nodes} {text}', right,
                   [program('rounds'), how, str(nodes), '5'], '5 rounds right', env)


GROUPS = {
    'options': lambda: [*launcher_cases(), *option_cases()],
    'trouble': lambda: list(trouble_cases()),
    'deaths': lambda: list(death_cases()),
    'limits': lambda: list(limit_cases()),
    'threads': lambda: list(thread_cases()),
    'rounds': lambda: list(round_cases()),
    'deaths_more': lambda: list(more_death_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
