#!/usr/bin/env python3
"""Programs on real processes: bad input, bad days, and jobs of several shapes.

usage: run.py [-k PART_OF_A_NAME] [GROUP]...
"""
import contextlib
import itertools
import json
import os
import re
import shutil
import resource
import signal
import subprocess
import tempfile
import time

from creating import all_read, created, early, either, fed, not_again, one_pi
from harness import (END_MAX, SLACK, MemoryGroup, Wrong, default_protocol, engines, expect,
                     expect_end, kinds, launched, main, program, protocols, right, run, started, those)

ENGINES = engines()
MODELS = protocols()
DEFAULT = default_protocol()
KINDS = kinds()
ALL = sorted(MODELS, key=lambda name: name != DEFAULT)
PROTOCOLS = [name for name in ALL if not name.endswith('-rc')]  # NAME-rc is NAME's file again
# Those whose nodes have one heap, beside which there is no other.
ONE_HEAP = those('one_heap')
# And those whose transactions undo what is under them alone.
APART = ONE_HEAP + those('transactions')
SIGNALLED = 128
PAGE = 4096


# ------------------------------------------------------------------------------------- options

def expect_env(command, status, err, out, env):
    return expect(command, status, err, out, env=env)


BAD_VALUES = [
    ('ROAM_FAULTY', 'drpo=5%', r'ROAM_FAULTY=drpo=5%: no fault drpo; did you mean drop\?$'),
    ('ROAM_FAULTY', 'drop=5', 'ROAM_FAULTY=drop=5: drop takes a share like 5%$'),
    ('ROAM_FAULTY', 'drop=101%', 'ROAM_FAULTY=drop=101%: drop takes a share like 5%$'),
    ('ROAM_FAULTY', 'cut=1', 'ROAM_FAULTY=cut=1: cut takes nodes and times like'),
    ('ROAM_FAULTY', 'zzz', 'ROAM_FAULTY=zzz: no fault zzz; known are drop,'),
    ('ROAM_HEAP', 'big', r'ROAM_HEAP=big: must be a size from 16M to 1T'),
    ('ROAM_HEAP', '1M', r'ROAM_HEAP=1M: must be a size'),
    ('ROAM_NODES_MAX', '65', r'ROAM_NODES_MAX=65: must be a number from 1 to 64'),
    ('ROAM_NODES_MAX', '-1', r'ROAM_NODES_MAX=-1: must be a number'),
    ('ROAM_SIMD', 'mmx', r'ROAM_SIMD=mmx: must be auto, scalar, avx2 or avx512'),
    ('ROAM_CHECK', 'all', r'ROAM_CHECK=all: must be none, race, statics, sharing, pointers or heap, several with commas between'),
    ('ROAM_CHECK', 'race,none', r'ROAM_CHECK=race,none: must be none, race, statics, sharing, pointers or heap, several'),
    ('ROAM_IVY', 'central', r'ROAM_IVY=central: must be fixed or dynamic'),
    ('ROAM_MIRAGE_DELTA', '10000001', r'ROAM_MIRAGE_DELTA=10000001: must be a number from 0 to'),
    ('ROAM_MIRAGE_DELTA', '1ms', r'ROAM_MIRAGE_DELTA=1ms: must be a number from 0 to'),
    ('ROAM_PIN', '2', r'ROAM_PIN=2: must be 0 or 1'),
    ('ROAM_SEAL', 'on', r'ROAM_SEAL=on: must be auto, auth, encrypt or off'),
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
    for variable, known in (('ROAM_PROTOCOL', PROTOCOLS), ('ROAM_TRANSPORT', ['shm', 'udp']),
                            ('ROAM_FAULT', ['auto', 'sigsegv', 'uffd'])):
        line = f'^roam: {variable}=nope: unknown.*known' + ''.join(f'(?=.* {name})'
                                                                   for name in known)
        yield (f'{variable} unknown', start_fails, {variable: 'nope'}, line)
        yield (f'{variable} unknown to a kernel', kernel_fails, {variable: 'nope'}, line)
    for variable, value, line in BAD_VALUES:
        yield (f'{variable}={value}', start_fails, {variable: value}, '^roam: ' + line)
    near = r'^roam: warning: unknown variable ROAM_PROTCOL; did you mean ROAM_PROTOCOL\?$'
    yield ('unknown variable, fork', expect_env, [program('stranger'), 'start', '2'],
           0, near, 'ended in order', {'ROAM_PROTCOL': DEFAULT})
    yield ('unknown variable, run', expect_env, launched(2, program('hello')),
           0, near, None, {'ROAM_PROTCOL': DEFAULT})


def needs(start, protocol, models, falls_short):
    """What the program says it needs: enough, nothing is said; else one line, or with ROAM_STRICT
    the end."""
    command = started(start, 'needs', start, 3, *models)
    env = {'ROAM_PROTOCOL': protocol}
    line = rf'needs {falls_short}, and protocol {protocol} promises only '
    expect(command, out='all summed', env=env,
           err=f'^roam: warning: the program {line}' if falls_short else '')
    if falls_short is None:
        expect(command, out='all summed', env={**env, 'ROAM_STRICT': '1'})
        return
    expect(command, out='all summed', env={**env, 'ROAM_LOG': 'error'})
    result = expect(command, 1, rf'^roam: node \d: the program {line}.*ROAM_STRICT=1',
                    env={**env, 'ROAM_STRICT': '1'})
    if 'all summed' in result.out:
        raise Wrong('it went on')


def needs_cases():
    for start in ('fork', 'run'):
        strong = KINDS['one writer']
        yield (f'needs what {strong} has, {start}', needs, start, strong, ('RC', 'SC'), None)
        yield (f'needs what {DEFAULT} has, {start}', needs, start, DEFAULT, ('ScC', 'RC'), None)
        yield (f'needs nothing, {start}', needs, start, DEFAULT, (), None)
        for models in (('SC',), ('ScC', 'SC'), ('SC', 'RC', 'SC')):
            yield (f'needs {" ".join(models)}, {start}', needs, start, DEFAULT, models, 'SC')


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


SCOPED = [name for name in ALL if MODELS[name] == 'ScC']
# Of RC, which there are not beside those.
NEED_NOTICES = those('acquires', model='RC')
WINDOW = those(region_option='ROAM_MIRAGE_DELTA')[0]


def delta(command, env):
    """As delta.c, with the names of a protocol that has the window and of one that has none."""
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
    """Each protocol beside each other one, and all at a time; a region under the job's own."""
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


def unshown(check, protocol):
    return (f'^roam: ROAM_CHECK={check}: needs the writers\' diffs, which ROAM_PROTOCOL={protocol} does '
            f'not show; take ROAM_PROTOCOL={DEFAULT}$')


def one_heap_checks(protocol):
    """What looks at stores is refused in one line, before anything runs; what does not, is not."""
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


def with_option(nodes, words, *command):
    return [program('roam'), 'run', '-n', str(nodes), *words, *command]


def timed_out():
    deaths = [program('deaths'), 'run', '3', '1', 'never', 'barrier']
    result = expect(with_option(3, ['--timeout', '1'], *deaths), 124,
                    r'^roam: run: the job has not ended within 1 s \(--timeout\); '
                    r'node 0 waited at roam_barrier_all \(2 of 3 threads arrived\), '
                    r'node 2 waited at roam_barrier_all \(2 of 3 threads arrived\)$')
    if not 1 <= result.seconds < 3:
        raise Wrong(f'took {result.seconds:.1f} s')


def bindings(pin):
    """Each node says where it may run; pinned, on one CPU."""
    cpus = sorted(os.sched_getaffinity(0))
    result = run(with_option(3, ['--report-bindings'], program('hello')), env={'ROAM_PIN': pin})
    lines = sorted(result.err.splitlines())
    one = {node: str(cpus[node % len(cpus)]) for node in range(3)}
    for node, line in enumerate(lines):
        where = one[node] if pin == '1' else r'[\d,-]+'
        if re.search(rf'^roam: node {node} on host {os.uname().nodename[:63]} \(pid \d+\): CPUs '
                     rf'{where}$', line) is None:
            raise Wrong(f'{line!r}')
    if result.status != 0 or len(lines) != 3:
        raise Wrong(f'status {result.status}, {lines}')


def crash_shown(engine):
    """gdb lets page faults pass and stops where a fault is no page's."""
    result = run(with_option(2, ['--gdb', '1'], program('deaths'), 'run', '2', '1', 'null',
                             'barrier'), env={'ROAM_FAULT': engine})
    if result.status != 255 or re.search(r'(received signal SIGSEGV|hit Breakpoint 1, )'
                                         r'(?s:.*)^#\d+ .* in end_badly ', result.out, re.M) is None:
        raise Wrong(f'status {result.status}, {result.out[-2000:]!r}')


def launcher_cases():
    for bad in ('0', '-1', '65', 'two', '2x', ''):
        yield (f'run -n {bad or "nothing"}', expect, launched(bad, program('hello')), 2,
               '^roam: run: -n .*: the number of nodes must be from 1 to 64$')
    for option, bad, why in (('--timeout', '0', 'a number from 1 to'), ('--gdb', 'x', 'a number'),
                             ('--gdb', '2', 'there are nodes 0 to 1')):
        yield (f'run {option} {bad}', expect, with_option(2, [option, bad], program('hello')), 2,
               f'^roam: run: {option} {bad}: {why}')
    yield ('timeout', timed_out)
    yield ('timeout that is not reached', right,
           with_option(2, ['--timeout', '60'], program('hello')), 'the sum of 1 to 2 is 3', {})
    for pin in '01':
        yield (f'bindings, pin {pin}', bindings, pin)
    if shutil.which('gdb') is None:
        print('skip: gdb: no command gdb')
    elif subprocess.run(['setarch', 'x86_64', '-R', 'true'], stderr=subprocess.DEVNULL,
                        check=False).returncode != 0:
        print('skip: gdb: it may not switch off address randomisation, and says so')
    else:
        yield ('gdb', right, with_option(2, ['--gdb', '1'], program('hello')),
               r'(?s)^(?=.*Inferior 1 .* exited normally)(?=.*the sum of 1 to 2 is 3)', {})
        for engine in ENGINES:
            yield (f'gdb shows a crash, {engine}', crash_shown, engine)
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
    """All is refused; what the library says of a call that returns its error is one line, and of
    locks one of each kind in the job, with the place."""
    place = r'at multi_misuse\+0x[0-9a-f]+( \(\w+\+0x[0-9a-f]+\))?'
    result = run(started(start, 'misuse', start, nodes))
    strange = [line for line in result.err.splitlines() if not re.match(
        'roam: (nodes cannot be created here|the program asks for |warning: node)', line)]
    for wrong in ('roam_lock of .*, which this thread holds already',
                  'roam_unlock of .*, which this thread does not hold',
                  'roam_cond_wait without its lock .*', 'roam_lock of .*, which is no address of an object',
                  'roam_once of .*, which is not in the shared heap',
                  'roam_barrier at .* for no thread, or for more than the job can have',
                  'roam_free of .*, which is no block of roam_alloc, or freed already'):
        if len(re.findall(f'{wrong}, {place}; later', result.err)) != 1:
            strange.append(f'not once: {wrong}')
    if result.status != 0 or strange or 'all refused' not in result.out:
        raise Wrong(f'status {result.status}, {strange}, stderr {result.err[-600:]!r}')
    result = run(started(start, 'misuse', start, nodes), env={'ROAM_STRICT': '1'})
    if result.status == 0 or re.fullmatch(rf'roam: node \d: roam_unlock of .*, {place} '
                                          r'.ROAM_STRICT=1.\n', result.err) is None:
        raise Wrong(f'strict: status {result.status}, stderr {result.err[-600:]!r}')
    where = re.search(r'at multi_misuse\+(0x[0-9a-f]+)', result.err).group(1)
    found = run(['addr2line', '-e', program('misuse'), where])
    if re.search(r'misuse\.c:\d+', found.out) is None:
        raise Wrong(f'addr2line: {found.out!r}')


def objects(start, nodes, env):
    """Locks, conditions and flags need no init, and blocks bring none along."""
    expect(started(start, 'objects', start, nodes), out='all free', env=env)


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
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}):
        refused('io_uring_setup', [program('stranger'), 'start', '2'], out='ended in order',
                env=env)
    refused('io_uring_setup', [program('stranger'), 'start', '2'], 1,
            r'^roam: cannot start the node: .* \(ROAM_UDP=uring does not work here: '
            r'`roam info machine`\)$', env={'ROAM_TRANSPORT': 'udp', 'ROAM_UDP': 'uring'})


