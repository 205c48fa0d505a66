#!/usr/bin/env python3
"""Makes roam/_cdef.py, the declarations for cffi, from the C headers.

usage: cdef.py            writes it
       cdef.py --check    says whether it is what the headers say
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HEADERS = os.path.join(os.path.dirname(HERE), 'include', 'roam')
MADE = os.path.join(HERE, 'roam', '_cdef.py')
# Of roam.h, beside the errors.
FUNCTIONS = ('roam_strerror', 'roam_version', 'roam_start', 'roam_finish', 'roam_node',
             'roam_nodes', 'roam_barrier_all', 'roam_thread_init', 'roam_thread_fini',
             'roam_alloc', 'roam_root', 'roam_free', 'roam_errno', 'roam_touch', 'roam_lock', 'roam_trylock',
             'roam_lock_until', 'roam_unlock', 'roam_reduce', 'roam_clock_us')
ENUMS = ('roam_access', 'roam_type', 'roam_op')


def header(name):
    with open(os.path.join(HEADERS, name), encoding='utf-8') as file:
        text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.DOTALL)
    return re.sub(r'\bROAM_RESULT ', '', text)  # what compilers are told of a result


def errors(text):
    values = re.findall(r'X\((\w+), (\d+), "', text)
    return 'enum roam_err { ' + ', '.join(f'ROAM_{name} = {value}' for name, value in values) + ' };'


def function(text, name):
    found = re.search(rf'^[^\n;]*\b{name}\([^;]*;', text, re.MULTILINE)
    return found.group(0)


def enum(text, name):
    return re.search(rf'^enum {name} {{[^}}]*}};', text, re.MULTILINE).group(0)


def declarations(text):
    """All but what the preprocessor reads; numbers and literals cffi cannot are left to Python."""
    text = re.sub(r'extern "C" \{|^\}$', '', text, flags=re.MULTILINE)
    body = '\n'.join(line.rstrip() for line in text.split('\n') if not line.startswith(('#', '}\n')))
    return re.sub(r'\n\s*\n+', '\n', body).strip()


def numbers(text):
    return {name: int(value) for name, value in
            re.findall(r'#define (ROAM_PS_\w+)\s+(\d+)u', text)}


def made():
    roam, pastset = header('roam.h'), header('pastset.h')
    parts = [errors(roam), *(enum(roam, name) for name in ENUMS), *(function(roam, name) for name in FUNCTIONS), declarations(pastset)]
    lines = '\n'.join(parts).replace('\t', '    ')
    version = '.'.join(re.findall(r'#define ROAM_VERSION_\w+ (\d+)', roam))
    return (f'"""Made by cdef.py from the C headers."""\n\nVERSION = {version!r}\n'
            f'NUMBERS = {numbers(pastset)!r}\nCDEF = """\n{lines}\n"""\n')


def main():
    if sys.argv[1:] == ['--check']:
        with open(MADE, encoding='utf-8') as file:
            if file.read() != made():
                sys.exit('python/roam/_cdef.py is not what the headers say: run python/cdef.py')
        return
    with open(MADE, 'w', encoding='utf-8') as file:
        file.write(made())


if __name__ == '__main__':
    main()
