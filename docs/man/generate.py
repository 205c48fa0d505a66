#!/usr/bin/env python3
"""Writes the manual pages that come from tables: what they say is what the code does.

usage: generate.py api ROAM_H          roam(3), from the header and its comments
       generate.py options OPTIONS_DEF EVENTS_DEF ROAM_H    roam(7)
       generate.py functions ROAM_H    the names of the functions, one a line

To standard output.  What cannot be understood is an error, not left out.
"""
import re
import sys

OPTION = re.compile(r'^OPTION\((\w+),\s*"(\w+)",\s*(\w+),\s*("[^"]*"|\w+),\s*("[^"]*"|\w+),\s*'
                    r'((?:"[^"]*"\s*)+)\)', re.MULTILINE)
EVENT = re.compile(r'^(COUNTER|TIME)\((\w+),\s*((?:"[^"]*"\s*)+)\)', re.MULTILINE)
COMMENT = re.compile(r'/\*(.*?)\*/', re.DOTALL)
SECTION = re.compile(r'^-{20,} (.+)$')
FUNCTION = re.compile(r'\b(roam_\w+)\(')
# Allocators depend on the build.
NAMED = {'ROAMI_ALLOC_DEFAULT': 'jemalloc where built in, else own',
         'ROAMI_ALLOC_ALLOWED': 'own|jemalloc',
         'ROAMI_UDP_ALLOWED': 'auto|plain|uring'}
SIZES = {'SIZE': 'a size in bytes', 'UNSIGNED': 'a number'}


def roff(text):
    """Text as roff: nothing in it is a command."""
    text = text.replace('\\', r'\e').replace('-', r'\-')
    return re.sub(r"^([.'])", r'\\&\1', text, flags=re.MULTILINE)


def quoted(text):
    return ''.join(re.findall(r'"([^"]*)"', text))


def version(header):
    numbers = [re.search(rf'ROAM_VERSION_{part} (\d+)', header).group(1)
               for part in ('MAJOR', 'MINOR', 'PATCH')]
    return '.'.join(numbers)


def title(name, section, header):
    print(f'.\\" Made by docs/man/generate.py.\n.TH {name} {section} "" "roam {version(header)}"')


# ------------------------------------------------------------------------------------- options

def value(text):
    return quoted(text) if text.startswith('"') else NAMED[text]


def allowed(kind, text):
    if kind == 'BOOL':
        return '0 or 1'
    if kind == 'OUTPUT':
        return '0, 1, or a path that begins with / or ./'
    if kind in SIZES:
        return f'{SIZES[kind]}, {text.replace("..", " to ")}'
    return ', '.join(text.split('|')) if text else ''


def print_options(table):
    found = OPTION.findall(table)
    if len(found) != len(re.findall(r'^OPTION\(', table, re.MULTILINE)):
        raise ValueError('options.def: not every OPTION understood')
    for _, variable, kind, default, may_be, meaning in found:
        print(f'.TP\n.B {variable}\n{roff(quoted(meaning))}.')
        may_be = allowed(kind, value(may_be))
        if may_be:
            print(roff(f'Values: {may_be}.'))
        print(roff(f'Default: {value(default)}.'))


def print_events(table, wanted):
    found = EVENT.findall(table)
    if len(found) != len(re.findall(r'^(?:COUNTER|TIME)\(', table, re.MULTILINE)):
        raise ValueError('events.def: not every line understood')
    for kind, name, meaning in found:
        if kind == wanted:
            print(f'.TP\n.B {roff(name)}\n{roff(quoted(meaning))}')


