"""`roam compare --paper`: the programs of a paper, its table, and what they cost here."""
import math

import kernels
import paper_hlrc
import paper_jump
import report
import runs

PAPERS = {'jump': paper_jump, 'hlrc': paper_hlrc}
SIZES = {'all': slice(None), 'largest': slice(-1, None), 'small': slice(1)}
COLUMNS = ('messages', 'bytes', 'faults', 'home_moves')
ALIKE = 1.05    # ratios between this number and its inverse count as alike
FIRST_FILLS = '-f'
MEANING = ('{repeat} runs of each: medians; percentages: the difference of most and least, if it is '
           '1 % of the median or more. Of all nodes: messages, MB sent, page faults, home moves. '
           'ROAM_ONESIDED=0: pages and diffs go by messages, as between hosts. {placement}{cache} '
           'Times only if every node has a CPU; the paper had one machine per node, of its time.')
PLACEMENT = {False: 'The first process writes all the input (-f): no page begins at its user.',
             True: 'Each process writes its part of the input, and is its pages\' first home.'}
ORDER_MEANING = ('Bytes here and, in parentheses, times in the paper, one protocol\'s divided by '
                 'the other\'s: geometric means over what both have; alike: within 5 %.')


class PaperRow(runs.Row):
    """A row of the paper's table on one number of nodes."""

    def __init__(self, job, kernel, size, protocol, nodes):
        super().__init__(job, protocol, job.args.engine, nodes)
        self.kernel = kernel
        self.size = size

    def label(self):
        return f'{self.kernel} {self.size}: {super().label()}'


class Benchmark:
    """A program with one of its sizes."""

    def __init__(self, args, kernel, size):
        self.kernel = kernel
        self.size = size
        job = kernels.job(args, kernel, ['-n', size] + ([] if args.placed else [FIRST_FILLS]))
        self.rows = [PaperRow(job, kernel, size, protocol, nodes)
                     for nodes in args.nodes for protocol in args.protocols]


def spread(values):
    """' 3%' for [99, 100, 102]; '' for less than 1 %."""
    middle = runs.median(values)
    part = (max(values) - min(values)) / middle if middle else 0
    return f' {part:.0%}' if part >= 0.01 else ''


def counted(row, name):
    value = row.column(name)
    if value is None:
        return '-'
    shown = f'{value / 1e6:.3f}' if name == 'bytes' else f'{value:.0f}'
    return shown + spread(row.values(name))


