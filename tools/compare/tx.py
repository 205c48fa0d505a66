"""Runs a program of transactions, and names the pages for which most attempts began anew.

usage: roam tx report [OPTION]... [--] PROGRAM [ARGUMENT]...

  --nodes N         the number of nodes (4)
  --pages N         the pages shown, those with most conflicts (10)
  --timeout S       seconds after which the run counts as hung (60)
  --run             start PROGRAM by `roam run -n NODES`
  --input FILE      the standard input of PROGRAM; {nodes} in the name is replaced
  --json FILE       write all pages, for other programs; -: to standard output, without text

PROGRAM gets its number of nodes as under `roam doctor`.  It runs under plurix with ROAM_CHECK=conflicts;
other ROAM_ variables hold, such as ROAM_TX_READS (what counts as read), ROAM_TX_VALIDATE, ROAM_TX_COMMIT.
For each page the table has what lies there, by the line that allocated it, and from where to where; the
attempts that lost the page, at all nodes; and how many of them lost it in vain: the transaction was
committed in the end without touching it.  An attempt that lost several pages counts for each.  The exit
status is 0 if the program's is, 2 for wrong options and programs without transactions, 127 if there is no
such program.
"""
import os
import shutil
import sys
import tempfile

import command
import doctor_finds as finds
import doctor_runs
import report
import runs
from compare import check_program, number_list, positive
from doctor import Progress, write

PAGE = 4096
COUNTERS = ('tx_commits', 'tx_aborts', 'tx_false', 'tx_fair')
HEADINGS = ('attempts', 'in vain', 'nodes', 'what lies there')
BLOCKS_MAX = 3  # named of a page


def parse(argv):
    parser = command.Arguments('tx')
    parser.add_argument('-h', '--help', action='store_true')
    parser.add_argument('--roam', default=shutil.which('roam') or 'roam')
    parser.add_argument('--nodes', type=number_list, default=[4])
    parser.add_argument('--pages', type=positive(int), default=10)
    parser.add_argument('--timeout', type=positive(float), default=60.0)
    parser.add_argument('--run', action='store_true')
    parser.add_argument('--input')
    parser.add_argument('--json')
    options, words = parser.split(argv)
    if words[:1] == ['report']:
        more, words = parser.split(words[1:])
        options += more
    elif not {'-h', '--help'} & set(options):
        parser.error(f'{words[0]}: the command is report' if words else 'report missing')
    args = parser.parse_args(options)
    if args.help:
        print(__doc__.strip())
        sys.exit(0)
    if not words:
        parser.error('PROGRAM missing')
    if len(args.nodes) > 1 or 1 in args.nodes:
        parser.error('--nodes: one number of nodes, 2 or more')
    args.program, args.arguments = words[0], words[1:]
    if args.input and not os.access(runs.filled(args.input, args.nodes[0]), os.R_OK):
        raise runs.Failure(f'cannot read {runs.filled(args.input, args.nodes[0])}')
    return args


class Page:
    """A page's part in conflicts, at all nodes."""

    def __init__(self, number):
        self.number = number
        self.attempts = self.in_vain = 0
        self.nodes, self.closed = [], []

    def add(self, node, attempts, in_vain, closed):
        self.attempts += attempts
        self.in_vain += in_vain
        self.nodes.append(node)
        if closed:
            self.closed.append(node)


class Conflicts:
    """Reads the files that all nodes wrote."""

    def __init__(self, program, paths):
        self.program = program
        self.reads = self.validates = self.commits = None
        self.blocks, self.found = {}, {}
        for path in paths:
            me = 0
            with open(path, encoding='utf-8') as file:
                for line in file:
                    kind, *words = line.rstrip('\n').split('\t')
                    if kind == 'node':
                        me = int(words[0])
                    elif kind == 'mode':
                        self.reads, self.validates, self.commits = words
                    elif kind == 'block':
                        self.blocks[int(words[0])] = (int(words[1]), words[2], words[3])
                    else:
                        page = self.found.setdefault(int(words[0]), Page(int(words[0])))
                        page.add(me, *map(int, words[1:]))
        self.pages = sorted(self.found.values(), key=lambda page: (-page.attempts, page.number))

    def name(self, code, name):
        if name:
            return name
        line = finds.code_place(self.program, code)
        return finds.BLOCK_OF + line if line else 'a block'

    def lies(self, page):
        """The allocations of which the page has bytes: (name, first byte of it, last byte, its size)."""
        first, end = page.number * PAGE, (page.number + 1) * PAGE
        return [(self.name(code, name), max(first - offset, 0), min(end - offset, size) - 1, size)
                for offset, (size, code, name) in sorted(self.blocks.items())
                if size > 0 and offset < end and offset + size > first]


