#!/usr/bin/env python3
"""Writes the manual pages that are made from tables and headers, so that they agree with the code.

usage: generate.py api ROAM_H          roam(3), from the header and its comments
       generate.py past ROAM_H PASTSET_H                    roam-pastset(3)
       generate.py tx ROAM_H TX_H                           roam-tx(3)
       generate.py dp ROAM_H DP_H                           roam-dp(3)
       generate.py save ROAM_H SAVE_H                       roam-save(3)
       generate.py cxx ROAM_H PASTSET_HPP                   roam-pastset-cxx(3)
       generate.py python ROAM_H INIT_PY ERRORS_PY          roam-python(3), from the docstrings
       generate.py options OPTIONS_DEF EVENTS_DEF ROAM_H TRANSPORT_C...    roam(7)
       generate.py functions ROAM_H    the names of the functions, one a line

Writes to standard output.  Input that cannot be understood is an error; nothing is left out.
"""
import ast
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))
import optiontable  # noqa: E402, pylint: disable=wrong-import-position

EVENT = re.compile(r'^(COUNTER|TIME)\((\w+),\s*((?:"[^"]*"\s*)+)\)', re.MULTILINE)
COMMENT = re.compile(r'/\*(.*?)\*/', re.DOTALL)
SECTION = re.compile(r'^-{20,} (.+)$')
FUNCTION = re.compile(r'\b(roam_\w+)\(')
# Allocators depend on the build.
NAMED = {'ROAMI_ALLOC_DEFAULT': 'jemalloc where built in, else own',
         'ROAMI_ALLOC_ALLOWED': 'own|jemalloc'}
SIZES = {'SIZE': 'a size in bytes', 'UNSIGNED': 'a number'}


def roff(text):
    """Text escaped for roff, so that nothing in it is a command."""
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
    if kind == 'LIST':
        first, *others = text.split('|')
        return f'{first}, or some of {", ".join(others)}, with commas between'
    return ', '.join(text.split('|')) if text else ''


def print_options(rows):
    for variable, kind, default, may_be, meaning in rows:
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