def options_page(options, events, header):
    title('ROAM', 7, header)
    print('''.SH NAME
roam \\- options, counters and limits of programs over roam
.SH DESCRIPTION
Programs that link with
.BR roam (3)
take their options from environment variables. An unknown variable that begins with ROAM_ is
warned of; a value out of range ends the start with an error.
.B roam info
shows the same for the build at hand, and what the kernel has.
.SH OPTIONS''')
    print_options(options)
    print('''.SH TIMES
Of every node, in milliseconds, printed with ROAM_STATS=1.
.TP
.B wall
from the node's start to its end
.TP
.B compute
wall less page, lock, barrier and overhead''')
    print_events(events, 'TIME')
    print('''.SH COUNTERS
Of every node, printed with ROAM_STATS=1 where one is not 0;
.BR roam_counter (3)
returns them by these names.''')
    print_events(events, 'COUNTER')
    print('''.SH EXIT STATUS OF A JOB
A job ends within two seconds of the death of one of its nodes, with one line on standard error
that names the node, how it ended, and what the others waited for.
.BR "roam run" 's
status is 0 if every node's was, else that of the first node that failed, or 128 + N if signal N
killed it.
.SH SEE ALSO
.BR roam (1),
.BR roam (3),
.BR roam\\-parmacs (7)''')


# ----------------------------------------------------------------------------------------- API

def clean(comment):
    """The text of a comment, without its stars."""
    lines = [re.sub(r'^\s*\*? ?', '', line) for line in comment.split('\n')]
    return '\n'.join(lines).strip('\n ')


def print_text(text):
    """Paragraphs; lines that are indented stay as they are."""
    for block in re.split(r'\n\s*\n', text):
        print('.PP')
        literal = False
        for line in block.split('\n'):
            if line.startswith(('  ', '\t')) != literal:
                literal = not literal
                print('.nf' if literal else '.fi')
            print(roff(line if literal else line.strip()))
        if literal:
            print('.fi')


def print_code(code):
    code = re.sub(r'^#(if|ifdef|ifndef|else|endif|undef|include|define ROAM_ROAM_H|define ROAM_ERR_ENUM).*\n', '', code, flags=re.MULTILINE)
    code = re.sub(r'^(extern "C" \{|\}$)\n', '', code, flags=re.MULTILINE)
    if code.strip():
        print('.PP\n.nf\n.ft B\n' + roff(code.strip('\n')) + '\n.ft R\n.fi')


def functions(header):
    bare = re.sub(r'#define.*(\\\n.*)*', '', COMMENT.sub('', header))
    return sorted(set(FUNCTION.findall(bare)))


def split_comments(header):
    """Comments that begin a line, and the code after each."""
    parts = re.split(r'^(/\*.*?\*/)[ \t]*\n', header, flags=re.MULTILINE | re.DOTALL)
    return parts[0], list(zip(parts[1::2], parts[2::2]))


def api_page(header):
    title('ROAM', 3, header)
    print('.SH NAME\n' + roff('roam - page-based distributed shared memory'))
    print('.SH SYNOPSIS\n.nf\n.B #include <roam/roam.h>\n.fi\n.PP\n'
          'Link with the output of\n.BR "pkg\\-config \\-\\-libs roam" .\n.SH DESCRIPTION')
    first, parts = split_comments(header)
    if first.strip():
        raise ValueError('roam.h: does not begin with a comment')
    print_text(clean(parts[0][0][2:-2]))
    print_code(parts[0][1])
    for comment, code in parts[1:]:
        text = clean(comment[2:-2])
        section = SECTION.match(text)
        if section:
            print(f'.SH {roff(section.group(1).upper())}')
            print_code(code)
            continue
        print_code(code)
        print('.RS 4')
        print_text(text)
        print('.RE')
    print('.SH SEE ALSO\n.BR roam (1),\n.BR roam (7),\n.BR roam\\-parmacs (7)')


def main():
    what, paths = sys.argv[1], sys.argv[2:]
    texts = []
    for path in paths:
        with open(path, encoding='utf-8') as file:
            texts.append(file.read())
    if what == 'functions':
        print('\n'.join(functions(texts[0])))
    else:
        {'api': api_page, 'options': options_page}[what](*texts)


if __name__ == '__main__':
    main()
