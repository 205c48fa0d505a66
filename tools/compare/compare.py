"""Runs a program under each protocol, verifies each result, and shows what it cost.

usage: roam compare [OPTION]... [--] PROGRAM [ARGUMENT]...
       roam compare [OPTION]... --paper jump|hlrc
       roam compare tuples [OPTION]...

  --protocols LIST  protocols, separated by commas (all that `roam info protocols` lists); with
                    direct among them, the floor, a column says how many times as long the others
                    take
  --nodes LIST      numbers of nodes, separated by commas (2,4)
  --repeat N        runs of each combination; the median is shown (3)
  --engine NAME     the fault engine, one of `roam info engines` (auto)
  --timeout S       seconds after which a run counts as hung (120)
  --cache-pages N   the most pages of other nodes that a node caches (ROAM_CACHE_PAGES)

  --run             start PROGRAM by `roam run -n NODES`.  Without this option it creates its nodes,
                    and is told their number: -pNODES before the arguments, or {nodes} among them
  --input FILE      the standard input of PROGRAM; {nodes} in the name is replaced, too
  --verify OPTION   the option that makes PROGRAM verify its result; known for roam's own programs
  --verified TEXT   a regular expression that the output of a right run matches (verified ok).
                    Without this option, a program that never prints the word verified is right if
                    its status is 0, and the table says so
  --no-verify       take an exit status of 0 for a right result, whatever PROGRAM prints

  --time WHICH      total or region, as in the program's last line, or wall (total; wall if there is
                    no such line)
  --after-barriers N
                    count time and counters from where each node leaves its N-th full barrier,
                    reductions included (ROAM_STATS_AFTER); a program that ends before is wrong
  --json FILE       write all measurements, for other programs; -: to standard output, without table
  --csv FILE        write the rows, for spreadsheets; -: to standard output
  --svg FILE        write a picture
  --html FILE       write a complete page with table and picture

  --paper jump      the six kernels of the JUMP paper under jiajia1, jump and jiajia2, on 4, 8 and 16
                    nodes, 5 runs of each, beside the times of its table 2; pages and diffs go by
                    messages (ROAM_ONESIDED=0); a run may take 600 s
  --paper hlrc      the SPLASH-2 programs of the paper on HLRC over VIA under hlrc, on 2 and 4 nodes, 3
                    runs of each: parts of the time, sizes of messages and pages touched, beside its
                    tables 1 and 5 and what it says of figures 2 and 3; by messages, too
  --sizes WHICH     of the paper: all, largest or small (jump: all, hlrc: largest)
  --placed          of jump: each process writes its part of the input (the first writes all of it)

  tuples            computations, each by tuples of PastSet, by its X-functions, and by shared
                    pages under one protocol (hlrc), on 1, 2, 4, 8, 16 and 32 nodes

  --kernels LIST    of jump: some of mm, me, rx, lu, bk, sor; of hlrc: some of barnes, fft, lu, ocean,
                    radix, water-nsquared, water-spatial; of tuples: some of sum, pi, sor, tsp,
                    producers, pingpong
  --apps FOLDER     the folder of these programs

If PROGRAM-pthread is beside PROGRAM, speed is relative to it.  Other ROAM_ variables hold for all
runs.  The exit status is 0 if every result was right, 1 if one was not, 2 for wrong
options, 127 if there is no such program.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

import command
import paper
import report
import runs
import tuples

NODES_MAX = 64
CACHE_MAX = 2**32 - 1
AFTER_MAX = 10**6
# The defaults for one program; paper.py has those of a paper.
DEFAULTS = {'nodes': [2, 4], 'repeat': 3, 'timeout': 120.0, 'time': 'total'}
# What may be compared: one program, the programs of a paper, or tuples with pages.
PROGRAM, PAPER, TUPLES = 'a program', '--paper', 'tuples'
# Options that only some kinds of comparison have.
OF_SOME = {
    **dict.fromkeys(('run', 'input', 'verify', 'verified', 'no_verify', 'time',
                    'after_barriers'), [PROGRAM]),
    **dict.fromkeys(('sizes', 'placed'), [PAPER]),
    **dict.fromkeys(('kernels', 'apps'), [PAPER, TUPLES]),
}


def number_list(text):
    numbers = [int(word) if word.isdecimal() else 0 for word in text.split(',')]
    if any(not 1 <= number <= NODES_MAX for number in numbers):
        raise argparse.ArgumentTypeError(f'{text}: numbers from 1 to {NODES_MAX}, with commas')
    return list(dict.fromkeys(numbers))


def positive(kind):
    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not 0 < value < 1e6:
            raise argparse.ArgumentTypeError(f'{text}: must be a number above 0')
        return value
    return parse


def cache_pages(text):
    if not text.isdecimal() or not 1 <= int(text) <= CACHE_MAX:
        raise argparse.ArgumentTypeError(f'{text}: a number from 1 to {CACHE_MAX}')
    return int(text)


def after_barriers(text):
    if not text.isdecimal() or not 1 <= int(text) <= AFTER_MAX:
        raise argparse.ArgumentTypeError(f'{text}: a number from 1 to {AFTER_MAX}')
    return int(text)


def names(text):
    return list(dict.fromkeys(text.split(',')))


def pattern(text):
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise argparse.ArgumentTypeError(f'{text}: {error}') from error


def file_name(text):
    if text in ('', '-'):
        raise argparse.ArgumentTypeError('needs the name of a file')
    return text


def split(parser, argv):
    """The options, and the program with its arguments, which are not parsed; those of `tuples`
    are."""
    ours, program = parser.split(argv)
    if program[:1] == [TUPLES] and program[1:]:
        more, rest = split(parser, program[1:])
        if rest:
            parser.error(f'{rest[0]}: the programs are those that come with roam')
        return ours + more, program[:1]
    return ours, program


def parse(argv):
    parser = command.Arguments('compare')
    parser.add_argument('-h', '--help', action='store_true')
    parser.add_argument('--roam', default=shutil.which('roam') or 'roam')
    parser.add_argument('--protocols', type=names)
    parser.add_argument('--nodes', type=number_list)
    parser.add_argument('--repeat', type=positive(int))
    parser.add_argument('--engine', default='auto')
    parser.add_argument('--timeout', type=positive(float))
    parser.add_argument('--cache-pages', type=cache_pages)
    parser.add_argument('--run', action='store_true')
    parser.add_argument('--input')
    parser.add_argument('--verify')
    parser.add_argument('--verified', type=pattern)
    parser.add_argument('--no-verify', action='store_true')
    parser.add_argument('--time', choices=runs.TIMES)
    parser.add_argument('--after-barriers', type=after_barriers)
    parser.add_argument('--json')
    parser.add_argument('--csv')
    parser.add_argument('--svg', type=file_name)
    parser.add_argument('--html', type=file_name)
    parser.add_argument('--paper', choices=paper.PAPERS)
    parser.add_argument('--kernels', type=names)
    parser.add_argument('--sizes', choices=paper.SIZES)
    parser.add_argument('--placed', action='store_true')
    parser.add_argument('--apps')
    ours, program = split(parser, argv)
    args = parser.parse_args(ours)
    if args.help:
        print(__doc__.strip())
        sys.exit(0)
    args.kind = PAPER if args.paper else TUPLES if program[:1] == [TUPLES] else PROGRAM
    if args.kind == PAPER and program:
        parser.error(f'{program[0]}: the programs are those of the paper')
    if args.kind == PROGRAM and not program:
        parser.error('PROGRAM missing')
    for name, kinds in OF_SOME.items():
        if getattr(args, name) and args.kind not in kinds:
            parser.error(f'--{name.replace("_", "-")}: not with {args.kind}')
    if args.json == args.csv == '-':
        parser.error('--json and --csv: one of them may be the standard output')
    args.quiet = '-' in (args.json, args.csv)
    if args.after_barriers and args.time:
        parser.error('--time: not with --after-barriers, which has its own')
    args.program, args.arguments = (program[0], program[1:]) if program else (None, [])
    return args


# ------------------------------------------------------------------------------------- before runs

def known(roam, what):
    """The names that `roam info` lists, each with its description."""
    shown = subprocess.run([roam, 'info', what], check=True, stdout=subprocess.PIPE,
                           text=True).stdout
    return dict(re.findall(r'^  (\w[\w-]*)\s+(\S.*)$', shown, re.MULTILINE))


def floors(roam):
    """The protocols that are only compared with, not measured for themselves: the hardware."""
    shown = subprocess.run([roam, 'info', 'protocols', '--json'], check=True,
                           stdout=subprocess.PIPE).stdout
    return [each['name'] for each in json.loads(shown)['protocols']
            if 'one_heap' in each['properties']]


def check_names(args):
    protocols = known(args.roam, 'protocols')
    args.floors = floors(args.roam) if args.kind == PROGRAM else []
    if args.kind == PAPER:
        paper.prepare(args, protocols)
    elif args.kind == TUPLES:
        tuples.prepare(args)
    elif args.protocols is None:
        args.protocols = sorted(protocols, key=lambda name: name not in args.floors)
    for name in args.protocols:
        if name not in protocols:
            raise runs.Failure(f'no protocol "{name}"; known: {", ".join(protocols)}', 2)
    engines = {'auto': 'works', **known(args.roam, 'engines')}
    if args.engine not in engines:
        raise runs.Failure(f'no fault engine "{args.engine}"; known: {", ".join(engines)}', 2)
    if engines[args.engine].startswith('missing'):
        raise runs.Failure(f'fault engine {args.engine}: {engines[args.engine]}')


def check_program(args):
    found = shutil.which(args.program)
    if found is None:
        beside = os.path.join('.', args.program)
        hint = f'; is it {beside}?' if os.path.isfile(beside) else ''
        if os.path.isfile(args.program) and '/' in args.program:
            hint = ': it is not executable'
        raise runs.Failure(f'no program {args.program}{hint}', 127)
    args.program = found


def check_files(args):
    """Checks, before the runs, that the files written at the end can be written."""
    for path in (args.json, args.csv, args.svg, args.html):
        if path not in (None, '-'):
            folder = os.path.dirname(path) or '.'
            if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder,
                                                    os.W_OK):
                raise runs.Failure(f'cannot write {path}')
    if args.svg or args.html:
        report.need_picture()
    for nodes in args.nodes if args.input else []:
        path = runs.filled(args.input, nodes)
        if not os.access(path, os.R_OK):
            raise runs.Failure(f'cannot read {path}')


# ------------------------------------------------------------------------------------------- runs

def run_all(args, job):
    """The rows of roam, and those of threads."""
    rows = [runs.Row(job, protocol, args.engine, nodes) for nodes in args.nodes
            for protocol in args.protocols]
    twins = [runs.Row(job, runs.THREADS, None, nodes) for nodes in args.nodes] if job.twin else []
    order = [row for nodes in args.nodes for row in twins + rows if row.nodes == nodes]
    runs.take_turns(order, args.repeat, runs.Progress(args.repeat * len(order)))
    runs.must_all_say(order)
    return rows, twins


def compare_program(args):
    """Returns all measurements; the table is printed."""
    for name, value in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    check_program(args)
    check_files(args)
    job = runs.Job(args)
    result = report.Comparison(args, job, *run_all(args, job))
    if not args.quiet:
        print(result.table())
    return result


def compare(args):
    if args.kind == PROGRAM:
        return compare_program(args)
    check_files(args)
    return paper.compare(args) if args.kind == PAPER else tuples.compare(args)


def main(argv):
    args = parse(argv)
    command.end_by_signals()
    check_names(args)
    result = compare(args)
    result.write()
    wrong = [row for row in [*result.rows, *result.twins.values()] if row.error]
    for row in wrong:
        print(f'roam: compare: {row.label()}: {row.error}', file=sys.stderr)
    return 1 if wrong else 0


if __name__ == '__main__':
    command.run('compare', main)
