#!/usr/bin/env python3
"""Options and the command line of roam run: bad values, unknown names, refusals.

usage: options.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import shutil
import signal
import subprocess

from harness import Wrong, expect, launched, main, program, right, run, started
from shapes import (DEFAULT, ENGINES, KINDS, PROTOCOLS, SIGNALLED, expect_env, kernel_fails,
                    start_fails, with_option)

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
    ('ROAM_CHECK', 'all', r'ROAM_CHECK=all: must be none, race, statics, sharing, pointers, heap, scope or conflicts, several with commas between'),
    ('ROAM_CHECK', 'race,none', r'ROAM_CHECK=race,none: must be none, race, statics, sharing, pointers, heap, scope or conflicts, several'),
    ('ROAM_IVY', 'central', r'ROAM_IVY=central: must be fixed or dynamic'),
    ('ROAM_MIRAGE_DELTA', '10000001', r'ROAM_MIRAGE_DELTA=10000001: must be a number from 0 to'),
    ('ROAM_MIRAGE_DELTA', '1ms', r'ROAM_MIRAGE_DELTA=1ms: must be a number from 0 to'),
    ('ROAM_PIN', '2', r'ROAM_PIN=2: must be 0 or 1'),
    ('ROAM_SEAL', 'on', r'ROAM_SEAL=on: must be auto, auth, encrypt or off'),
    ('ROAM_STATS', 'here', r'ROAM_STATS=here: must be 0, 1, or a path'),
    ('ROAM_CHAOS', '1x', r'ROAM_CHAOS=1x: must be a number'),
]


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
    """The model that the program says it needs: if the protocol's is enough nothing is said; else
    one line, or with ROAM_STRICT the end."""
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


def timed_out():
    deaths = [program('deaths'), 'run', '3', '1', 'never', 'barrier']
    result = expect(with_option(3, ['--timeout', '1'], *deaths), 124,
                    r'^roam: run: the job has not ended within 1 s \(--timeout\); '
                    r'node 0 waited at roam_barrier_all \(2 of 3 threads arrived\), '
                    r'node 2 waited at roam_barrier_all \(2 of 3 threads arrived\)$')
    if not 1 <= result.seconds < 3:
        raise Wrong(f'took {result.seconds:.1f} s')


def bindings(pin):
    """Each node says where it may run; with pinning, on one CPU."""
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
    """gdb lets page faults pass, and stops at other faults."""
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


GROUPS = {
    'options': lambda: [*launcher_cases(), *option_cases(), *needs_cases()],
}

if __name__ == '__main__':
    main(GROUPS)
