"""What the paper on HLRC over VIA measured, and the same of its programs here: `--paper hlrc`.

Rangarajan and Iftode, Software Distributed Shared Memory over Virtual Interface Architecture
(2000).  Its figures 2 and 3 are pictures; the numbers here are from its text about them.
"""
import copy

import kernels
import report
import runs

PAPER = {'authors': 'Rangarajan and Iftode', 'year': 2000, 'nodes': 8,
         'title': 'Software Distributed Shared Memory over Virtual Interface Architecture'}
NODES = (2, 4)
PROTOCOLS = ('hlrc',)
FAMILY = None    # this family has no prefix
DEFAULTS = {'repeat': 3, 'timeout': 120.0, 'sizes': 'largest'}

# Table 1: problem size, sequential time in s, shared memory in MB; table 5: speedup on 8 nodes;
# section 5.3: writers of a page, grain of access.
TABLE = '''
barnes         | Barnes-Spatial, 262144 bodies            |   357 | 325 | 6.3 | multiple writer, fine grain
fft            | FFT, 2048x2048                           |    86 | 196 | 5.8 | single writer, fine grain
lu             | LU, 2048 x 2048                          |   209 |  33 | 7.4 | single writer, coarse grain
ocean          | Ocean, 514 x 514                         |    30 |  97 | 7.7 | single writer, coarse grain
radix          | Radix, 45M keys                          |    95 | 377 | 4.3 | multiple writer, coarse grain
water-nsquared | Water-Nsquared, 32768 molecules, 5 steps | 22450 |  22 | 6.2 | multiple writer, coarse grain
water-spatial  | Water-Spatial, 262144 molecules          | 14202 | 264 | 6.7 | multiple writer, fine grain
'''
# Of figure 2: section 5.4 says for which programs page time is "a significant percentage", 5.3 that
# Radix spends "a large amount of time" in the barrier, and 6 that handlers take at most 5 %
# anywhere.
FIGURE_2 = {'page': (('barnes', 'fft', 'radix'), 'significant'), 'barrier': (('radix',), 'large')}
HANDLER = '<= 5'
# Of figure 3: section 6 gives the percentage of small messages of four programs, which it does not
# name.
SMALL = '> 75'
# Section 6: contiguous dirty segments of a modified page.
SEGMENTS = {'barnes': 21, 'radix': 1}

# Arguments for the tests, and for runs of a few seconds; for fft, lu, ocean and radix the paper's sizes.
SIZES = {
    'barnes': ('-n 256', '-n 2048'),
    'fft': ('-m 10', '-m 22'),
    'lu': ('-n 64 -b 16', '-n 2048 -b 16'),
    'ocean': ('-n 34', '-n 514'),
    'radix': ('-n 16384', '-n 45M'),
    'water-nsquared': ('-n 64', '-n 1728'),
    'water-spatial': ('-n 64', '-n 13824'),
}
AFTER = 2   # full barriers of all these programs before the part that is measured

WAITS = ('page', 'lock', 'barrier', 'overhead')
PARTS = ('compute', *WAITS, 'handler')
ADDS_UP = 0.005   # the share of the whole by which the sum of the parts may differ
CLASSES = {'<64': 'messages_under_64', '<128': 'messages_under_128', '<256': 'messages_under_256',
           '<512': 'messages_under_512', '<1K': 'messages_under_1k', '<2K': 'messages_under_2k',
           '<4K': 'messages_under_4k', '4K-': 'messages_from_4k'}
SMALL_CLASSES = tuple(CLASSES.values())[:3]
PAGE_BYTES = 4096

MEANING = ('{repeat} runs of each: medians, of all nodes; the times are those of the run with the '
           'median whole. Counted is the measured part of the program (ROAM_STATS_AFTER=2), in runs '
           'without the check, after one with it. whole s: the time of all nodes\' threads, and of '
           'their service threads in handlers; its parts, as in figure 2, are percentages of it, and '
           'a handler that a waiting thread runs is no part of the wait. messages: their sizes, in '
           'percent, as in figure 3; the text of the paper does not name its eight classes but 256 '
           'bytes. touched MB: pages of which a node has become the home, from the beginning; table '
           '1 has the shared memory of the size there. runs/diff: contiguous dirty '
           'segments, in words of 4 bytes, of a page in a diff (section 6). Figures 2 and 3 are pictures: shown is what the text '
           'says of them. ROAM_ONESIDED=0: pages and diffs go by messages, as between hosts.{cache} '
           'fft, '
           'lu, ocean and radix have the paper\'s sizes. barnes is the suite\'s, with its locks; the paper '
           'has Barnes-Spatial.')