def refused_socket():
    """A transport that does not work is named with why; auto does without it where others reach all."""
    said = json.loads(refused('socket', [program('roam'), 'info', 'transports', '--json']).out)
    missing = [each for each in said['transports'] if not each['works'] and 'bare' not in each['capabilities']]
    if not missing or any(not re.search('socket.*: Operation not permitted', each['why']) or
                          'hosts' not in each['capabilities'] for each in missing):
        raise Wrong(f'not why: {said}')
    refused('socket', [program('roam'), 'info', 'transports'],
            out=f'{missing[0]["name"]} +missing: {missing[0]["why"]}: between hosts')
    refused('socket', [program('stranger'), 'start', '2'], out='ended in order')
    refused('socket', [program('stranger'), 'start', '2'], 1,
            f'^roam: ROAM_TRANSPORT={missing[0]["name"]}: {missing[0]["why"]}$',
            env={'ROAM_TRANSPORT': missing[0]['name']})


def refused_pidfd():
    refused('pidfd_open', [program('stranger'), 'start', '2'], 1,
            '^roam: cannot start the nodes: Operation not permitted$')


NO_RACE = '^roam: race: none found$'
NO_STATICS = '^roam: statics: none found$'


def checked(command, check, *lines, status=0, **env):
    """Exactly these lines on stderr, the last of which is the verdict."""
    result = run(command, env={'ROAM_CHECK': check, **env})
    said = result.err.splitlines()
    if result.status != status or len(said) != len(lines) or 'ran' not in result.out or \
            not all(re.search(pattern, line) for pattern, line in zip(lines, said)):
        raise Wrong(f'expected {lines}: status {result.status}, {result.err[-1500:]!r}')


def races(protocol):
    def race(how, *lines):
        checked([program('race'), how], 'race', *lines, ROAM_PROTOCOL=protocol)
    race('racing', r'^roam: race: 0x[0-9a-f]+ \(the words \+ 0x38, of 262144 bytes from 0x[0-9a-f]+\) '
         'was written by node 0 since the barrier and by node 1 since the barrier, in intervals that '
         r'nothing orders; node 0 began to write this page at multi_race\+0x[0-9a-f]+.*, node 1 at '
         r'multi_race\+0x[0-9a-f]+', '^roam: race: 1 found')
    race('locked', NO_RACE)
    race('neighbours', NO_RACE)
    race('stripes' if protocol == DEFAULT else 'few', NO_RACE)


def races_named(protocol):
    """The block by its place in the source, whichever node allocated it and when; each side's last lock;
    one line for all that is alike; counters that begin late change nothing."""
    block = r'\(checked\.C:\d+ \+ 0x[0-9a-f]+, of \d+ bytes from 0x[0-9a-f]+\)'
    place = r'\(checked\.C:\d+ \+ [0-9a-fx]+, of 24000 bytes from 0x[0-9a-f]+\)'
    line = rf'^roam: race: 0x[0-9a-f]+ {place} was written by node 0 since it locked 0x[0-9a-f]+ ' \
        rf'\(checked\.C:\d+ \+ 0, .* and by node 1 since it locked 0x[0-9a-f]+ {block}, in intervals'
    for env in ({}, {'ROAM_STATS_AFTER': '3'}):
        checked([program('checked'), 'races', '2'], 'race', line,
                '^roam: race: 1 found, and [1-9][0-9]* like them$', ROAM_PROTOCOL=protocol, **env)
    checked([program('checked'), 'races', '2'], 'race', line, 'found', status=9,
            ROAM_CHECK_STATUS='9', ROAM_PROTOCOL=protocol)
    checked([program('checked'), 'shared', '2'], 'race', NO_RACE, ROAM_CHECK_STATUS='9',
            ROAM_PROTOCOL=protocol)


def statics():
    """What one node computes for all in its statics is named, with its users; a program that is
    right has none, nor have those with values of their own that are the same everywhere."""
    def lines(nodes):
        end = f'was written after CREATE on node 0 of {nodes}, and differs between them; used by '
        return (fr'^roam: statics: view \(32 bytes\) {end}(turn_view, )?(look, )?work',
                fr'^roam: statics: angle \(8 bytes\) {end}(main, )?(look, )?work|, work',
                '^roam: statics: 2 found$')
    for nodes, env in (2, {}), (3, {'ROAM_TRANSPORT': 'udp'}), (2, {'ROAM_PROTOCOL': KINDS['follows']}), \
            *((3, {'ROAM_PROTOCOL': name}) for name in ONE_HEAP):
        checked([program('checked'), 'statics', str(nodes)], 'statics', *lines(nodes), **env)
    checked(launched(3, '-H', 'localhost:3', program('checked'), 'statics', '3'), 'statics', *lines(3))
    checked([program('checked'), 'statics', '2'], 'race,statics', NO_RACE, *lines(2), status=3,
            ROAM_CHECK_STATUS='3')
    checked([program('checked'), 'shared', '3'], 'statics', NO_STATICS, ROAM_CHECK_STATUS='3')
    for kernel, *size in (('fft', '-m10'), ('lu', '-n100'), ('ocean', '-n34'), ('radix', '-n20000')):
        expect([program(kernel), '-p3', *size], out='verified', err=NO_STATICS,
               env={'ROAM_CHECK': 'statics'})


