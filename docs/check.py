#!/usr/bin/env python3
"""Checks what the documents say against the tree; run in its root.  Prints what is wrong.

- the first C block of README.md is docs/example.c, and compiles as that
- every C block of docs/porting.md is in docs/porting_traps.c
- every function of the C library's pthread.h and semaphore.h is in its table
- every relative link, and every path in backquotes that begins with a folder of this tree, exists
- the tables of protocols have a row for each protocol, and no other
- each function in a table's row whose last cell is files is defined in one of these
- every ROAM_ variable named in the documents is an option, a test's variable, or in a header
"""
import glob
import os
import re
import sys

FOLDERS = ('src/', 'include/', 'protocols/', 'apps/', 'tools/', 'tests/', 'bench/', 'docs/',
           'python/')
LINK = re.compile(r'\]\((?!https?:|#)([^)#]+)')
QUOTED = re.compile(r'`([^`\n]+)`')
VARIABLE = re.compile(r'\bROAM_[A-Z][A-Z_0-9]*[A-Z0-9]\b')
HEADERS = ('include/roam/roam.h', 'include/roam/pastset.h', 'include/roam/dp.h', 'include/roam/parmacs.m4',
           'include/roam/protocol.h', 'include/roam/protocol_home.h', 'include/roam/protocol_tx.h',
           'include/roam/transport.h', 'src/base/options.def',
           'bench/main.c', 'bench/bench_apps.c', *glob.glob('src/transport/*.c'))


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def documents():
    yield from ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'protocols/README.md',
                'python/README.md')
    yield from (f'docs/{name}' for name in sorted(os.listdir('docs')) if name.endswith('.md'))


def paths(name, text):
    for link in LINK.findall(text):
        yield link, os.path.join(os.path.dirname(name), link)
    for quoted in QUOTED.findall(text):
        path = quoted.split()[0]
        # Names that stand for others, NAME.c or *.c, and programs of a build are not files here.
        if path.startswith(FOLDERS) and not re.search(r'[A-Z]{4}|[*<{\[]', path):
            yield path, path


def protocols():
    """What the tables of protocols lack, or have too much."""
    names = re.search(r'^known_protocols = \[(.*?)\]', read('protocols/meson.build'), re.MULTILINE | re.DOTALL)
    known = set(re.findall(r"'([\w-]+)'", names.group(1)))
    for path, mark in (('README.md', r'\*\*'), ('protocols/README.md', '`')):
        rows = re.findall(rf'^\| ({mark}[^|]*{mark})[^|]*\| \w+ \|', read(path), re.MULTILINE)
        shown = {name for row in rows for name in re.findall(rf'{mark}([\w-]+){mark}', row)}
        for name in sorted(known ^ shown):
            yield f'{path}: the table of protocols {"lacks" if name in known else "has, but no file is,"} {name}'


def defined(text):
    """Functions in tables of `step | function | file` that none of the row's files define."""
    for cells in re.findall(r'^\| .* \| (`[^|]*) \| ((?:`[\w/]+\.c`(?:, )?)+) \|$', text, re.MULTILINE):
        code = '\n'.join(read(path) for path in QUOTED.findall(cells[1]) if os.path.exists(path))
        for name in QUOTED.findall(cells[0]):
            if not re.search(rf'^\w.*\b{name}\(', code, re.MULTILINE):
                yield name, cells[1]


def calls_of_threads():
    """The functions that the C library declares."""
    for header in ('pthread.h', 'semaphore.h'):
        yield from re.findall(r'\b((?:pthread|sem)_\w+) \(', read(os.path.join('/usr/include', header)))


def calls_in_table(text):
    """A regular expression for each name in the first column; `_rdlock` behind a name takes the place of
    any of its ends."""
    for cell in re.findall(r'^\| (.*?) \|', text, re.MULTILINE):
        name = ''
        for word in QUOTED.findall(cell):
            name = word if not word.startswith('_') else name
            parts = name.split('_')
            ends = ['_'.join(parts[:count]) + word for count in range(1, len(parts))]
            yield from (each.replace('*', r'\w+') for each in ([word] if word == name else ends))


def missing_calls(text):
    known = set(calls_in_table(text))
    return sorted(name for name in set(calls_of_threads())
                  if not any(re.fullmatch(each, name) for each in known))


def check():
    yield from protocols()
    known = set(VARIABLE.findall('\n'.join(read(path) for path in HEADERS)))
    for name in documents():
        text = read(name)
        for shown, path in paths(name, text):
            if not os.path.exists(path):
                yield f'{name}: {shown} does not exist'
        for function, files in defined(text):
            yield f'{name}: {function} is not in {files}'
        for variable in sorted(set(VARIABLE.findall(text)) - known):
            yield f'{name}: {variable} is not known to the code'
    traps = read('docs/porting_traps.c')
    for piece in re.findall(r'^```c\n(.*?)^```', read('docs/porting.md'), re.MULTILINE | re.DOTALL):
        if piece not in traps:
            yield f'docs/porting.md: not in docs/porting_traps.c: {piece.splitlines()[0].strip()}'
    for name in missing_calls(read('docs/porting.md')):
        yield f'docs/porting.md: {name} is not in the table'
    block = re.search(r'^```c\n(.*?)^```', read('README.md'), re.MULTILINE | re.DOTALL)
    if block is None or block.group(1) != read('docs/example.c'):
        yield 'README.md: the first program is not docs/example.c'


if __name__ == '__main__':
    wrong = list(check())
    print('\n'.join(wrong))
    sys.exit(1 if wrong else 0)
