"""The output of a comparison: a table, JSON, a page."""
import csv
import datetime
import html
import importlib.util
import json
import os
import subprocess
import sys
import textwrap

import runs

FORMAT = 'roam compare 1'
HEADINGS = {'faults': 'faults', 'fetches': 'fetches', 'diffs': 'diffs', 'messages': 'messages',
            'bytes': 'MB', 'home_moves': 'home moves'}
COUNTERS_MEANING = ('faults, fetches (pages), diffs, messages, MB (messages sent and pages copied), home '
                    'moves: of all nodes.')
THREADS_MEANING = ('threads: the same source with pthread macros and as many threads. speed: that '
                   'time divided by roam\'s; 1.00x is as fast.')
FLOOR_MEANING = ('floor: roam\'s time divided by that of {}, where all nodes have one heap and the '
                 'hardware alone keeps it coherent.')
STATUS_MEANING = ('verified: status 0 says that the program ended with it; its results were not '
                  'checked (--verified TEXT: what it prints if they are right).')
WIDTH = 98
TIME_MEANING = {'total': 'as the program reports it, from start to end',
                'region': 'as the program reports it, of the part that it measures',
                'wall': 'of the whole process',
                runs.AFTER: 'of the slowest node, from those barriers to the end'}
STYLE = '''
body { font: 15px/1.45 sans-serif; color: #1b1b1b; background: #fff; max-width: 70em;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.4em; } h1 code { font-size: 1em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .7em; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #444; } tr.first td { border-top: 1px solid #bbb; }
th:first-child, td:first-child, td:last-child, th:last-child { text-align: left; }
tr.wrong td { background: #fde4e1; } tr.wrong td:last-child { white-space: normal; }
svg { max-width: 100%; height: auto; }
footer { color: #555; font-size: .9em; }
'''


def need_picture():
    if importlib.util.find_spec('matplotlib') is None:
        raise runs.Failure(f'--svg and --html need matplotlib, which {sys.executable} does not '
                           'have: apt-get install python3-matplotlib')


def milliseconds(us):
    return '-' if us is None else f'{us / 1e3:.1f}'


def row_json(row):
    """The values of one row."""
    def times(which):
        values = [] if row.error else row.times[which]
        return {'median': row.median_us(which), 'least': min(values), 'most': max(values)} \
            if values else None
    return {
        'protocol': row.protocol, 'nodes': row.nodes, 'runs': len(row.times['wall']),
        'verified': row.checked_by() == runs.OUTPUT, 'checked_by': row.checked_by(),
        'error': row.error or None,
        **{f'{which}_us': times(which) for which in (*runs.TIMES, runs.AFTER)},
        **{name: row.column(name) for name in runs.COLUMNS},
        'spread': {name: [min(values), max(values)] for name in runs.COLUMNS
                   if (values := row.values(name))},
        'counters': {} if row.error else row.counters(), 'notes': row.notes,
    }


def row_csv(row):
    """A row's values, flat: each time and column as median, least and most; the same keys in all
    rows."""
    flat = {}
    for name, value in row.items():
        if name in [f'{which}_us' for which in (*runs.TIMES, runs.AFTER)]:
            cells = [(value or {}).get(which) for which in ('median', 'least', 'most')]
        elif name in runs.COLUMNS:
            cells = [value, *row['spread'].get(name, (None, None))]
        else:
            cells = ['\n'.join(value) if isinstance(value, list) else value]
        if name not in ('spread', 'counters'):
            flat |= dict(zip((name, f'{name}_least', f'{name}_most'), cells))
    flat |= {f'counters.{counter}': count for counter, count in row['counters'].items()}
    return {name: str(value).lower() if isinstance(value, bool) else value
            for name, value in flat.items()}


def aligned(table):
    """Formats lines of cells; the first column and the last one are aligned to the left."""
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]) - 1)]
    return ['  '.join([line[0].ljust(widths[0]),
                       *(line[i].rjust(widths[i]) for i in range(1, len(widths))),
                       line[-1]]).rstrip() for line in table]