def lies_text(lies):
    text = ', '.join(f'{name} +{first:#x} to +{last:#x}, of {size} bytes'
                     for name, first, last, size in lies[:BLOCKS_MAX])
    more = f' and {len(lies) - BLOCKS_MAX} more' if len(lies) > BLOCKS_MAX else ''
    return (text or '(no allocation)') + more


def table(conflicts, most):
    cells = [HEADINGS]
    for page in conflicts.pages[:most]:
        closed = f'; read only where it is touched, at node {", ".join(map(str, page.closed))}' \
            if page.closed and conflicts.reads == 'adapt' else ''
        cells.append((str(page.attempts), str(page.in_vain), ','.join(map(str, page.nodes)),
                      lies_text(conflicts.lies(page)) + closed))
    if len(cells) == 1:
        return ['no attempt lost a page']
    left = len(conflicts.pages) - most
    return report.aligned(cells) + ([f'and {left} pages more'] if left > 0 else [])


def measure(args, program):
    """Runs the program once under the check; (what it left, its counters)."""
    nodes, named, progress = args.nodes[0], doctor_runs.transacting(args.roam), Progress(1)
    if program.style is None:
        program.find_style(named, nodes, progress)
    with tempfile.TemporaryDirectory(prefix='roam-tx-') as place:
        progress.step(f'{named} on {nodes}, ROAM_CHECK=conflicts')
        run = program.start(program.style, 'conflicts', 'SC', nodes,
                            {'ROAM_PROTOCOL': named, 'ROAM_CHECK': 'conflicts',
                             'ROAM_CONFLICTS': os.path.join(place, 'pages')})
        progress.clear()
        if run.failed():
            raise runs.Failure(f'{run.why()}; `roam doctor` says more')
        paths = [os.path.join(place, name) for name in sorted(os.listdir(place))]
        counters = {name: sum((run.stats or {}).get('counters', {}).get(name, [])) for name in COUNTERS}
        if not paths:
            raise runs.Failure('the program ended without its nodes\' end, so nothing was written')
        if not counters['tx_commits']:
            raise runs.Failure('the program has run no transaction (roam_tx)', 2)
        return Conflicts(args.program, paths), counters


def as_json(args, program, conflicts, counters):
    return {'format': 'roam tx 1', 'program': args.program, 'arguments': args.arguments,
            'style': program.style, 'nodes': args.nodes[0], 'reads': conflicts.reads,
            'validate': conflicts.validates, 'commit': conflicts.commits, 'counters': counters,
            'pages': [{'attempts': page.attempts, 'in_vain': page.in_vain, 'nodes': page.nodes,
                       'closed': page.closed,
                       'lies': [dict(zip(('name', 'first', 'last', 'bytes'), each))
                                for each in conflicts.lies(page)]} for page in conflicts.pages]}


def text(args, program, conflicts, counters):
    commits, aborts, in_vain, fair = (counters[name] for name in COUNTERS)
    return '\n'.join([
        f'roam tx report: {program.shown(args.nodes[0])}: reads {conflicts.reads}, validation '
        f'{conflicts.validates}, commit by {conflicts.commits}',
        f'{commits} commits, {aborts} aborts, {in_vain} of them false; {fair} attempts began with the token',
        *table(conflicts, args.pages)])


def main(argv):
    args = parse(argv)
    command.end_by_signals()
    check_program(args)
    program = doctor_runs.Program(args)
    conflicts, counters = measure(args, program)
    if args.json:
        write(as_json(args, program, conflicts, counters), args.json)
    if args.json != '-':
        print(text(args, program, conflicts, counters))
    return 0


if __name__ == '__main__':
    command.run('tx', main)