def races_unseen(protocol):
    """A protocol that cannot check refuses to, in one line; a region of it beside one that can runs."""
    for check in ('race', 'sharing', 'pointers'):
        start_fails({'ROAM_CHECK': f'statics,{check}', 'ROAM_PROTOCOL': protocol},
                    unshown(check, protocol))
    checked([program('race'), 'locked', protocol], 'race', NO_RACE)


def heap_apart(protocol):
    """Red zones are not for models under which a node may not see them."""
    start_fails({'ROAM_CHECK': 'heap', 'ROAM_PROTOCOL': protocol},
                f'^roam: ROAM_CHECK=heap: under ROAM_PROTOCOL={protocol} a node may not see what lies '
                f'around a block; take ROAM_PROTOCOL={DEFAULT}$')


def heap_unharmed(protocol):
    """A program whose blocks come and go is right with red zones, too, and they are whole at its end,
    under every protocol that has the check, whether the nodes are forked or launched."""
    for seed, more in ((1, []), (2, ['--roam', program('roam')])):
        expect([program('random'), '--seed', str(seed), '--nodes', '3', *more], out='^right',
               err='^roam: heap: none found$', env={'ROAM_CHECK': 'heap', 'ROAM_PROTOCOL': protocol})


def race_free(kernel, size):
    """A program whose every sharing is ordered, on pages that have several writers."""
    for protocol in those('checks_races') if kernel == 'jump-sor' else [DEFAULT]:
        expect([program(kernel), '-p3', f'-n{size}', '-t'], out='verified ok', err=NO_RACE,
               env={'ROAM_CHECK': 'race', 'ROAM_PROTOCOL': protocol})


def races_random(protocol):
    """In a program whose every conflict is ordered there is none, and it is as right as unchecked."""
    for seed in (1, 2):
        expect([program('random'), '--seed', str(seed), '--nodes', '3'], out='^right', err=NO_RACE,
               env={'ROAM_CHECK': 'race', 'ROAM_PROTOCOL': protocol})


def stats_once(start):
    result = run(started(start, 'threads', start, 2, 1, 3, 'settled'), env={'ROAM_STATS': '1'})
    tables = len(re.findall('^.*lock_acquires', result.err, re.MULTILINE))
    if result.status != 0 or tables != 1:
        raise Wrong(f'status {result.status}, {tables} tables: {result.err[:600]!r}')


