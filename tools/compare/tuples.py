"""`roam compare tuples`: computations, each by tuples, by X-functions and by pages."""
import kernels
import report
import runs

FAMILY = 'tuples'
# What each program computes, and by which models; apps/README.md has more.
PROGRAMS = {
    'tuples-sum': ('global sum', ('memory', 'tuples', 'xfunction', 'pages', 'reduce')),
    'tuples-pi': ('Monte Carlo Pi', ('tuples', 'xfunction', 'pages', 'reduce')),
    'tuples-sor': ('SOR, borders exchanged', ('tuples', 'pages')),
    'tuples-tsp': ('TSP, a bag of tasks', ('tuples', 'pages')),
    'tuples-producers': ('producers and consumers', ('tuples', 'pages')),
    'tuples-pingpong': ('ping-pong', ('tuples', 'pages')),
}
NODES_MIN = {'tuples-producers': 2, 'tuples-pingpong': 2}
MODELS = ('memory', 'tuples', 'xfunction', 'pages', 'reduce')
DEFAULTS = {'nodes': [1, 2, 4, 8, 16, 32], 'repeat': 3, 'timeout': 120.0, 'protocols': ['hlrc']}
COLUMNS = ('messages', 'bytes', 'faults')
SUM = 'tuples-sum'
# How many times faster the X-function is at 32 processes (Vinter et al. 2002, section 4).
PAPER = {'memory': 79, 'tuples': 48, 'xfunction': 1}
PAPER_NODES = 32
MEANING = ('{runs}: of the measured part alone, without the creation of processes. x: how many times '
           'the time of tuples. Of all nodes, from start to end: messages, MB (messages sent and '
           'pages copied), page faults. memory: tuples used as if they were variables under a '
           'semaphore; tuples: tuples as they are meant; xfunction: an element that sums; pages: '
           'locks, condition variables and barriers with shared memory under {protocol}; reduce: '
           'roam_reduce. {cpus} CPUs are shared by all processes.')


def milliseconds(us):
    return f'{us / 1e3:.2f}'


class TuplesRow(runs.Row):
    """A program by one model on one number of nodes."""

    def __init__(self, args, kernel, model, nodes):
        super().__init__(kernels.job(args, kernel, ['-m', model]), args.protocols[0], args.engine,
                         nodes)
        self.kernel = kernel
        self.model = model

    def label(self):
        return f'{self.kernel}: {self.model} on {self.nodes}'


class TuplesReport(report.Growing):
    """All of them."""
    heading = 'Tuples and pages compared'

    def __init__(self, args, blocks):
        super().__init__(args, [row for rows in blocks for row in rows])
        self.us = {(row.kernel, row.model, row.nodes): row for row in self.rows}

    def time_us(self, kernel, model, nodes):
        """The time; None if there is no such row, or it was wrong."""
        row = self.us.get((kernel, model, nodes))
        return row.median_us('region') if row else None

    def against_tuples(self, row):
        tuples = self.time_us(row.kernel, 'tuples', row.nodes)
        mine = row.median_us('region')
        return mine / tuples if mine and tuples else None

    # --------------------------------------------------------------------------------------- table

    def title(self):
        return f'tuples and pages, pages under {self.args.protocols[0]}'

    def headings(self):
        return ['program', 'nodes', 'model', 'time ms', 'from-to', 'x',
                *(report.HEADINGS[name] for name in COLUMNS), 'verified']

    def cells(self, row):
        first = [row.kernel, str(row.nodes), row.model]
        if row.error:
            gap = len(self.headings()) - len(first) - 1
            return first + ['-'] * gap + ['NO: ' + row.error]
        times = row.microseconds('region')
        ratio = self.against_tuples(row)
        counts = [row.column(name) for name in COLUMNS]
        return first + [
            milliseconds(row.median_us('region')),
            f'{milliseconds(min(times))}-{milliseconds(max(times))}',
            '-' if ratio is None else f'{ratio:.2f}',
            *('-' if count is None else f'{count / 1e6:.2f}' if name == 'bytes' else f'{count:.0f}'
              for name, count in zip(COLUMNS, counts)),
            'yes']

    def sum_ratios(self):
        """{model: times the X-function's time}, on as many nodes as in the paper; {} if some are
        missing."""
        us = {model: self.time_us(SUM, model, PAPER_NODES) for model in PAPER}
        return {model: time / us['xfunction'] for model, time in us.items()} \
            if all(us.values()) else {}

    def paper(self):
        """The global sum beside the paper's figure 2."""
        here = self.sum_ratios()
        if not here:
            return []
        shown = ' : '.join(f'{here[model]:.1f}' for model in PAPER)
        theirs = ' : '.join(map(str, PAPER.values()))
        return [f'{SUM} on {PAPER_NODES}, {" : ".join(PAPER)}: {shown} here, {theirs} in Vinter et '
                'al. 2002 (why: docs/pastset.md).']

    def meaning(self):
        repeat = self.args.repeat
        return MEANING.format(
            runs=f'time: the median of {repeat} runs' if repeat > 1 else 'time: of one run',
            protocol=self.args.protocols[0], cpus=self.machine()['cpus'])

    def paragraphs(self):
        return [self.meaning(), *self.paper(), *self.notes(), self.verdict()]

    # ------------------------------------------------------------------------------ JSON, picture

    def as_json(self):
        return {
            **self.head_json(), 'protocol': self.args.protocols[0],
            'rows': [{'program': row.kernel, 'model': row.model,
                      **report.row_json(row), 'x': self.against_tuples(row)}
                     for row in self.rows],
            'sum': {'nodes': PAPER_NODES, 'here': self.sum_ratios(), 'paper': PAPER},
        }

    def panels(self, picture):
        return [picture.ModelsPanel(f'{PROGRAMS[kernel][0]}: ms', self.args, MODELS, rows)
                for kernel in self.args.kernels
                if (rows := [row for row in self.rows if row.kernel == kernel])]


def prepare(args):
    """Fills in defaults."""
    for name, value in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if len(args.protocols) != 1:
        raise runs.Failure('tuples: pages are under one protocol: --protocols NAME', 2)
    kernels.check(args, list(PROGRAMS), FAMILY)


def compare(args):
    """Measures all rows, and prints the table as it grows."""
    blocks = [[TuplesRow(args, kernel, model, nodes) for nodes in args.nodes
               if nodes >= NODES_MIN.get(kernel, 1) for model in PROGRAMS[kernel][1]]
              for kernel in args.kernels]
    result = TuplesReport(args, blocks)
    result.grow([rows for rows in blocks if rows])
    return result
