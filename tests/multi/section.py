#!/usr/bin/env python3
"""Statics in the shared heap (ROAM_SHARED): forked and launched, under every protocol and engine,
beside private neighbours, in a library, at fixed addresses; what cannot be moved is refused.

usage: section.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import shutil
import subprocess
import tempfile

from harness import ROOT, Wrong, engines, expect, launched, main, program, protocols, right, run

HERE = os.path.join(ROOT, 'tests', 'multi')
OK = '^section: ok$'


def way_cases():
    """Each way to start, each engine, at random and at fixed addresses."""
    for engine in engines():
        env = {'ROAM_FAULT': engine}
        for name in 'section', 'section_fixed':
            path = program(name)
            for text, command in {'alone': [path, 'fork', '1'], 'forked': [path, 'fork', '3'],
                                  'launched': launched(3, path, 'fork', '3'),
                                  'spmd': launched(3, path, 'spmd', '3'),
                                  'either': launched(2, path, 'either', '2'),
                                  'system calls': [path, 'sync', '2']}.items():
                yield f'{name}, {text}, {engine}', right, command, OK, env
    path = program('section')
    for text, command in {'spmd of one': [path, 'spmd', '1'],
                          'spmd of one, launched': launched(1, path, 'spmd', '1'),
                          'hosts': launched(3, '-H', 'localhost:2,localhost:1', path, 'fork', '3'),
                          'hosts, spmd': launched(2, '-H', 'localhost:2', path, 'spmd', '2')}.items():
        yield text, right, command, OK, {}


def checked(check, wanted, unwanted, times=2):
    """What a check says, at the end of each of the two rounds or once; the private statics do differ."""
    result = run([program('section'), 'fork', '3'], env={'ROAM_CHECK': check})
    if result.status != 0 or len(re.findall(wanted, result.err)) != times or re.search(unwanted, result.err):
        raise Wrong(f'status {result.status}, {result.err}')


def named_race():
    """A race names the variable, and the lock or barrier before it."""
    result = run([program('section'), 'race', '3'], env={'ROAM_CHECK': 'race'})
    if re.search(r'^roam: race: 0x[0-9a-f]+ \(view \+ 0x[89a-f], of 24 bytes from 0x[0-9a-f]+\) was written by node '
                 r'\d since the barrier 0x[0-9a-f]+ \(multi_section\+0x[0-9a-f]+\)', result.err, re.MULTILINE) is None:
        raise Wrong(f'status {result.status}, {result.err}')


def named_hang():
    result = run([program('section'), 'stuck', '3'])
    if re.search(r'in lock (0x[0-9a-f]+)[ ,;].*\1 (is|\()[ ]?multi_section\+0x', result.err) is None:
        raise Wrong(f'status {result.status}, {result.err}')


def touched():
    """A child of fork has no statics of the heap, and is told so."""
    expect([program('section'), 'touch', '2'], err='has no shared heap, and touched it')


def protocol_cases():
    for protocol in protocols():
        env = {'ROAM_PROTOCOL': protocol}
        yield protocol, right, [program('section'), 'fork', '3'], OK, env
        for how in 'fork', 'spmd':
            yield (f'{protocol}, launched, {how}', right, launched(3, program('section'), how, '3'), OK,
                   env)
    for procs in '2', '4':
        yield (f'teams of {procs}', right, [program('section'), 'sync', procs], OK,
               {'ROAM_THREADS': '2'})
    for env in ({'ROAM_TRANSPORT': 'udp'}, {'ROAM_ONESIDED': '0'}, {'ROAM_CACHE_PAGES': '2'},
                {'ROAM_CHAOS': '7'}):
        yield str(env), right, [program('section'), 'fork', '4'], OK, env
    yield 'no races', checked, 'race', 'roam: race: none found', 'found, and|was written'
    yield 'statics', checked, 'statics', r'statics: own_room \(5000', r': (counter|view|big|root|made|total) '
    yield 'touched by a child', touched
    yield 'named in a race', named_race
    yield 'named in a hang', named_hang
    yield 'no block of the heap check', checked, 'heap', 'roam: heap: none found', 'roam: .*(counter|view)', 1
    yield 'copied', copied


def compiled(compiler, flags, refused=False, names=('section.c', 'section_other.c', 'section_library.c')):
    """Compiles the program with the library that users link, and runs it; or roam refuses to
    start."""
    directory = os.path.dirname(program('libroam'))
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, 'section')
        files = [os.path.join(HERE, name) for name in names]
        subprocess.run([compiler, '-O2', *flags, '-I', os.path.join(ROOT, 'include'), *files, '-o',
                        path, '-L' + directory, '-lroam', '-Wl,-rpath,' + directory], check=True)
        result = run([path, 'fork', '3'])
        if refused and result.status == 2 and 'share a page with others' in result.err:
            return
        if result.status != 0 or 'section: ok' not in result.out:
            raise Wrong(f'status {result.status}, {result.out} {result.err}')


def copied():
    """If a program would use a copy of a library's variable, roam does not start."""
    expect([program('section_names')], status=2,
           err='ROAM_SHARED section_total of a library is used by the program')


def compiler_cases():
    """gcc and clang; with -flto the program works or is refused; C++."""
    yield 'names, -fPIC', compiled, 'gcc', ['-fPIC'], False, ['section_names.c', 'section_library.c']
    for name in 'g++', 'clang++':
        if shutil.which(name) is not None:
            yield name, compiled, name, ['-std=c++17'], False, ['section_cxx.cpp']
    for name in 'gcc', 'clang':
        if shutil.which(name) is None:
            continue
        for flags in [], ['-no-pie'], ['-O0', '-std=c99', '-D_GNU_SOURCE'], \
                ['-fdata-sections', '-ffunction-sections', '-Wl,--gc-sections'], ['-flto']:
            yield f'{name} {" ".join(flags)}', compiled, name, flags, '-flto' in flags


GROUPS = {
    'ways': lambda: list(way_cases()),
    'protocols': lambda: list(protocol_cases()),
    'compilers': lambda: list(compiler_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