class Report:
    """What was measured, and how it is written.  Each kind of report has a title, headings, cells
    of a row, paragraphs, as_json and the panels of a picture."""
    heading = 'Protocols compared'

    def __init__(self, args, rows):
        self.args = args
        self.rows = rows
        self.twins = {}
        self.when = datetime.datetime.now().astimezone()
        self.version = subprocess.run([args.roam, 'version'], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout.strip()

    def machine(self):
        name = os.uname()
        return {'system': f'{name.sysname} {name.release}', 'machine': name.machine,
                'cpus': len(os.sched_getaffinity(0))}

    def head_json(self):
        env = runs.environment(self.args)
        return {
            'format': FORMAT, 'roam': self.version, 'when': self.when.isoformat('T', 'seconds'),
            'machine': self.machine(), 'engine': self.args.engine,
            'variables': {key: value for key, value in sorted(env.items())
                          if key.startswith('ROAM_')},
            'repeat': self.args.repeat,
        }

    def verdict(self):
        right = sum(not row.error for row in self.rows)
        how = 'ended with status 0: no result was checked' \
            if runs.STATUS in {row.checked_by() for row in self.rows} else 'verified'
        return f'{right} of {len(self.rows)} {how}'

    def notes(self):
        """What right runs printed on standard error, without repeated lines."""
        seen = {}
        for row in [*self.twins.values(), *self.rows]:
            for note in row.notes:
                seen.setdefault(note, row.label())
        return [f'{label}: {note}' for note, label in seen.items()]

    def lines(self, rows):
        """The table of all rows, with a gap where the number of nodes changes."""
        lines = aligned([self.headings()] + [self.cells(row) for row in rows])
        for i in range(len(rows) - 1, 0, -1):
            if rows[i].nodes != rows[i - 1].nodes:
                lines.insert(i + 1, '')
        return lines

    # --------------------------------------------------------------------------------------- files

    def write(self):
        """Everything but the table."""
        if self.args.json:
            self.write_json(self.args.json)
        if self.args.csv:
            self.write_csv(self.args.csv)
        if self.args.svg or self.args.html:
            self.write_picture(self.args.svg, self.args.html)

    def write_json(self, path):
        text = json.dumps(self.as_json(), indent=1) + '\n'
        if path == '-':
            sys.stdout.write(text)
            return
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)

    def write_csv(self, path):
        rows = [row_csv(row) for row in self.csv_rows()]
        if path == '-':
            self.put_csv(sys.stdout, rows)
            return
        with open(path, 'w', encoding='utf-8', newline='') as file:
            self.put_csv(file, rows)

    @staticmethod
    def put_csv(file, rows):
        """Gives all rows the cells that any row has."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, names, lineterminator='\n')
        writer.writeheader()
        writer.writerows(rows)

    def csv_rows(self):
        return self.as_json()['rows']

    def write_picture(self, svg_path, html_path):
        import picture  # pylint: disable=import-outside-toplevel

        svg = picture.draw(self.title(), self.panels(picture))
        if svg_path:
            with open(svg_path, 'w', encoding='utf-8') as file:
                file.write(svg)
        if html_path:
            with open(html_path, 'w', encoding='utf-8') as file:
                file.write(self.page(svg[svg.index('<svg'):]))

    def page_rows(self):
        before = None
        for row in self.rows:
            kind = 'wrong' if row.error else ''
            if before not in (None, row.nodes):
                kind += ' first'
            before = row.nodes
            cells = ''.join(f'<td>{html.escape(cell)}</td>' for cell in self.cells(row))
            yield f'<tr class="{kind.strip()}">{cells}</tr>'

    def page_paragraphs(self):
        return self.paragraphs()

    def page(self, svg):
        machine = self.machine()
        heads = ''.join(f'<th>{html.escape(head)}</th>' for head in self.headings())
        below = '\n'.join(f'<p>{html.escape(text)}</p>' for text in self.page_paragraphs())
        title = html.escape(self.title())
        return f'''<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>roam compare: {title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{self.heading}: <code>{title}</code></h1>
<div class="wide"><table>
<thead><tr>{heads}</tr></thead>
<tbody>
{chr(10).join(self.page_rows())}
</tbody>
</table></div>
{below}
<figure>
{svg}
</figure>
<footer>{html.escape(self.version)}, {self.when:%Y-%m-%d %H:%M}, {machine['system']},
{machine['cpus']} CPUs usable</footer>
</body>
</html>
'''


class Growing(Report):
    """A report of several programs: a block of the table for each, printed once it is complete."""

    def head(self):
        """Lines above the first block."""
        return [self.title()]

    def grow(self, blocks):
        """Runs all programs; `blocks` are the rows of each."""
        quiet = self.args.quiet
        progress = runs.Progress(self.args.repeat * len(self.rows))
        if not quiet:
            print('\n'.join([*self.head(), '']), flush=True)
        for rows in blocks:
            runs.take_turns(rows, self.args.repeat, progress)
            if not quiet:
                print('\n'.join([*self.lines(rows), '']), flush=True)
        if not quiet:
            first, *rest = self.paragraphs()
            print('\n'.join([textwrap.fill(first, WIDTH), '', *rest]))


class Comparison(Report):
    """One program."""

    def __init__(self, args, job, rows, twins):
        super().__init__(args, rows)
        self.job = job
        self.twins = {twin.nodes: twin for twin in twins}
        self.floors = {row.nodes: row for row in rows if row.protocol in args.floors}
        self.columns = [name for name in runs.COLUMNS
                        if any(row.column(name) is not None for row in rows)]
        said = any(row.times[args.time] for row in rows)
        self.time = runs.AFTER if args.after_barriers else args.time if said else 'wall'

    # ------------------------------------------------------------------------------------- numbers

    def threads_us(self, row):
        twin = self.twins.get(row.nodes)
        return twin.median_us(self.time) if twin else None

    def speed(self, row):
        mine, threads = row.median_us(self.time), self.threads_us(row)
        return threads / mine if mine and threads else None

    def over_floor(self, row):
        floor = self.floors.get(row.nodes)
        mine, least = row.median_us(self.time), floor and floor.median_us(self.time)
        return mine / least if mine and least else None

    # --------------------------------------------------------------------------------------- table

    def headings(self):
        return (['protocol', 'nodes', 'time ms'] + (['from-to'] if self.args.repeat > 1 else [])
                + (['threads ms', 'speed'] if self.twins else [])
                + (['floor'] if self.floors else [])
                + [HEADINGS[name] for name in self.columns] + ['verified'])

    def cells(self, row):
        """As many as headings."""
        first = [row.protocol, str(row.nodes)]
        if row.error:
            gap = len(self.headings()) - len(first) - 1
            return first + ['-'] * gap + ['NO: ' + row.error]
        times = row.microseconds(self.time)
        cells = first + [milliseconds(row.median_us(self.time))]
        if self.args.repeat > 1:
            cells.append(f'{milliseconds(min(times))}-{milliseconds(max(times))}')
        if self.twins:
            speed = self.speed(row)
            cells += [milliseconds(self.threads_us(row)),
                      '-' if speed is None else f'{speed:.2f}x']
        if self.floors:
            over = self.over_floor(row)
            cells.append('-' if over is None else f'{over:.2f}x')
        for name in self.columns:
            value = row.column(name)
            cells.append('-' if value is None else
                         f'{value / 1e6:.2f}' if name == 'bytes' else f'{value:.0f}')
        return cells + ['status 0' if row.checked_by() == runs.STATUS else 'yes']

    def title(self):
        engine = '' if self.args.engine == 'auto' else f', faults by {self.args.engine}'
        after = self.args.after_barriers
        return f'{self.job.shown()}{engine}{f", after {after} full barriers" if after else ""}'

    def meaning(self):
        repeat = self.args.repeat
        runs_meaning = f'the median of {repeat} runs' if repeat > 1 else 'of one run'
        by_status = any(row.checked_by() == runs.STATUS for row in self.rows)
        return ' '.join([f'time: {TIME_MEANING[self.time]}, {runs_meaning}.',
                         *([THREADS_MEANING] if self.twins else []),
                         *([FLOOR_MEANING.format(self.args.floors[0])] if self.floors else []),
                         COUNTERS_MEANING,
                         *([STATUS_MEANING] if by_status else [])])

    def paragraphs(self):
        return [self.meaning(), *self.notes(), self.verdict()]

    def table(self):
        return '\n'.join([self.title(), '', *self.lines(self.rows), '',
                          textwrap.fill(self.meaning(), WIDTH), *self.notes(), self.verdict()])

    def panels(self, picture):
        return picture.of_comparison(self)

    # ----------------------------------------------------------------------------------- JSON, CSV

    def csv_rows(self):
        return [{'program': self.job.shown(), **row} for row in super().csv_rows()]

    def as_json(self):
        return {
            **self.head_json(), 'program': self.job.program, 'arguments': self.job.arguments,
            'time': self.time,
            'rows': [{**row_json(row), 'threads_us': self.threads_us(row),
                      'speed': self.speed(row), 'over_floor': self.over_floor(row)}
                     for row in self.rows],
            'threads': [{'nodes': twin.nodes, 'error': twin.error or None,
                         'us': twin.microseconds(self.time)} for twin in self.twins.values()],
        }