def peak_memory(start):
    """ROAM_STATS tells each node's peak as the kernel does, and not that of the process that started it."""
    ours = bytearray(b'x') * (300 << 20)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        command = [program('stranger'), 'peak', '3']
        result = expect(command if start == 'fork' else launched(3, *command),
                        out='ended in order', env={'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            told = json.load(file)['counters']['peak_memory_kb']
    del ours
    seen = dict(re.findall(r'^peak (\d) (\d+)$', result.out, re.MULTILINE))
    seen = [int(seen[str(node)]) for node in range(3)]
    for node, (kernel, roam) in enumerate(zip(seen, told)):
        if not kernel <= roam <= kernel + 4096 or kernel < (node + 1) * 40 << 10 or \
                kernel > 300 << 10:
            raise Wrong(f'the kernel says {seen}, ROAM_STATS {told}')


def one_line_or_well(command, line, **how):
    """It works, or it ends in order with one line that says what is too small."""
    result = run(command, **how)
    lines = result.err.splitlines()
    if result.status == 0 and not lines and 'ended in order' in result.out:
        return True
    if result.status not in (1, 2) or len(lines) != 1 or re.search(line, lines[0]) is None:
        raise Wrong(f'{how}: status {result.status}, stderr {result.err[-600:]!r}')
    return False


def limits_of_space(start):
    """Whatever of a node's memory it is that does not fit."""
    command = [program('stranger'), 'start', '3']
    line = r'^roam: (node \d: )?cannot (map|start).*ulimit -v'
    fits = [('16M', 20000), ('64M', 1953), ('64G', 10000000)]
    works = [one_line_or_well(command if start == 'fork' else launched(3, *command), line,
                              env={'ROAM_HEAP': heap}, limits={resource.RLIMIT_AS: mib << 20})
             for heap, mib in [('16M', 64), ('16M', 128), ('16M', 300), ('64G', 4096), ('64G', 70000),
                               ('64G', 140000), ('64G', 300000), *fits]]
    if works != [False] * 7 + [True] * len(fits):
        raise Wrong(f'worked: {works}')


def limits_of_files(start):
    """Whatever the descriptor was for that there is none left for."""
    command = [program('stranger'), 'start', '5']
    works = [one_line_or_well(command if start == 'fork' else launched(5, *command),
                              '^roam: .*ulimit -n', limits={resource.RLIMIT_NOFILE: files})
             for files in range(4, 32)]
    if works[0] or not works[-1]:
        raise Wrong(f'worked: {works}')


def kernel_exhausts():
    """A program of macros has no way to ask: it ends, and says where."""
    expect([program('fft'), '-p2', '-m20'], 1, r'^\S*fft.C:\d+: G_MALLOC: the shared heap or the '
           'memory behind it is exhausted$', env={'ROAM_HEAP': '16M'})


GROUP_LIMIT = 128 << 20


def limits_of_memory(start, filler, engine):
    """The heap grows beyond what the memory cgroup has: the kernel kills the node that fills it,
    and one line says why."""
    with MemoryGroup(GROUP_LIMIT) as group:
        if group is None:
            print('skip: memory cgroup: none can be made here')
            return
        command = [program('stranger'), 'fill', '3']
        if start == 'run':
            command = launched(3, *command)
        told = rf'^roam: node {filler} .*: the memory cgroup has no memory left; ' \
            r'node \d waited at roam_barrier_all'
        alone = start == 'fork' and filler == 0
        expect(command, -signal.SIGKILL if alone else SIGNALLED + signal.SIGKILL, told, group=group,
               env={'ROAM_FAULT': engine, 'FILLER': str(filler)})


def enough_memory():
    """A job within its memory limit; at the end the creator has copies of all that was written."""
    with MemoryGroup(12 * GROUP_LIMIT) as group:
        if group is not None:
            stranger('fill', 3, {'FILLER': '1'}, group=group)


def trouble_cases():
    for start in ('fork', 'run'):
        for filler in (0, 1):
            for engine in ENGINES:
                yield (f'memory cgroup, {start}, node {filler}, {engine}', limits_of_memory, start,
                       filler, engine)
    yield ('memory cgroup large enough', enough_memory)
    yield ('too many CREATEs', too_many_creates)
    yield ('heap exhausted', stranger, 'exhaust', 3, {'ROAM_HEAP': '16M'})
    for start in ('fork', 'run'):
        for nodes in (2, 3):
            yield (f'misuse {start} {nodes}', misuse, start, nodes)
            for env in ({}, {'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'},
                        {'ROAM_PROTOCOL': KINDS['follows']}):
                yield (f'objects {start} {nodes} {env}', objects, start, nodes, env)
        yield (f'ROAM_STATS printed once, {start}', stats_once, start)
        yield (f'peak memory, {start}', peak_memory, start)
        yield (f'RLIMIT_AS, {start}', limits_of_space, start)
        yield (f'RLIMIT_NOFILE, {start}', limits_of_files, start)
    yield ('userfaultfd refused', refused_uffd)
    yield ('memfd_create refused', refused_memfd)
    yield ('io_uring refused', refused_io_uring)
    yield ('sockets refused', refused_socket)
    yield ('pidfd_open refused', refused_pidfd)
    yield ('heap exhausted in a kernel', kernel_exhausts)
    for protocol in those('checks_races'):
        yield (f'races under {protocol}', races, protocol)
        yield (f'races named under {protocol}', races_named, protocol)
        yield (f'no races in random programs under {protocol}', races_random, protocol)
    yield ('statics', statics)
    for protocol in those(without=['checks_races', 'one_heap', 'transactions']):
        yield (f'races under {protocol}', races_unseen, protocol)
    for protocol in those():
        apart = protocol in those(model='ScC')
        yield (f'red zones under {protocol}', heap_apart if apart else heap_unharmed, protocol)
    for kernel, size in (('bk', 3000), ('lu', 150), ('me', 20000), ('mm', 70), ('rx', 3000),
                         ('sor', 90)):
        yield (f'no races in jump-{kernel}', race_free, f'jump-{kernel}', size)
    yield from core_cases()
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


CORE_MAX = 50 << 20


def dumped_bytes(pid):
    """What a core file of a process would look like in ls -l, or more: memory of its own."""
    total = size = 0
    with open(f'/proc/{pid}/smaps', encoding='utf-8') as file:
        for line in file:
            words = line.split()
            if words[0] == 'Size:':
                size = int(words[1]) << 10
            elif words[0] == 'VmFlags:' and 'wr' in words and 'dd' not in words:
                total += size
    return total


def core_mapped(start, heap, protocol):
    sizes = []

    def act(first, pids):
        sizes.extend(dumped_bytes(pid) for pid in pids)
        os.kill(max(pid for pid in pids if pid != first), signal.SIGKILL)
    expect_end(started(start, 'deaths', start, 2, 1, 'never', 'barrier'), 2, SIGNALLED + 9,
               '^roam: node', act=act, env={'ROAM_HEAP': heap, 'ROAM_PROTOCOL': protocol})
    if len(sizes) != 2 or not 1 << 20 < min(sizes) <= max(sizes) < CORE_MAX:
        raise Wrong(f'bytes for a core file: {sizes}')


def core_file(start, how):
    """A real core file, where they go where the program runs."""
    with open('/proc/sys/kernel/core_pattern', encoding='ascii') as file:
        if file.read()[0] in '|/':
            return
    with tempfile.TemporaryDirectory() as directory:
        expect(started(start, 'deaths', start, 2, 1, how, 'barrier'), ENDS[how][0], '^roam: node 1',
               env={'ROAM_HEAP': '64G'}, cwd=directory,
               limits={resource.RLIMIT_CORE: resource.RLIM_INFINITY})
        cores = [os.stat(os.path.join(directory, name)) for name in os.listdir(directory)]
    if len(cores) != 1 or not 0 < max(cores[0].st_size, cores[0].st_blocks * 512) < CORE_MAX:
        raise Wrong(f'core files: {[(core.st_size, core.st_blocks * 512) for core in cores]}')


def core_cases():
    for start in ('fork', 'run'):
        for how in ('null', 'abort'):
            yield (f'core file, {how} {start}', core_file, start, how)
        for heap in ('64G', '1T'):
            for protocol in PROTOCOLS:
                yield (f'memory for a core file, {start} {heap} {protocol}', core_mapped, start,
                       heap, protocol)


def limit_cases():
    yield ('max_map_count', map_count)
    if 'uffd' in ENGINES:
        yield ('as many ranges with uffd', stranger, 'alternate', 2, {'ROAM_FAULT': 'uffd'})
    for seed in range(1, 6):
        for engine in ENGINES:
            yield (f'evict {engine} chaos {seed}', stranger, 'evict', 3,
                   {'ROAM_FAULT': engine, 'ROAM_CACHE_PAGES': '100', 'ROAM_CHAOS': str(seed)})


# ----------------------------------------------------------------------------------- strangers

# Open MPI takes UCX only where it finds fast hardware, and starts as root only if told so.
MPI_ENV = {'OMPI_MCA_pml': 'ucx', 'OMPI_MCA_opal_common_ucx_tls': 'any',
           'OMPI_MCA_opal_common_ucx_devices': 'any', 'OMPI_ALLOW_RUN_AS_ROOT': '1',
           'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'UCX_LOG_LEVEL': 'error',
           # Of one process: no shared memory that other tests would see come and go.
           'OMPI_MCA_btl': 'self', 'UCX_TLS': 'self'}
UCX_SIGNALS = {'UCX_ERROR_SIGNALS': 'SIGSEGV,SIGBUS'}


def lives_with_mpi(when, engine, more, err=''):
    expect([program('mpi'), when], 0, err, 'lived together',
           env={**MPI_ENV, 'ROAM_FAULT': engine, **more}, timeout=20)


def dies_of_ucx(engine):
    """That UCX is there and does what the other cases live with: told by the user to take the
    signals, it does so within the job, and the next fault is its."""
    result = run([program('mpi'), 'between'], env={**MPI_ENV, 'ROAM_FAULT': engine, **UCX_SIGNALS},
                 timeout=20)
    number = signal.SIGBUS if engine == 'uffd' else signal.SIGSEGV
    if result.status != -number or 'Caught signal' not in result.err:
        raise Wrong(f'status {result.status}, stderr {result.err[-500:]!r}')


def mpi_cases():
    if 'MULTI_MPI' not in os.environ:
        print('skip: mpi: built without Open MPI')
        yield ('without Open MPI', lambda: None)
        return
    for engine in ENGINES:
        for when in ('before', 'after', 'between'):
            yield (f'MPI_Init {when}, {engine}', lives_with_mpi, when, engine, {})
        for when in ('before', 'after'):
            yield (f'MPI_Init {when}, UCX takes signals, {engine}', lives_with_mpi, when, engine,
                   UCX_SIGNALS)
        yield (f'handlers taken back, {engine}', lives_with_mpi, 'slow', engine, UCX_SIGNALS,
               '^roam: .*handler')
        yield (f'UCX ends the process, {engine}', dies_of_ucx, engine)


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
    'leap': (SIGNALLED + 11, r'was killed by signal 11'),
}
WAITS = {'barrier': 'at roam_barrier_all', 'partial': 'at barrier 0x', 'lock': 'in lock 0x',
         'flag': 'for flag 0x', 'reduce': 'in roam_reduce', 'cond': 'waited',
         'end': 'at the end of the job', 'compute': ''}


def death(start, nodes, who, how, others, env=None):
    """A node comes to its end; the others end with it, and one line says which and what for."""
    status, said = ENDS[how]
    line = rf'^roam: node {who} \(pid \d+\) {said}'
    if WAITS[others]:
        line += rf'.*node \d waited {WAITS[others]}'.replace('waited waited', 'waited')
    if start == 'fork' and who == 0:  # no watcher of its own is left: its status is the job's
        raise ValueError('see creator_dies')
    expect_end(started(start, 'deaths', start, nodes, who, how, others), nodes, status, line,
               env={'BEYOND': '0x7ff000000000', **(env or {})})


def leaves(start, nodes, who, how, others, shape):
    """A node may end in order, but not while a barrier counts it."""
    expect_end(started(start, 'deaths', start, nodes, who, how, others), nodes, 1,
               rf'^roam: node \d: threads wait {WAITS[others]}[0-9a-f]* for node {who}, '
               'which has ended$', env={'ROAM_BARRIER': shape})


def leaves_lock(start, who, others):
    """A node may end in order, but not holding a lock that others ask for, before or after."""
    expect_end(started(start, 'deaths', start, 3, who, 'exit0', others), 3, 1,
               rf'^roam: node {who}: ended holding lock 0x[0-9a-f]+, which node \d waits for$')


def ends_early(start, nodes, who, how, env=None):
    """A node may end in order whenever it likes if no other one needs it: nobody sees that."""
    words = [program('deaths'), 'run' if start == 'run' else 'fork', str(nodes), str(who), how, 'slow']
    expect(words if start == 'fork' else launched(nodes, *words), out='(?s)ready.*ready', env=env,
           timeout=20)


def ends_noted():
    """What a node that called exit has in its statics counts, too."""
    expect([program('deaths'), 'fork', '2', '1', 'exit0', 'slow'], err='^roam: statics: none found',
           env={'ROAM_CHECK': 'statics'}, timeout=20)


def ends_inside(start):
    """A thread's exit would end those that wait for it: a line, and no hang."""
    words = [program('deaths'), 'fork', '4', '1', 'inside0', 'slow']
    expect(words if start == 'fork' else launched(2, *words), 1,
           '^roam: node 0: exit by a thread that the program has made, while threads',
           env={'ROAM_THREADS': '2'}, timeout=20)


def early_cases():
    for start in ('fork', 'run', 'launched'):
        for how in ('exit0', 'finish', 'beside0', 'inside0', 'flush0', 'pthread'):
            if (start, how) != ('run', 'pthread'):
                yield (f'{how} of node 1 {start}, early', ends_early, start, 3, 1, how)
        yield (f'exit0 of node 0 {start}, early', ends_early, start, 3, 0, 'exit0')
        yield (f'exit0 {start}, early, udp', ends_early, start, 2, 1, 'exit0',
               {'ROAM_TRANSPORT': 'udp'})
    yield ('exit0, early, statics', ends_noted)
    for start in ('fork', 'launched'):
        yield (f'inside0 {start}, of two threads', ends_inside, start)


def creator_dies(how, status, others):
    """The creator's end is seen by the process that started it; node 1 says so; no orphan may be left."""
    line = r'^roam: node 0 \(pid \d+\) ' + ENDS[how][1]
    if WAITS[others]:
        line += rf'.*node 1 waited {WAITS[others]}'.replace('waited waited', 'waited')
    expect_end([program('deaths'), 'fork', '3', '0', how, others], 3, status, line)


def interrupted(start, to_all, number):
    """Ctrl-C: the signal reaches the whole session's foreground, or the first process alone."""
    def act(first, pids):
        for pid in {first, *pids} if to_all else {first}:
            with contextlib.suppress(ProcessLookupError):  # the first ends the others
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


def leave_cases(start):
    """Of eight nodes along a tree 5 to 7 are below 1, and only its arrival reaches node 0."""
    for shape in ('flat', 'tree'):
        for nodes, who in ((2, 0), (2, 1), (5, 0), (5, 4), (8, 0), (8, 1), (8, 4), (8, 6)):
            for how, others in (('exit0', 'partial'), ('first0', 'barrier')):
                yield (f'{how} of node {who} of {nodes} {start} {shape} others {others}', leaves,
                       start, nodes, who, how, others, shape)
        yield (f'exit0 of node 6 of 8 {start} {shape} others reduce', leaves, start, 8, 6, 'exit0',
               'reduce', shape)


STUBBORN = 'trap "" INT TERM; echo ready 0 $$; while :; do sleep 0.05; done'
BEFORE_KILL = 5.0  # STOP_S of tools/roam_run.c


def stubborn(number, twice):
    """Nodes that ignore a signal are killed: in the end, or at the second one at once."""
    def act(first, _pids):
        os.kill(first, number)
        if twice:
            time.sleep(0.2)
            os.kill(first, number)
    result = expect(launched(2, 'sh', '-c', STUBBORN), SIGNALLED + number, wanted=2, act=act)
    least, most = (0, 1.5) if twice else (BEFORE_KILL, BEFORE_KILL + 2)
    if not least <= result.after <= most:
        raise Wrong(f'ended after {result.after:.1f} s')


def kind():
    """Nodes that take their time to end in order may."""
    script = 'trap "sleep 1; exit 0" TERM; echo ready 0 $$; while :; do sleep 0.05; done'
    result = expect(launched(2, 'sh', '-c', script), wanted=2,
                    act=lambda first, _pids: os.kill(first, signal.SIGTERM))
    if not 1 <= result.after <= 4:
        raise Wrong(f'ended after {result.after:.1f} s')


def under_shell_launcher_killed():
    """A shell between launcher and node leaves no orphan either."""
    words = [program('deaths'), 'run', '3', '1', 'never', 'barrier']
    expect_end(launched(3, 'sh', '-c', ' '.join(words) + '; exit $?'), 3, -signal.SIGKILL, '',
               act=lambda first, pids: os.kill(first, signal.SIGKILL))


def absent(nodes, who, pause):
    """A node that ends without having called roam_start, while the others wait for it."""
    script = (f'case $ROAM_BOOT in local:{who}:*) sleep {pause}; exit 0;; esac; '
              f'exec {program("hello")}')
    result = expect(launched(nodes, 'sh', '-c', script), 1,
                    rf'^roam: node {who} \(pid \d+\) exited with status 0 and never called '
                    r'roam_start(; node \d waited at its first synchronisation.*)?$')
    if result.seconds > END_MAX + SLACK + pause:
        raise Wrong(f'ended only after {result.seconds:.1f} s')


def many(start):
    """As many nodes as there may be on one host, in good time."""
    words = [program('wake'), '64']
    result = expect(words if start == 'fork' else launched(64, *words), out='woken at once')
    if result.seconds > 5:
        raise Wrong(f'took {result.seconds:.1f} s')


def create_cases():
    """Nodes of `roam run` that all execute main up to CREATE."""
    for way, nodes, env in (('all', 4, {}), ('each', 4, {}), ('all', 2, {'ROAM_PROTOCOL': KINDS['one writer']}),
                            ('all', 3, {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'encrypt'})):
        yield (f'CREATE {way} of {nodes}, run {" ".join(env.values())}', lambda *how: created(run(
            fed(launched(how[1], program('create'), *how[:2])), env=how[2]), how[1]), way, nodes, env)
    yield ('CREATE that nothing announced, run', lambda: created(run(
        fed(launched(4, program('create'), 'late', 4))), 4))
    yield ('CREATE too late, run', lambda: early(run(
        fed(launched(3, program('create'), 'early', 3)))))
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_ALLOC': 'own'}):
        yield (f'the first program, run {" ".join(env.values())}', lambda env_: one_pi(run(
            launched(4, program('example')), env=env_)), env)
    yield ('the first program on too few', expect, launched(3, program('example')), 1,
           '^roam: the program asks for 4 nodes, the launcher started 3$')
    yield ('the first program on one', expect, launched(1, program('example')), 1,
           '^roam: the program asks for 4 nodes, the launcher started 1$')
    for env in ({}, {'ROAM_PROTOCOL': KINDS['one writer']},
                {'ROAM_PROTOCOL': KINDS['twins'], 'ROAM_FAULT': 'sigsegv'},
                {'ROAM_PROTOCOL': KINDS['follows']}, {'ROAM_TRANSPORT': 'udp', 'ROAM_ONESIDED': '0'}):
        yield (f'no CREATE follows, run {" ".join(env.values())}', lambda env_: either(run(
            launched(4, program('either'), '4'), env=env_), 4), env)
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}):
        yield (f'CREATE after roam_start, run {" ".join(env.values())}', lambda env_: expect(
            launched(4, program('either'), '4', 'create'), out=r'\Athe sum is 406\n\Z', env=env_),
               env)
    for nodes in (1, 3):
        yield (f'CREATE of 4 after roam_start against {nodes}', expect,
               launched(nodes, program('stranger'), 'start', '4'), 1,
               f'^roam: the program asks for 4 nodes, the launcher started {nodes}$')
    yield ('CREATE again, run', lambda: not_again(run(
        fed(launched(3, program('create'), 'again', 3)))))
    yield ('input of all, run', lambda: all_read(launched(3, 'cksum'), 3, run))
    yield ('input that nobody reads, and no end of it, run', expect,
           ['sh', '-c', 'yes | exec "$0" "$@"', *launched(3, 'true')])
    wrong = '^roam: the program asks for {} nodes, the launcher started {}$'
    for way, asked, nodes in (('all', 4, 2), ('each', 4, 2), ('each', 2, 4)):
        yield (f'CREATE {way} of {asked} against {nodes}', expect,
               fed(launched(nodes, program('create'), way, asked)), 1, wrong.format(asked, nodes))
    yield ('other allocations, run', expect, fed(launched(3, program('create'), 'uneven', 3)), 1,
           '^roam: node [12] has allocated other blocks before CREATE than node 0: ')
    for name, words in (('create', 'all 2'), ('hello', '')):
        yield (f'another option of one node, {name}', expect, fed(launched(
            2, 'sh', '-c', 'case $ROAM_BOOT in local:1:*) export ROAM_HOT=0;; esac; '
            f'exec {program(name)} {words}')), 1,
               '^roam: node 1 has another ROAM_HOT than node 0: set it once, for all nodes$')
    yield ('another program on one node', expect, fed(launched(
        2, 'sh', '-c', f'case $ROAM_BOOT in local:1:*) exec {program("hello")};; esac; '
        f'exec {program("locks")} run 2 10')), 1, '^roam: node 1 runs another program than node 0: ')


