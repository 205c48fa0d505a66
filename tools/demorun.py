"""Builds roam and runs the SPLASH-2 kernels on 1, 2 and 4 nodes, and their sources on threads.

usage: tools/demo [--all] [--small] [--runs N]

  --all      every protocol on 2 and 4 nodes, and every fault engine
  --small    small problems only: a few seconds
  --runs N   runs per row; the median is shown (3)

Every result is verified by the program itself; the exit status is 0 if all were right.
"""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, 'build')
TIMEOUT_S = 60

# Program: its arguments at the real size and at the small one, and the option that makes it verify
# its result.
PROGRAMS = {
    'fft': (['-m20'], ['-m12'], '-t'),
    'lu': (['-n2048', '-b16'], ['-n256', '-b16'], '-t'),
    'ocean': (['-n1026'], ['-n66'], '-c'),
    'radix': (['-n8388608'], ['-n65536'], '-t'),
}
# The protocol for problems of real size; all others run the small ones.
MAIN_PROTOCOL = 'hlrc'
ALWAYS_PROTOCOL = 'onecopy'
RESULT = re.compile(r'^\w+: .*\bp \d+ total_us (\d+) region_us (\d+) verified (\w+)$', re.MULTILINE)

HEADER = ('program', 'size', 'nodes', 'protocol', 'time ms', 'threads ms', 'speed', 'faults',
          'fetches', 'diffs', 'messages', 'MB', 'verified')


class Failure(Exception):
    """The demo cannot go on; the text says why."""


def say(text):
    print(text, flush=True)


def build():
    """The release build of the README; returns the path of every program by name."""
    if not os.path.exists(os.path.join(BUILD, 'build.ninja')):
        say('configuring')
        logged(['meson', 'setup', '-Dbuildtype=release', '-Dtests=false', '--libdir=lib', BUILD, ROOT])
    say('building, in ' + os.path.relpath(BUILD))
    logged(['ninja', '-C', BUILD])
    targets = json.loads(subprocess.run(['meson', 'introspect', '--targets', BUILD], check=True,
                                        stdout=subprocess.PIPE, text=True).stdout)
    return {target['name']: target['filename'][0] for target in targets
            if target['type'] == 'executable'}


def logged(command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors='replace', check=False)
    if done.returncode != 0:
        say('\n'.join(done.stdout.splitlines()[-40:]))
        raise Failure('failed: ' + ' '.join(command))


def names(programs, what):
    """The names that `roam info` lists, except those for tests only."""
    shown = subprocess.run([programs['roam'], 'info', what], check=True, stdout=subprocess.PIPE,
                           text=True).stdout
    return [line.split()[0] for line in shown.splitlines()
            if re.match(r'  \w', line) and 'for tests only' not in line and 'missing' not in line]