def mean(ratios):
    """Geometric; None of nothing."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None


def order(ratio):
    return 0 if 1 / ALIKE <= ratio <= ALIKE else math.copysign(1, math.log(ratio))


class Pair:
    """One protocol divided by another, for one kernel: bytes measured here, and times in the
    paper."""

    def __init__(self, one, other, rows, paper_s):
        self.name = f'{one}/{other}'
        cells = {(row.size, row.nodes, row.protocol): row.column('bytes') for row in rows}
        both = []
        for size, nodes, protocol in cells:
            mine = [cells.get((size, nodes, name)) for name in (one, other)]
            theirs = [paper_s(size, name, nodes) for name in (one, other)]
            if protocol == one and all(mine) and all(theirs):
                both.append((mine[0] / mine[1], theirs[0] / theirs[1]))
        self.here = mean([here for here, _ in both])
        self.paper = mean([paper for _, paper in both])

    def verdict(self):
        if self.here is None:
            return 'not measured'
        if order(self.paper) == 0:
            return 'alike in the paper'
        return 'holds' if order(self.here) == order(self.paper) else 'differs'

    def shown(self):
        numbers = '' if self.here is None else f' {self.here:.2f} ({self.paper:.2f})'
        return f'{self.name}{numbers} {self.verdict()}'

    def as_json(self):
        return {'pair': self.name, 'bytes_ratio': self.here, 'paper_time_ratio': self.paper,
                'verdict': self.verdict()}


class PaperReport(report.Growing):
    """The paper's table beside the one measured here."""

    def __init__(self, args, benchmarks):
        super().__init__(args, [row for benchmark in benchmarks for row in benchmark.rows])
        self.source = PAPERS[args.paper]
        self.seconds = self.source.seconds()
        self.benchmarks = benchmarks
        self.cpus = self.machine()['cpus']

    def paper_s(self, row):
        return self.seconds[row.kernel][row.size].get((row.protocol, row.nodes))

    def title(self):
        paper = self.source.PAPER
        return (f'{paper["authors"]}, {paper["title"]} ({paper["year"]}), table {paper["table"]}, '
                'and here')

    def headings(self):
        return ['program', 'size', 'nodes', 'protocol', *(report.HEADINGS[name] for name in COLUMNS),
                'time s', 'paper s', 'verified']

    def time_s(self, row):
        times = [us / 1e6 for us in row.microseconds('total')]
        return f'{runs.median(times):.3f}{spread(times)}' \
            if times and row.nodes <= self.cpus else '-'

    def cells(self, row):
        paper_s = self.paper_s(row)
        counts = ['-'] * len(COLUMNS) if row.error else [counted(row, name) for name in COLUMNS]
        return [row.kernel, row.size, str(row.nodes), row.protocol, *counts, self.time_s(row),
                '-' if paper_s is None else f'{paper_s:.3f}',
                f'NO: {row.error}' if row.error else 'yes']

    def pairs(self, kernel):
        rows = [row for row in self.rows if row.kernel == kernel]
        return [Pair(one, other, rows, lambda size, name, nodes:
                     self.seconds[kernel][size].get((name, nodes)))
                for one, other in self.source.PAIRS
                if one in self.args.protocols and other in self.args.protocols]

    def orders(self):
        """A line for each kernel."""
        lines = [f'{kernel:8}  ' + '; '.join(pair.shown() for pair in pairs)
                 for kernel in self.args.kernels if (pairs := self.pairs(kernel))]
        return [ORDER_MEANING, *lines] if lines else []

    def missing(self):
        names = self.args.missing
        return [f'Not in this build: {", ".join(names)}.'] if names else []

    def meaning(self):
        pages = self.args.cache_pages
        cache = '' if pages is None else f' A node caches {pages} pages at most.'
        return MEANING.format(repeat=self.args.repeat, cache=cache,
                              placement=PLACEMENT[self.args.placed])

    def paragraphs(self):
        return [self.meaning(), *self.missing(), *self.orders(), *self.notes(), self.verdict()]

    def head(self):
        return [self.title(), *self.missing()]

    def row_json(self, row):
        time_less = {} if row.nodes <= self.cpus else {f'{which}_us': None for which in runs.TIMES}
        return {'program': row.kernel, 'size': row.size,
                **report.row_json(row), **time_less, 'paper_s': self.paper_s(row)}

    def as_json(self):
        return {
            **self.head_json(), 'paper': self.source.PAPER, 'placed': self.args.placed,
            'missing': self.args.missing, 'rows': [self.row_json(row) for row in self.rows],
            'orders': {kernel: [pair.as_json() for pair in self.pairs(kernel)]
                       for kernel in self.args.kernels},
        }

    def panels(self, picture):
        """Each kernel at the largest of its sizes here."""
        largest = {benchmark.kernel: benchmark for benchmark in self.benchmarks}
        return [picture.column_panel(name, self.args, benchmark.rows,
                                     f'{benchmark.kernel} {benchmark.size}: ')
                for benchmark in largest.values() for name in ('bytes', 'messages')]


# ----------------------------------------------------------------------------------------- options

def prepare(args, protocols):
    """Fills in defaults; `protocols` are those that the build has."""
    source = PAPERS[args.paper]
    if args.nodes is None:
        args.nodes = list(source.NODES)
    for name, value in source.DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    wanted = args.protocols or list(source.PROTOCOLS)
    args.missing = [name for name in wanted if name not in protocols and name in source.PROTOCOLS]
    args.protocols = [name for name in wanted if name not in args.missing]
    if not args.protocols:
        raise runs.Failure(f'this build has none of the paper\'s protocols: '
                           f'{", ".join(args.missing)}')
    if args.placed and source is not paper_jump:
        raise runs.Failure(f'--placed: not with --paper {args.paper}', 2)
    kernels.check(args, list(source.programs()), source.FAMILY)


def compare(args):
    """Measures all rows, and prints the table as it grows."""
    if args.paper == 'hlrc':
        return paper_hlrc.compare(args)
    table = paper_jump.seconds()
    benchmarks = [Benchmark(args, kernel, size) for kernel in args.kernels
                  for size in list(table[kernel])[SIZES[args.sizes]]]
    result = PaperReport(args, benchmarks)
    result.grow([benchmark.rows for benchmark in benchmarks])
    return result