def closed_cases():
    """Programs started with each of the standard descriptors closed, or several."""
    ways = [{}, {'ROAM_FAULT': 'sigsegv', 'ROAM_STATS': '/dev/null'},
            {'ROAM_TRANSPORT': 'udp', 'ROAM_UDP': 'plain'},
            {'ROAM_TRANSPORT': 'udp', 'ROAM_FAULTY': 'drop=1%', 'ROAM_LOG': 'info'}]
    for number, which in enumerate(itertools.product((False, True), repeat=3)):
        shut = ''.join(how for how, yes in zip((' <&-', ' >&-', ' 2>&-'), which) if yes)
        env = ways[number % len(ways)]
        for start, words in (('fork', [program('closed'), '2']),
                             ('run', launched(2, 'sh', '-c', f'exec {program("closed")} 2{shut}')),
                             ('launcher', launched(2, program('closed'), '2'))):
            outer = ['sh', '-c', f'exec "$0" "$@"{shut if start != "run" else ""}', *words]
            # What it prints is not looked at.
            yield (f'closed{shut}, {start} {" ".join(env.values())}', closed, outer, env)


def slip_cases():
    """What a program or its user did is told in one line that is right."""
    for start in ('fork', 'run'):
        for how, line in (('twice', 'node 1: roam_thread_init by a thread that is registered already$'),
                          ('unregistered', 'node 1: roam_thread_fini by a thread that is not registered$'),
                          ('fork', r'process \d+, a fork of node 1, has no shared heap, and touched it')):
            for engine in ENGINES if how == 'fork' else ['auto']:
                words = [program('slips'), how]
                yield (f'slip {how}, {start} {engine}', expect,
                       words if start == 'fork' else launched(2, *words), 0, '^roam: ' + line,
                       'it went on'), {'ROAM_FAULT': engine}
    yield ('slip fork_alone', expect, [program('slips'), 'fork_alone'], 0,
           r'^roam: process \d+, a fork of node 0, has no shared heap, and touched it', 'it went on'), {}
    for start in ('fork', 'run'):
        for how, status, line, out in (
                ('exits', 0, '', 'it went on'),
                ('exits_first', 1, '^roam: node 0: the function of node 0 ended by pthread_exit, which '
                                   'would end main', r'\A\Z')):
            words = [program('slips'), how]
            yield (f'slip {how}, {start}', expect, words if start == 'fork' else launched(2, *words),
                   status, line, out), {}
    for how, line in (('wrlock', 'roam_wrlock of .*, which this thread holds already'),
                      ('rdlock', 'roam_rdlock of .*, which this thread holds already'),
                      ('once', 'roam_once of .*, which this thread holds already'),
                      ('realloc', 'roam_realloc of .*, which is no block of roam_alloc, or freed already')):
        yield (f'slip {how}', expect, [program('slips'), how], 0,
               rf'^roam: warning: node 1: {line}, at multi_slips\+0x[0-9a-f]+( \(\w+\+0x[0-9a-f]+\))?; later',
               'it went on'), {}
    for env in ({}, {'ROAM_ONESIDED': '0'}):
        for how, line in (('counts', 'threads arrived at barrier 0x[0-9a-f]+ for 2 threads in all, and for 3: all '
                                     'callers pass the same number$'),
                          ('registers', 'threads arrived at roam_barrier_all for 2 threads in all, and for 3: one '
                                        'was registered, or ended, between them$')):
            yield (f'slip {how}', expect, [program('slips'), how], 1, rf'^roam: node \d: {line}',
                   r'\A\Z'), env
    yield ('slip ignores an option', expect, [program('slips'), 'ignores'], 1,
           '^roam: ROAM_PROTOCOL=nope: unknown', r'\A\Z'), {'ROAM_PROTOCOL': 'nope'}