def run_once(command, variables):
    """Runs a program; returns the microseconds that it says it took, and what is wrong with it (or
    '')."""
    env = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    process = subprocess.Popen(command, env={**env, **variables}, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, errors='replace',
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return 0, f'took more than {TIMEOUT_S} s'
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    result = RESULT.search(out)
    if process.returncode != 0 or result is None:
        lines = (err + out).strip().splitlines() or ['no output']
        return 0, f'status {process.returncode}: {lines[-1]}'
    if result.group(3) != 'ok':
        return int(result.group(1)), 'wrong result'
    return int(result.group(1)), ''


class Row:
    """One line of the table."""

    def __init__(self, program, size, nodes, protocol, engine=None):
        self.program = program
        self.size = size
        self.nodes = nodes
        self.protocol = protocol
        self.engine = engine
        self.us = []
        self.twin_us = []
        self.counters = {}
        self.wrong = ''

    def label(self):
        return f'{self.program} {" ".join(self.size)} on {self.nodes} by {self.name()}'

    def name(self):
        return self.protocol + (f'/{self.engine}' if self.engine else '')

    def arguments(self):
        return [f'-p{self.nodes}', *self.size, PROGRAMS[self.program][2]]

    def run(self, programs, runs):
        """Runs alternate with the program on threads, so that changes of the machine's speed affect
        both."""
        for _ in range(runs):
            us, wrong = run_once([programs[self.program + '-pthread'], *self.arguments()], {})
            self.note('threads: ' + wrong if wrong else '')
            self.twin_us.append(us)
            self.run_roam(programs)
            if self.wrong:
                return

    def run_roam(self, programs):
        variables = {'ROAM_PROTOCOL': self.protocol}
        if self.engine:
            variables['ROAM_FAULT'] = self.engine
        with tempfile.TemporaryDirectory() as place:
            stats = os.path.join(place, 'stats.json')
            us, wrong = run_once([programs[self.program], *self.arguments()],
                                 {**variables, 'ROAM_STATS': stats})
            self.note(wrong)
            self.us.append(us)
            if not wrong:
                with open(stats, encoding='utf-8') as file:
                    self.counters = json.load(file)['counters']

    def note(self, wrong):
        self.wrong = self.wrong or wrong

    def count(self, *counters):
        return sum(sum(self.counters[name]) for name in counters)

    def cells(self):
        first = [self.program, ' '.join(self.size), str(self.nodes), self.name()]
        if self.wrong:
            return first + ['-'] * (len(HEADER) - len(first) - 1) + ['NO: ' + self.wrong]
        mine, twin = statistics.median(self.us), statistics.median(self.twin_us)
        return first + [
            f'{mine / 1e3:.1f}', f'{twin / 1e3:.1f}', f'{twin / mine:.2f}x' if mine else '-',
            str(self.count('read_faults', 'write_faults')), str(self.count('fetches')),
            str(self.count('diffs')), str(self.count('messages_sent')),
            f'{self.count("bytes_sent", "bytes_fetched") / 1e6:.1f}', 'yes']


def plan(programs, args):
    """The rows, in the order of the table."""
    others = [name for name in names(programs, 'protocols')
              if name != MAIN_PROTOCOL and (args.all or name == ALWAYS_PROTOCOL)]
    engines = names(programs, 'engines') if args.all else []
    rows = []
    for program, (size, small, _) in PROGRAMS.items():
        rows += [Row(program, small if args.small else size, nodes, MAIN_PROTOCOL)
                 for nodes in (1, 2, 4)]
        rows += [Row(program, small if args.small else size, 2, MAIN_PROTOCOL, engine)
                 for engine in engines]
        rows += [Row(program, small, nodes, protocol)
                 for protocol in others for nodes in ((2, 4) if args.all else (2,))]
    return rows


def print_table(rows):
    table = [HEADER] + [row.cells() for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEADER) - 1)]
    for i, line in enumerate(table):
        left = [line[j].ljust(widths[j]) for j in (0, 1)]
        right = [line[j].rjust(widths[j]) for j in range(2, len(HEADER) - 1)]
        if i > 0 and line[0] != table[i - 1][0]:
            say('')
        say('  '.join(left + right + [line[-1]]))
    say('\ntime: as the program reports it, start to end.  threads: the same source with pthread\n'
        'macros and as many threads.  speed: that time divided by roam\'s; 1.00x is as fast.\n'
        'faults, fetches (pages), diffs, messages, MB: of all nodes.')


def show_progress(number, count, text):
    if sys.stderr.isatty():
        print(f'\r\033[K[{number}/{count}] {text}', end='', file=sys.stderr, flush=True)
    else:
        print(f'[{number}/{count}] {text}', file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(prog='tools/demo', description=__doc__,
                                     usage=argparse.SUPPRESS,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--all', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--small', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--runs', type=int, default=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.runs < 1:
        raise Failure('--runs must be at least 1')
    programs = build()
    rows = plan(programs, args)
    start = time.monotonic()
    for number, row in enumerate(rows, 1):
        show_progress(number, len(rows), row.label())
        row.run(programs, args.runs)
    if sys.stderr.isatty():
        print('\r\033[K', end='', file=sys.stderr, flush=True)
    print_table(rows)
    wrong = sum(row.wrong != '' for row in rows)
    say(f'{len(rows) - wrong} of {len(rows)} verified, in {time.monotonic() - start:.0f} s')
    return 1 if wrong else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f'tools/demo: {failure}')
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