def options_page(options, events, header, *transports):
    title('ROAM', 7, header)
    print('''.SH NAME
roam \\- options, counters and limits of programs over roam
.SH DESCRIPTION
Programs that link with
.BR roam (3)
take their options from environment variables. An unknown variable that begins with ROAM_ causes a
warning; a value out of range is an error at the program's start.
.B roam info
shows the options of the build at hand, and what the kernel offers.
.SH OPTIONS''')
    print_options(optiontable.rows(options, transports))
    print('''.SH TIMES
Of every node, in milliseconds, printed with ROAM_STATS=1.
.TP
.B wall
the time from the node's start to its end
.TP
.B compute
wall less page, lock, barrier and overhead''')
    print_events(events, 'TIME')
    print('''.SH COUNTERS
Of every node, printed with ROAM_STATS=1 if they are not 0.
.BR roam_counter (3)
returns them by these names.''')
    print_events(events, 'COUNTER')
    print('''.SH EXIT STATUS OF A JOB
If a node dies, the job ends within two seconds, with one line on standard error that says which node
it was, how it ended, and what the others waited for.
.B roam run
returns 0 if every node did, else the status of the first node that failed, or 128 + N if signal N
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
    code = re.sub(r'^#define ROAM_SHARED .*\\\n(.*\\\n)*.*\n', 'ROAM_SHARED\n', code, flags=re.MULTILINE)
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


def page_begin(name, meaning, include, header):
    title(name.upper().replace('-', '\\-'), 3, header)
    print('.SH NAME\n' + roff(f'{name} - {meaning}'))
    print(f'.SH SYNOPSIS\n.nf\n.B {include}\n.fi')


def page_end(others):
    print('.SH SEE ALSO\n' + ',\n'.join(f'.BR {roff(name)} ({section})'
                                        for name, section in others))


def api_page(roam):
    page_begin('roam', 'page-based distributed shared memory', '#include <roam/roam.h>', roam)
    header_text(roam)
    page_end([('roam', 1), ('roam-pastset', 3), ('roam-tx', 3), ('roam-dp', 3), ('roam-save', 3), ('roam', 7), ('roam-parmacs', 7)])


def past_page(roam, header):
    page_begin('roam-pastset', 'PastSet, structured shared memory', '#include <roam/pastset.h>',
               roam)
    header_text(header)
    page_end([('roam', 1), ('roam', 3), ('roam-pastset-cxx', 3), ('roam-python', 3)])


def tx_page(roam, header):
    page_begin('roam-tx', 'transactions on shared memory', '#include <roam/tx.h>', roam)
    header_text(header)
    page_end([('roam', 1), ('roam', 3)])


def dp_page(roam, header):
    page_begin('roam-dp', 'messages between the nodes of a job', '#include <roam/dp.h>', roam)
    header_text(header)
    page_end([('roam', 1), ('roam', 3), ('roam-pastset', 3)])


def save_page(roam, header):
    page_begin('roam-save', 'checkpoints of the shared heap', '#include <roam/save.h>', roam)
    header_text(header)
    page_end([('roam', 1), ('roam', 3)])


def header_text(header):
    print('.PP\nLink with the output of\n.BR "pkg\\-config \\-\\-libs roam" .\n.SH DESCRIPTION')
    first, parts = split_comments(header)
    if first.strip():
        raise ValueError('the header does not begin with a comment')
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


# ----------------------------------------------------------------------------------------- C++

def body_end(code, at):
    """The index behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += {'{': 1, '}': -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError('pastset.hpp: a brace is not closed')


def declared(code):
    """Declarations and their comments, without function bodies and private members."""
    code = re.sub(r'^namespace detail \{.*?^\} /\* namespace detail \*/\n', '', code,
                  flags=re.MULTILINE | re.DOTALL)
    code = re.sub(r'^private:\n.*?(?=^\};)', '', code, flags=re.MULTILINE | re.DOTALL)
    function = re.compile(r'\)((?: const| noexcept| override)*)(?:\s*:\s[^{;]*?[)}])?'
                          r'(\s*/\*[^*]*\*/)?\s*\{')
    at = 0
    while (found := function.search(code, at)) is not None:
        remark = re.sub(r'\s+', ' ', found.group(2) or '')
        end = body_end(code, found.end() - 1)
        code = code[:found.start()] + f'){found.group(1)};{remark}' + code[end:]
        at = found.start()
    return code


def cxx_page(roam, header):
    page_begin('roam-pastset-cxx', 'PastSet in C++17', '#include <roam/pastset.hpp>', roam)
    _, parts = split_comments(header)
    print('.SH DESCRIPTION')
    print_text(clean(parts[0][0][2:-2]))
    inside = re.search(r'^namespace roam \{\n(.*)^\} /\* namespace roam \*/', header,
                       re.MULTILINE | re.DOTALL).group(1)
    for name, code in re.findall(r'/\* -{20,} ([\w ]+) \*/\n(.*?)(?=/\* -{20,}|\Z)',
                                 declared(inside), re.DOTALL):
        if code.strip():
            print(f'.SH {roff(name.upper())}\n.nf\n' + roff(code.strip('\n').replace('\t', '    ')) +
                  '\n.fi')
    page_end([('roam-pastset', 3), ('roam', 3)])


# -------------------------------------------------------------------------------------- Python

def signature(function):
    return f'{function.name}({ast.unparse(function.args)})'.replace('(self, ', '(').replace(
        '(self)', '()')


def print_entry(head, node):
    print('.TP\n.B ' + roff(head))
    text = ast.get_docstring(node) or ''
    print('.nf\n' + roff(text) + '\n.fi')


def python_page(roam, module, *others):
    tree = ast.parse(module)
    page_begin('roam-python', 'PastSet from Python', 'import roam', roam)
    print('.SH DESCRIPTION')
    print_text(ast.get_docstring(tree))
    public = next(ast.literal_eval(node.value) for node in tree.body
                  if isinstance(node, ast.Assign) and node.targets[0].id == '__all__')
    functions = [node for node in tree.body
                 if isinstance(node, ast.FunctionDef) and node.name in public]
    classes = [node for text in (module, *others) for node in ast.parse(text).body
               if isinstance(node, ast.ClassDef) and node.name in public]
    print('.SH FUNCTIONS')
    for node in functions:
        print_entry(signature(node), node)
    print('.SH CLASSES')
    for node in classes:
        begin = [member for member in node.body
                 if isinstance(member, ast.FunctionDef) and member.name == '__init__']
        bases = ', '.join(ast.unparse(base) for base in node.bases)
        print_entry(signature(begin[0]).replace('__init__', node.name) if begin and not bases
                    else node.name + (f' ({bases})' if bases else ''), node)
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and not member.name.startswith('_'):
                given = any(ast.unparse(by) == 'property' for by in member.decorator_list)
                print_entry(node.name + '.' + (member.name if given else signature(member)), member)
    page_end([('roam', 1), ('roam-pastset', 3), ('roam', 3)])


def main():
    what, paths = sys.argv[1], sys.argv[2:]
    texts = []
    for path in paths:
        with open(path, encoding='utf-8') as file:
            texts.append(file.read())
    if what == 'functions':
        print('\n'.join(functions(texts[0])))
    else:
        {'api': api_page, 'past': past_page, 'tx': tx_page, 'dp': dp_page, 'save': save_page, 'cxx': cxx_page,
         'options': options_page, 'python': python_page}[what](*texts)


if __name__ == '__main__':
    main()