def slip(env, command, status, err, out):
    expect(command, status, err, out, env=env)


def file_limit(start):
    words = [program('stranger'), 'start', '2']
    expect(words if start == 'fork' else launched(2, *words), 1,
           r'^roam: cannot make the shared memory of node 0: File too large \(raise the limit of '
           r'file sizes, ulimit -f\)$', limits={resource.RLIMIT_FSIZE: 1 << 20})


def others_key():
    """A key that another user may know or change."""
    with tempfile.TemporaryDirectory() as where:
        path = f'{where}/key'
        with open(path, 'w', encoding='utf-8') as file:
            file.write('0' * 64)
        os.chmod(path, 0o600)
        os.chown(path, 65534, -1)
        expect([program('roam'), 'past', 'serve', f'{where}/socket', '--key', path], 1,
               'the key in .* is not safe: it belongs to another user$')


def launcher_gone_early():
    """Whenever the launcher is killed, no node blames the network, or anything else."""
    for turn in range(40):
        with subprocess.Popen([program('roam'), 'run', '-n', '2', *(['-H', 'localhost'] * (turn % 4 > 0)),
                               program('hello')], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as launcher:
            time.sleep(0.001 * turn)
            launcher.kill()
            said = launcher.stderr.read()
        if said:
            raise Wrong(f'killed after {turn} ms: {said!r}')


def closed(command, env):
    result = run(command, env=env)
    if result.status != 0:
        raise Wrong(f'status {result.status}, {result.err[-300:]!r}')


def start_cases():
    yield from create_cases()
    yield from closed_cases()
    for case, env in slip_cases():
        yield (case[0], slip, env, *case[2:])
    for start in ('fork', 'run'):
        yield (f'limit of file sizes, {start}', file_limit, start)
    if os.geteuid() == 0:
        yield ('a key of another user', others_key)
    yield ('launcher killed early', launcher_gone_early)
    for start in ('fork', 'run'):
        yield (f'64 nodes, {start}', many, start)
    for nodes, who, pause in ((2, 0, 0), (2, 1, 0), (2, 1, 1), (5, 3, 0), (5, 4, 1)):
        yield (f'absent {who} of {nodes}, {pause} s', absent, nodes, who, pause)
    yield ('no process joins', expect, launched(3, 'true'))
    yield ('no process joins, at different times', expect,
           launched(3, 'sh', '-c', 'case $ROAM_BOOT in local:1:*) sleep 0.5;; esac'))
    for number in (signal.SIGINT, signal.SIGTERM):
        yield (f'stubborn, {number.name} twice', stubborn, number, True)
    yield ('stubborn', stubborn, signal.SIGTERM, False)
    yield ('kind', kind)
    yield ('launcher killed, under a shell', under_shell_launcher_killed)
    for command, status in (([program('hello')], 1), (launched(2, program('hello')), 2)):
        yield (f'one line of {" ".join(command[1:2]) or "hello"}', expect_env, command, status,
               '^roam: ROAM_HEAP=1M: must be', None, {'ROAM_HEAP': '1M'})


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
        yield from leave_cases(start)
        for who in (0, 1):
            for others in ('lock', 'late'):
                yield (f'exit(0) of node {who} {start}, {others}', leaves_lock, start, who, others)
        yield (f'SIGTERM {start}', interrupted, start, False, signal.SIGTERM)
    yield from early_cases()
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
        for how in ('null', 'wild', 'beyond', 'leap'):
            for start in ('fork', 'run'):
                yield (f'{how} {start} {engine}', death, start, 2, 1, how, 'barrier',
                       {'ROAM_FAULT': engine})


# ---------------------------------------------------------------------------- threads and rounds

def matrix(seeds):
    """Each protocol with each seed, and with each engine in turn: two seeds see all pairs."""
    for seed in seeds:
        for at, protocol in enumerate(PROTOCOLS):
            engine = ENGINES[(at + seed) % len(ENGINES)]
            env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine, 'ROAM_CHAOS': str(seed)}
            yield (f'{protocol} {engine} chaos {seed}', env)


def thread_cases():
    for text, env in matrix([0, 1, 2]):
        for nodes, threads, start, when in ((2, 2, 'fork', 'settled'), (3, 3, 'fork', 'at-once'),
                                            (3, 2, 'run', 'settled'), (2, 3, 'run', 'at-once')):
            yield (f'threads {start} {nodes} x {threads} {when} {text}', right,
                   started(start, 'threads', start, nodes, threads, 10, when), 'counted right', env)
    for text, env in matrix([0, 1]):
        if env['ROAM_PROTOCOL'] in those(writers='one'):
            yield f'beside {text}', right, [program('beside'), '300'], 'nothing lost', env


def seen_through():
    """A debugger that stops in a fault shows the program's frames behind it."""
    shown = run(['gdb', '-nx', '-batch', '-ex', 'set breakpoint pending on',
                 '-ex', 'handle SIGBUS SIGSEGV SIGALRM nostop noprint pass',
                 '-ex', 'break roami_page_done', '-ex', 'run', '-ex', 'bt',
                 '--args', program('stacks'), '2', '1']).out
    frames = re.findall(r'^#\d+ .*?(roami_fault|signals_handler|work) \(', shown, re.M)
    if frames[:1] != ['roami_fault'] or frames[-2:] != ['signals_handler', 'work']:
        raise Wrong(f'frames {frames}: {shown[-3000:]!r}')


def ended_in_fault(number):
    """A node whose threads are all in faults for good takes the signals that end it."""
    def act(_first, pids):
        time.sleep(.3)
        os.kill(pids[0], number)

    result = run([program('cancel'), 'stopped', '3'], wanted=3, act=act,
                 env={'ROAM_TRANSPORT': 'udp', 'ROAM_DEADLINE': '0'})
    if result.status != -number or result.after > 3:
        raise Wrong(f'status {result.status} after {result.after:.1f} s: {result.err!r}')


def stack_cases():
    """Faults on small stacks; with few pages, for what a fault does to make room."""
    for protocol in list(KINDS.values())[:-1]:
        for transport in ('shm', 'udp'):
            yield (f'stacks {protocol} {transport}', right, [program('stacks'), '3', '5'],
                   'stacks right', {'ROAM_PROTOCOL': protocol, 'ROAM_TRANSPORT': transport})
    lazy = KINDS['twins']
    yield (f'stacks {lazy} udp sigsegv, few pages', right, [program('stacks'), '3', '5'], 'stacks right',
           {'ROAM_PROTOCOL': lazy, 'ROAM_TRANSPORT': 'udp', 'ROAM_FAULT': 'sigsegv',
            'ROAM_CACHE_PAGES': '4'})
    for what in ('deferred', 'asynchronous', 'longjmp'):
        for transport in ('shm', 'udp'):
            yield (f'cancel {what} {transport}', right, [program('cancel'), what, '3'], 'loads right',
                   {'ROAM_TRANSPORT': transport})
    for number in (signal.SIGINT, signal.SIGTERM):
        yield f'{number.name} in a fault', ended_in_fault, number
    for what in ('deferred', 'asynchronous', 'longjmp', 'ended'):
        for transport in ('shm', 'udp'):
            yield (f'calls {what} {transport}', right, [program('calls'), what, '3'], 'calls right',
                   {'ROAM_TRANSPORT': transport})
    for what, text in (('longjmp', 'roam_touch is called by a thread that is within roam_barrier: a '
                                   'signal handler has jumped out of that, or calls roam'),
                       ('ended', 'a thread has ended within roam_barrier: ')):
        yield (f'calls {what}, early', expect_env, [program('calls'), what, '2'], 1,
               rf'^roam: node \d: {text}', None, {'ROAM_SPIN_US': '1000000'})
    yield 'a debugger sees through', seen_through