def programs():
    """{program: what the tables say}, in their order."""
    found = {}
    for line in TABLE.strip().splitlines():
        name, size, seconds, megabytes, speedup, sharing = (cell.strip() for cell in line.split('|'))
        found[name] = {'size': size, 'sequential_s': float(seconds), 'shared_MB': int(megabytes),
                       'speedup': float(speedup), 'sharing': sharing,
                       **{f'{part}_time': word if name in which else None
                          for part, (which, word) in FIGURE_2.items()},
                       'segments_per_page': SEGMENTS.get(name)}
    return found


class Breakdown:
    """The time of one run: its parts in ms, over all nodes."""

    def __init__(self, times):
        def total(name):
            return sum(times.get(name, [0]))
        self.whole = total('wall') + total('handler')
        self.parts = {'compute': total('compute'), 'handler': total('handler')}
        for name in WAITS:
            handlers = total(f'{name}_handlers')
            self.whole -= handlers
            self.parts[name] = max(total(name) - handlers, 0)

    def percent(self, part):
        return 100 * self.parts[part] / self.whole if self.whole else 0

    def off(self):
        """How much more, or less, the parts are than the whole, as a share of it."""
        return sum(self.parts.values()) / self.whole - 1 if self.whole else 0


class HlrcRow(runs.Row):
    """A program under one protocol on one number of nodes.  The check costs time, so a run with it
    comes first, and counts nothing but the pages touched."""

    def __init__(self, args, kernel, size, protocol, nodes):
        checking, measuring = copy.copy(args), copy.copy(args)
        checking.after_barriers, measuring.no_verify = None, True
        super().__init__(kernels.job(measuring, kernel, size.split()), protocol, args.engine, nodes)
        self.checking = kernels.job(checking, kernel, size.split())
        self.kernel = kernel
        self.size = size
        self.touched = None

    def label(self):
        return f'{self.kernel} {self.size}: {super().label()}'

    def add(self):
        if not self.checked:
            outcome, stats = self.checking.run(self.protocol, self.engine, self.nodes)
            self.error = self.checking.wrong(outcome)
            if self.error:
                return
            self.touched = sum((stats or {}).get('counters', {}).get('claims', []))
        super().add()
        self.checked = {runs.OUTPUT}

    def breakdown(self):
        """The times of the run with the median whole; None after an error."""
        each = sorted((Breakdown(stats['time_ms']) for stats in self.stats),
                      key=lambda breakdown: breakdown.whole)
        return each[(len(each) - 1) // 2] if each and not self.error else None

    def share(self, *names):
        """The percentage of each kind of messages; None if there are none."""
        counts, messages = [self.counter(name) for name in names], self.counter('messages_sent')
        return None if not messages or None in counts else 100 * sum(counts) / messages

    def per_diff(self, name):
        count, diffs = self.counter(name), self.counter('diffs')
        return None if not diffs or count is None else count / diffs


class Part:
    """For a picture: the time of one part of a row."""

    def __init__(self, row, part):
        self.row, self.part = row, part
        self.nodes, self.error = row.nodes, row.error

    def percent(self):
        breakdown = self.row.breakdown()
        return [breakdown.percent(self.part)] if breakdown else []


def shown(value, form='.0f'):
    return '-' if value is None else f'{value:{form}}'


class HlrcReport(report.Growing):
    """The paper's times and messages of each program beside the measured ones."""

    def __init__(self, args, blocks):
        super().__init__(args, [row for rows in blocks for row in rows])
        self.paper = programs()

    def title(self):
        return f'{PAPER["authors"]}, {PAPER["title"]} ({PAPER["year"]}), and here'

    # --------------------------------------------------------------------------------------- cells

    def time_cells(self, row):
        breakdown = row.breakdown()
        if breakdown is None:
            return ['-'] * (1 + len(PARTS))
        return [f'{breakdown.whole / 1e3:.3f}', *(f'{breakdown.percent(part):.1f}' for part in PARTS)]

    def paper_time_cells(self, name):
        said = self.paper[name]
        return ['-', *(HANDLER if part == 'handler' else said.get(f'{part}_time') or '-'
                       for part in PARTS)]

    def message_cells(self, row):
        if row.error:
            return ['-'] * (6 + len(CLASSES))
        return [shown(row.counter('messages_sent')),
                *(shown(row.share(name), '.1f') for name in CLASSES.values()),
                shown(row.share(*SMALL_CLASSES), '.1f'),
                shown(row.touched and row.touched * PAGE_BYTES / 1e6, '.1f'),
                shown(row.counter('diffs')), shown(row.per_diff('diff_bytes')),
                shown(row.per_diff('diff_runs'), '.1f')]

    def paper_message_cells(self, name):
        segments = self.paper[name]['segments_per_page']
        return ['-', *['-'] * len(CLASSES), SMALL, str(self.paper[name]['shared_MB']), '-', '-',
                str(segments or '-')]

    FIRST = ['program', 'size', 'protocol', 'nodes']
    TIMES = ['whole s', *(f'{part} %' for part in PARTS)]
    MESSAGES = ['messages', *CLASSES, 'all <256', 'touched MB', 'diffs', 'B/diff', 'runs/diff']

    def first_cells(self, row):
        return [row.kernel, row.size, row.protocol, str(row.nodes)]

    def paper_first_cells(self, _):
        return ['the paper', '', 'HLRC', str(PAPER['nodes'])]

    def said(self, name):
        """What the paper's tables say of a program."""
        said = self.paper[name]
        segments = said['segments_per_page']
        return (f'{name}: in the paper {said["size"]}, {said["sequential_s"]:.0f} s sequential, '
                f'{said["shared_MB"]} MB shared (table 1), speedup {said["speedup"]} on 8 nodes '
                f'(table 5); {said["sharing"]} (5.3)'
                + (f'; {"about " if segments > 1 else ""}{segments} dirty segment'
                   f'{"s" if segments > 1 else ""} per page (6)' if segments else ''))

    # --------------------------------------------------------------------------------------- output

    def headings(self):
        return [*self.FIRST, *self.TIMES, *self.MESSAGES, 'verified']

    def cells(self, row):
        return [*self.first_cells(row), *self.time_cells(row), *self.message_cells(row),
                f'NO: {row.error}' if row.error else 'yes']

    def lines(self, rows):
        """Two tables for each program: times, and messages."""
        name = rows[0].kernel
        times = [[*self.FIRST, *self.TIMES, 'verified'],
                 *([*self.first_cells(row), *self.time_cells(row),
                    f'NO: {row.error}' if row.error else 'yes'] for row in rows),
                 [*self.paper_first_cells(name), *self.paper_time_cells(name), 'figure 2']]
        messages = [[*self.FIRST, *self.MESSAGES, ''],
                    *([*self.first_cells(row), *self.message_cells(row), ''] for row in rows),
                    [*self.paper_first_cells(name), *self.paper_message_cells(name), 'figure 3, table 1']]
        return [self.said(name), '', *report.aligned(times), '', *report.aligned(messages)]

    def sums(self):
        """Whether the parts of the time are the whole."""
        wrong = [f'{row.label()}: the parts of its time are {100 * (1 + breakdown.off()):.1f} % of '
                 'the whole: roam\'s times overlap there'
                 for row in self.rows
                 if (breakdown := row.breakdown()) and abs(breakdown.off()) > ADDS_UP]
        return wrong or ['The parts of the time add up to the whole in every row.']

    def paragraphs(self):
        pages = self.args.cache_pages
        cache = '' if pages is None else f' A node caches {pages} pages at most.'
        return [MEANING.format(repeat=self.args.repeat, cache=cache), *self.sums(), *self.notes(),
                self.verdict()]

    def page_paragraphs(self):
        return [*(self.said(name) for name in self.args.kernels), *self.paragraphs()]

    def row_json(self, row):
        breakdown = row.breakdown()
        return {
            'program': row.kernel, 'size': row.size, **report.row_json(row),
            'breakdown': breakdown and {
                'whole_ms': breakdown.whole,
                **{f'{part}_percent': breakdown.percent(part) for part in PARTS}},
            'message_sizes': {name: row.share(name) for name in CLASSES.values()},
            'small_percent': row.share(*SMALL_CLASSES), 'pages_touched': row.touched,
            'runs_per_diff': row.per_diff('diff_runs'),
            'paper': self.paper[row.kernel],
        }

    def as_json(self):
        return {**self.head_json(), 'paper': PAPER,
                'rows': [self.row_json(row) for row in self.rows]}

    def csv_rows(self):
        """Flattens objects within a row: breakdown.page_percent."""
        rows = super().csv_rows()
        for row in rows:
            for name in ('breakdown', 'message_sizes', 'paper'):
                row |= {f'{name}.{key}': value for key, value in (row.pop(name) or {}).items()}
        return rows

    def panels(self, picture):
        return [picture.PartsPanel(f'{kernel} {size}: % of the time', self.args, PARTS, parts)
                for kernel, size in dict.fromkeys((row.kernel, row.size) for row in self.rows)
                if (parts := [Part(row, part) for row in self.rows for part in PARTS
                              if (row.kernel, row.size, row.protocol) ==
                              (kernel, size, self.args.protocols[0])])]


def compare(args):
    """Measures all rows, and prints the tables as they grow."""
    args.after_barriers = AFTER
    which = {'all': slice(None), 'largest': slice(-1, None), 'small': slice(1)}[args.sizes]
    blocks = [[HlrcRow(args, kernel, size, protocol, nodes) for size in SIZES[kernel][which]
               for nodes in args.nodes for protocol in args.protocols]
              for kernel in args.kernels]
    result = HlrcReport(args, blocks)
    result.grow(blocks)
    return result