def round_cases():
    yield ('idle', right, launched(3, program('idle'), '3'), 'node 2: ', {})
    for text, env in matrix([0, 1, 2]):
        for nodes, how in ((2, 'all'), (3, 'all'), (2, 'loop'), (4, 'loop')):
            yield (f'rounds {how} {nodes} {text}', right,
                   [program('rounds'), how, str(nodes), '5'], '5 rounds right', env)


def team(how, processes, threads, rounds=3):
    return [program('team'), how, processes, threads, rounds]


def not_divisible(how):
    """An error of roam_create_all; of other calls, which have none for it, the end."""
    expect(list(map(str, team(how, 6, 4))), 1,
           r'^roam: 6 processes cannot be divided among nodes of 4 threads each \(ROAM_THREADS\)$',
           env={'ROAM_THREADS': '4'})


def team_stats(command, env, processes=4, each=2):
    """Each thread has counted what it did; their sums are the node's."""
    with tempfile.TemporaryDirectory(prefix='roam-team-') as where:
        path = os.path.join(where, 'stats.json')
        right(command, f'{processes} processes right', {**env, 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            stats = json.load(file)
    threads = stats['threads']
    if [(one['node'], one['thread']) for one in threads] != [divmod(i, each) for i in range(processes)]:
        raise Wrong(f'{threads}')
    for node in range(processes // each):
        mine = [one for one in threads if one['node'] == node]
        faults = stats['counters']['read_faults'][node] + stats['counters']['write_faults'][node]
        if sum(one['locks'] for one in mine) != stats['counters']['lock_acquires'][node] or \
                not 0 < sum(one['faults'] for one in mine) <= faults:
            raise Wrong(f'{mine}, {stats["counters"]}')


REFUSED = r"""roam: node {node}: roam_thread_init: the threads of this job are fixed \(ROAM_THREADS=2\)
roam: node {node}: roam_thread_fini: the threads of this job are fixed \(ROAM_THREADS=2\)
roam: nodes cannot be created here: the job is sealed
roam: node {node}: roam_wait_for_end by process {process}, a thread of that node: only .*
roam: node {node}: roam_finish by process {process}, a thread of that node: only the node's first thread may, .*
"""


def team_refused(command, node, process, env):
    """What a thread of a team may not do is refused, and changes nothing: the program ends right."""
    result = run(command, env=env, timeout=60)
    if result.status != 0 or 'processes right' not in result.out or \
            re.fullmatch(REFUSED.format(node=node, process=process), result.err) is None:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


def team_alone(how):
    """A job of one node restricts, copies and sends nothing."""
    with tempfile.TemporaryDirectory(prefix='roam-team-') as where:
        path = os.path.join(where, 'stats.json')
        right(list(map(str, team(how, 4, 4))), '4 processes right', {'ROAM_THREADS': '4', 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            stats = json.load(file)
    counters = stats['counters']
    busy = {name: counters[name] for name in ('read_faults', 'write_faults', 'fetches', 'twins', 'diffs',
                                              'protects', 'invalidations', 'messages_sent') if counters[name] != [0]}
    if stats['engine'] != 'plain' or busy or counters['conds'] == [0] or counters['flags'] == [0]:
        raise Wrong(f'{stats["engine"]}, {busy}')


def held(env):
    """Each process prints once, and what main had printed before is there once."""
    result = run(list(map(str, team('held', 6, 3, 1))), env={'ROAM_THREADS': '3', **env}, timeout=60)
    lines = sorted(result.out.splitlines())
    if result.status != 0 or lines != sorted(['6 processes right', *(f'process {i} of 6' for i in range(6))]):
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


def late_statics():
    """What main writes between its CREATEs all processes have, which ROAM_CHECK=statics says."""
    result = run(list(map(str, team('late', 4, 2, 1))), env={'ROAM_THREADS': '2', 'ROAM_CHECK': 'statics'},
                 timeout=60)
    said = re.findall(r'^roam: statics: (\w+) \(.*was written between CREATE and the first synchronisation: ',
                      result.err, re.MULTILINE)
    if result.status != 0 or said != ['late']:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


ASKS_FOR_TWO = r'^roam: the program asks for 2 nodes, the launcher started 1$'


NODES = '/sys/devices/system/node'
OWN_MOUNTS = ['unshare', '--mount', '--propagation', 'private']


def two_domains():
    """--threads auto with two NUMA domains: a node of each, bound to its processors."""
    cpus = sorted(os.sched_getaffinity(0))
    halves = cpus[:len(cpus) // 2], cpus[len(cpus) // 2:]
    with tempfile.TemporaryDirectory() as place:
        with open(f'{place}/online', 'w', encoding='ascii') as file:
            file.write('0-1\n')
        for number, half in enumerate(halves):
            os.mkdir(f'{place}/node{number}')
            with open(f'{place}/node{number}/cpulist', 'w', encoding='ascii') as file:
                file.write(','.join(map(str, half)) + '\n')
        result = run([*OWN_MOUNTS, 'sh', '-c', 'mount --bind "$1" "$2" && shift 2 && exec "$@"', 'sh', place, NODES,
                      *with_option(2, ['--threads', 'auto', '--report-bindings'],
                                   *map(str, team('all', len(cpus), len(halves[0]), 1)))], env={})
    said = re.findall(r'^roam: node (\d) .*: CPUs ([\d,-]+)$', result.err, re.MULTILINE)
    if result.status != 0 or f'{len(cpus)} processes right' not in result.out or \
            [sorted(spread(text)) for _, text in sorted(said)] != list(map(list, halves)):
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


def spread(text):
    """The numbers of 0,2-4."""
    for part in text.split(','):
        first, _, last = part.partition('-')
        yield from range(int(first), int(last or first) + 1)


def domain_cases():
    """Where mounts may be made, and the processors are an even number."""
    if os.geteuid() == 0 and len(os.sched_getaffinity(0)) % 2 == 0 and \
            subprocess.run([*OWN_MOUNTS, 'true'], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        yield ('two NUMA domains', two_domains)


def team_cases():
    """Nodes of several threads."""
    yield from domain_cases()
    for text, env in matrix([0, 1]):
        for how, processes, threads in (('all', 4, 2), ('loop', 6, 3), ('loop', 4, 4), ('unequal', 6, 2)):
            yield (f'team {how} {processes} / {threads} {text}', right,
                   list(map(str, team(how, processes, threads))), f'{processes} processes right',
                   {**env, 'ROAM_THREADS': str(threads)})
    for text, env in (('near', {}), ('far', {'ROAM_ONESIDED': '0'}), ('udp', {'ROAM_TRANSPORT': 'udp'}),
                      ('encrypted', {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'encrypt'})):
        for how in ('all', 'loop', 'unequal'):
            yield (f'team {how} launched {text}', right,
                   with_option(3, ['--threads', '2'], *map(str, team(how, 6, 2, 1))),
                   '6 processes right', env)
    for text, env in (('near', {}), ('udp', {'ROAM_TRANSPORT': 'udp'})):
        yield (f'counters of threads {text}', team_stats, list(map(str, team('all', 4, 2, 1))),
               {**env, 'ROAM_THREADS': '2'})
        yield (f'counters of threads {text}, launched', team_stats,
               with_option(2, ['--threads', '2'], *map(str, team('all', 4, 2, 1))), env)
    for processes, each in ((64, 16), (64, 32), (64, 4)):
        yield (f'counters of {processes // each} x {each} threads', team_stats,
               list(map(str, team('all', processes, each, 1))), {'ROAM_THREADS': str(each)}, processes, each)
    yield ('counters of 2 x 20 threads, hosts', team_stats,
           with_option(2, ['-H', 'localhost:1,localhost:1', '--threads', '20'],
                       *map(str, team('all', 40, 20, 1))), {}, 40, 20)
    yield ('counters of threads, hosts', team_stats,
           with_option(2, ['-H', 'localhost:1,localhost:1', '--threads', '2'],
                       *map(str, team('all', 4, 2, 1))), {})
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}, *({'ROAM_PROTOCOL': name} for name in sorted(set(KINDS.values())))):
        for each in (2, 4, 8):
            yield (f'tuples of a team, {8 // each} x {each} {env}', right, list(map(str, team('past', 8, each, 1))),
                   '8 processes right', {**env, 'ROAM_THREADS': str(each)})
    yield ('tuples of a team, launched', right,
           with_option(2, ['--threads', '3'], *map(str, team('past', 6, 3, 1))), '6 processes right', {})
    yield ('team of 16 x 4', right, list(map(str, team('all', 64, 4, 1))), '64 processes right',
           {'ROAM_THREADS': '4'})
    yield ('team, own allocator', right, list(map(str, team('loop', 6, 3))), '6 processes right',
           {'ROAM_THREADS': '3', 'ROAM_ALLOC': 'own'})
    for how in ('all', 'loop'):
        yield f'team of one node, idle library, {how}', team_alone, how
    for env in ({}, {'ROAM_ALLOC': 'own'}):
        yield f'team, stdout held {env}', held, env
    yield 'team, statics written between CREATEs', late_statics
    for how in ('all', 'loop'):
        yield f'team, not divisible, {how}', not_divisible, how
    for how, status, err in (
            ('early', 1, r'^roam: node \d+: no thread of the job can go on; '),
            ('killed', 139, r'^roam: node 1 \(pid \d+\) was killed by signal 11 '),
            ('cancelled', 1, r'^roam: node \d+: no thread of the job can go on; '),
            ('quit', 1, r'^roam: node 1: exit by process 3, a thread of this node, would end '),
            ('leave', 3, r'^roam: node 1 \(pid \d+\) exited with status 3')):
        yield (f'team, {how}', expect_env, list(map(str, team(how, 4, 2, 1))), status, err, '',
               {'ROAM_THREADS': '2'})
        yield (f'team, {how}, launched', expect,
               with_option(2, ['--threads', '2'], *map(str, team(how, 4, 2, 1))), status, err, '')
    for how in ('all', 'loop'):
        yield (f'team of one node, {how}', right, list(map(str, team(how, 2, 2))), '2 processes right',
               {'ROAM_THREADS': '2'})
        yield (f'team of one launched node, {how}', right,
               with_option(1, ['--threads', '2'], *map(str, team(how, 2, 2, 1))), '2 processes right', {})
        yield (f'team of two, one node launched, {how}', expect,
               with_option(1, ['--threads', '2'], *map(str, team(how, 4, 2, 1))), 1,
               ASKS_FOR_TWO, '')
    yield ('team of three, two threads, one node launched', expect,
           with_option(1, ['--threads', '2'], *map(str, team('loop', 3, 2, 1))), 1, ASKS_FOR_TWO, '')
    yield ('team of two, three threads, one node launched', expect,
           with_option(1, ['--threads', '3'], *map(str, team('loop', 2, 2, 1))), 1,
           r'^roam: 2 processes cannot be divided among nodes of 3 threads each \(ROAM_THREADS\)$', '')
    yield ('threads without effect', expect, with_option(2, ['--threads', '2'], program('hello')), 0,
           '^roam: ROAM_THREADS=2 had no effect: the program has not called CREATE$', 'the sum of')
    for value in ('0', '257', 'all', '-1'):
        yield (f'ROAM_THREADS={value}', expect_env, [program('hello')], 1,
               f'^roam: ROAM_THREADS={value}: must be auto or a number from 1 to 256$', '',
               {'ROAM_THREADS': value})
        yield (f'--threads {value}', expect, with_option(2, ['--threads', value], program('hello')), 2,
               '^roam: run: --threads ', '')
    for processes, node in ((4, 1), (2, 0)):
        words = list(map(str, team('fixed', processes, 2, 1)))
        yield (f'team of {processes}, calls that are refused', team_refused, words, node, processes - 1,
               {'ROAM_THREADS': '2'})
        yield (f'team of {processes}, calls that are refused, launched', team_refused,
               with_option(node + 1, ['--threads', '2'], *words), node, processes - 1, {})
    for how in ('gone', 'helper', 'child'):
        for processes in (4, 2):
            yield (f'team of {processes}, {how}', right, list(map(str, team(how, processes, 2))),
                   f'{processes} processes right', {'ROAM_THREADS': '2'})


def frees(how, rounds, env):
    """In a heap that is too small for what the rounds allocate together."""
    words = [program('frees'), how, '3', str(rounds)]
    right(words if how == 'fork' else launched(3, *words), f'{rounds} rounds of frees right',
          {'ROAM_HEAP': '96M' if rounds < 100 else '16M', 'ROAM_LOG': 'error', **env})  # it frees what is no block


def frees_cases():
    yield ('frees', frees, 'fork', 200, {})
    yield ('frees, roam run', frees, 'run', 1, {})
    yield ('frees by message', frees, 'fork', 2, {'ROAM_ONESIDED': '0'})


def more_frees_cases():
    for text, env in matrix([0]):
        yield (f'frees {text}', frees, 'fork', 3, env)
        yield (f'frees, roam run, {text}', frees, 'run', 1, env)
    yield ('frees, own allocator', frees, 'fork', 3, {'ROAM_ALLOC': 'own'})


def heap_cases():
    yield from more_frees_cases()
    for text, env in matrix([0, 1]):
        for nodes, start, heap in ((3, 'fork', 33), (4, 'run', 48)):
            bytes_ = (heap << 20) + (PAGE if heap == 33 else 0)
            yield (f'heap of {heap} MiB {start} {nodes} {text}', right,
                   started(start, 'heap', start, nodes, bytes_), 'one heap',
                   {**env, 'ROAM_HEAP': str(bytes_), 'ROAM_LOG': 'error'})  # it frees what is no block


def lock_cases():
    """At last more than there are records for in shared memory at one node."""
    for text, env in matrix([0]):
        for onesided in '10':
            if env['ROAM_PROTOCOL'] == DEFAULT or onesided == '1':
                yield (f'locks {text} one-sided {onesided}', right,
                       started('fork', 'locks', 'fork', 2, 100000), '100000 locks right',
                       {**env, 'ROAM_ONESIDED': onesided})
    yield ('locks run 3', right, started('run', 'locks', 'run', 3, 450000), '450000 locks right', {})
    for processes, threads in ((4, 4), (4, 2)):
        yield (f'locks fork {processes} / {threads} threads', right,
               started('fork', 'locks', 'fork', processes, 100000), '100000 locks right',
               {'ROAM_THREADS': str(threads)})


def soon_cases(seeds):
    """Calls that give up, where a lock goes by its record and by messages."""
    for text, env in matrix(seeds):
        yield (f'soon fork 3 {text}', right, started('fork', 'soon', 'fork', 3, 200), 'in time', env)
    for start, env in (('run', {'ROAM_TRANSPORT': 'udp'}), ('run', {'ROAM_ONESIDED': '0'}),
                       ('fork', {'ROAM_THREADS': '2'}), *(('fork', {'ROAM_PROTOCOL': one}) for one in ONE_HEAP),
                       ('fork', {'ROAM_TRANSPORT': 'udp', 'ROAM_THREADS': '2'})):
        yield (f'soon {start} 4 {env}', right, started(start, 'soon', start, 4, 200), 'in time', env)


def past_cases(protocols, seeds):
    """Tuples beside pages: under any protocol, and over any transport."""
    for seed in seeds:
        for protocol in protocols:
            for start, nodes, transport in (('fork', 2, 'shm'), ('run', 3, 'shm'),
                                            ('run', 2, 'udp')):
                env = {'ROAM_PROTOCOL': protocol, 'ROAM_TRANSPORT': transport,
                       'ROAM_CHAOS': str(seed)}
                yield (f'past {start} {nodes} {transport} {protocol} chaos {seed}', right,
                       started(start, 'past', start, nodes), 'tuples right', env)


GROUPS = {
    'options': lambda: [*launcher_cases(), *option_cases(), *needs_cases()],
    'past': lambda: list(past_cases([DEFAULT], [0])),
    'past_more': lambda: list(past_cases(
        [KINDS[kind] for kind in ('one writer', 'twins', 'follows')], [1, 2])),
    'regions': lambda: list(regions_cases()),
    'one_heap': lambda: [*frees_cases(), *one_heap_cases()],
    'trouble': lambda: list(trouble_cases()),
    'mpi': lambda: list(mpi_cases()),
    'start': lambda: list(start_cases()),
    'deaths': lambda: list(death_cases()),
    'limits': lambda: list(limit_cases()),
    'threads': lambda: list(thread_cases()),
    'rounds': lambda: list(round_cases()),
    'team': lambda: list(team_cases()),
    'stacks': lambda: list(stack_cases()),
    'heap': lambda: list(heap_cases()),
    'locks': lambda: list(lock_cases()),
    'soon': lambda: list(soon_cases([0])),
    'soon_more': lambda: list(soon_cases([1, 2])),
    'deaths_more': lambda: list(more_death_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
