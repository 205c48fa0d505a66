"""One program, run under one protocol: its time, its costs, whether it was right."""
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from processes import ENDS, kill_all, session_pids

TIMES = ('total', 'region', 'wall')
AFTER = 'after'  # the program's region counts with --after-barriers
THREADS = 'threads'
LAST_LINE = re.compile(r'^[\w-]+: .*\btotal_us (\d+) region_us (\d+) verified (\w+)$',
                       re.MULTILINE)
VERIFIED = re.compile('verified ok')
SAYS = re.compile(r'\bverified\b')  # a program that prints this has a verdict of its own
OUTPUT, STATUS = 'output', 'status'  # what showed that a run was right
# The options that make roam's own programs verify their results.
VERIFY = {**dict.fromkeys(['barnes', 'cholesky', 'fft', 'fmm', 'lu', 'lu-nc', 'radiosity', 'radix', 'raytrace', 'volrend',
                           'water-nsquared', 'water-spatial', 'jump-bk', 'jump-lu', 'jump-me', 'jump-mm', 'jump-rx',
                           'jump-sor'], '-t'), 'ocean': '-c', 'ocean-nc': '-c'}
# The columns are counters, summed over the nodes.  A column without any of its counters is left
# out.
COLUMNS = {
    'faults': ('read_faults', 'write_faults'),
    'fetches': ('fetches',),
    'diffs': ('diffs',),
    'messages': ('messages_sent',),
    'bytes': ('bytes_sent', 'bytes_fetched'),
    'home_moves': ('home_moves',),
}
REPORT_S = 5   # time for the others to say what they waited for, when a hung job loses a node
NOTES_MAX = 3


class Failure(Exception):
    """The comparison cannot be made; the text says why."""

    def __init__(self, text, status=1):
        super().__init__(text)
        self.status = status


def median(values):
    """The text as a whole number, if it is one; None stays None."""
    value = statistics.median(values) if values else None
    return int(value) if value is not None and value == int(value) else value


def environment(args):
    """What holds for all runs."""
    env = {key: value for key, value in os.environ.items()
           if key not in ('ROAM_STATS', 'ROAM_STATS_AFTER', 'ROAM_BOOT')}
    if args.cache_pages is not None:
        env['ROAM_CACHE_PAGES'] = str(args.cache_pages)
    if args.after_barriers:
        env['ROAM_STATS_AFTER'] = str(args.after_barriers)
    if args.paper:
        env['ROAM_ONESIDED'] = '0'
    return env


def filled(text, nodes):
    return text.replace('{nodes}', str(nodes))


# --------------------------------------------------------------------------------- one process

class Outcome:
    """The result of a process: its status, negative after a signal; its output; microseconds."""

    def __init__(self, command, env, stdin, timeout):
        self.hung = self.asked = False
        start = time.monotonic()
        # Blocks signals: a handler could not end the process before it is recorded.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
                open(stdin or os.devnull, 'rb') as from_file, \
                subprocess.Popen(command, env=env, stdin=from_file, stdout=out, stderr=err,
                                 start_new_session=True,
                                 preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK,
                                                                           mask)) as process:
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                self.status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.hung = True
                self.status = self.end_hung(process)
            finally:
                kill_all(session_pids(process.pid))
            self.wall_us = round((time.monotonic() - start) * 1e6)
            self.out, self.err = self.text(out), self.text(err)

    @staticmethod
    def text(file):
        file.seek(0)
        return file.read().decode(errors='replace')

    def end_hung(self, process):
        """Ends a job that hangs: when a node dies, roam ends the job and prints what the others
        waited for."""
        others = [pid for pid in session_pids(process.pid) if pid != process.pid]
        self.asked = bool(others)
        kill_all(others[-1:])
        try:
            return process.wait(REPORT_S if self.asked else 0)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def last_line(self):
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1][:300] if lines else 'no output'


class Job:
    """The program, and how to run it."""

    def __init__(self, args):
        self.args = args
        self.program = args.program
        self.arguments = list(args.arguments)
        option = args.verify
        if option is None and not args.no_verify and args.verified is None:
            option = VERIFY.get(os.path.basename(args.program))
        if option is not None and option not in self.arguments:
            self.arguments.append(option)
        self.says = option is not None or args.verified is not None  # it must
        twin = args.program + '-pthread'
        alone = args.run or args.after_barriers  # threads have no roam barriers
        self.twin = twin if not alone and os.access(twin, os.X_OK) else None
        self.env = environment(args)

    def command(self, program, nodes):
        """The arguments, where {nodes} is replaced by the number of nodes."""
        arguments = [filled(word, nodes) for word in self.arguments]
        if self.args.run:
            return [self.args.roam, 'run', '-n', str(nodes), '--', program, *arguments]
        if arguments != self.arguments or '{nodes}' in (self.args.input or ''):
            return [program, *arguments]
        return [program, f'-p{nodes}', *arguments]

    def shown(self):
        return ' '.join([os.path.basename(self.program), *self.arguments])

    def run(self, protocol, engine, nodes):
        """The outcome, and what ROAM_STATS wrote, or None."""
        if protocol == THREADS:
            return self.process(self.twin, nodes, {}), None
        with tempfile.TemporaryDirectory(prefix='roam-compare-') as place:
            stats = os.path.join(place, 'stats.json')
            outcome = self.process(self.program, nodes, {
                'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine, 'ROAM_STATS': stats})
            try:
                with open(stats, encoding='utf-8') as file:
                    return outcome, json.load(file)
            except (FileNotFoundError, json.JSONDecodeError):
                return outcome, None

    def process(self, program, nodes, variables):
        stdin = filled(self.args.input, nodes) if self.args.input else None
        return Outcome(self.command(program, nodes), {**self.env, **variables}, stdin,
                       self.args.timeout)

    def wrong(self, outcome):
        """What is wrong with the run, or ''."""
        if outcome.hung:
            asked = ', when one node was killed to make it speak' if outcome.asked else ''
            return (f'hung: not at its end after {self.args.timeout:g} s; its last '
                    f'words{asked}: {outcome.last_line()}')
        if 'verified FAILED' in outcome.out:
            return 'wrong result'
        if outcome.status < 0:
            return f'killed by signal {-outcome.status}: {outcome.last_line()}'
        if outcome.status != 0:
            return f'status {outcome.status}: {outcome.last_line()}'
        if self.checked_by(outcome) is not None:
            return ''
        if 'verified off' in outcome.out:
            return 'not verified: give it its option that verifies, or --no-verify'
        return self.silent()

    def silent(self):
        return (f'not verified: its output has no "{(self.args.verified or VERIFIED).pattern}" '
                '(see --verified)')

    def checked_by(self, outcome):
        """What shows that a run with status 0 is right; None if nothing does."""
        if self.args.no_verify:
            return STATUS
        if (self.args.verified or VERIFIED).search(outcome.out):
            return OUTPUT
        return None if self.says or SAYS.search(outcome.out) else STATUS


class Row:
    """One protocol, or threads, on one number of nodes: all its runs."""

    def __init__(self, job, protocol, engine, nodes):
        self.job = job
        self.protocol = protocol
        self.engine = engine
        self.nodes = nodes
        self.error = ''
        self.checked = set()  # how its runs were
        self.times = {which: [] for which in (*TIMES, AFTER)}
        self.stats = []
        self.notes = []

    def label(self):
        return f'{self.protocol} on {self.nodes}'

    def add(self):
        """One run more."""
        outcome, stats = self.job.run(self.protocol, self.engine, self.nodes)
        self.error = self.job.wrong(outcome)
        if not self.error and self.protocol != THREADS:
            self.error = self.strange(stats or {})
        if self.error:
            return
        self.checked.add(self.job.checked_by(outcome))
        self.times['wall'].append(outcome.wall_us)
        line = LAST_LINE.search(outcome.out)
        if line:
            self.times['total'].append(int(line.group(1)))
            self.times['region'].append(int(line.group(2)))
        if stats:
            self.stats.append(stats)
            if self.job.args.after_barriers:
                self.times[AFTER].append(round(max(stats['time_ms']['wall']) * 1e3))
        for note in outcome.err.strip().splitlines():
            if note not in self.notes and len(self.notes) < NOTES_MAX:
                self.notes.append(note)

    def checked_by(self):
        """OUTPUT, or STATUS where a status was all that showed it; None after an error."""
        if self.error:
            return None
        return STATUS if STATUS in self.checked else OUTPUT

    def strange(self, stats):
        """What is wrong with the counters of a run, or ''."""
        if 'counters' not in stats:
            return 'no counters: does it run over roam?'
        after = self.job.args.after_barriers
        if after and 0 in stats['counters'].get('barriers_before', [0]):
            return f'it ends before it has left {after} full barriers: fewer --after-barriers'
        ran = stats.get('protocol', self.protocol)
        return '' if ran == self.protocol else f'it ran under {ran}: does it choose by itself?'

    def microseconds(self, which):
        """The values of all runs; [] after an error."""
        return [] if self.error else self.times[which] or self.times['wall']

    def median_us(self, which):
        return median(self.microseconds(which))

    def counter(self, name):
        """The median over the runs of the sum over the nodes; None if there is no such counter."""
        values = [sum(stats['counters'][name]) for stats in self.stats
                  if name in stats['counters']]
        return None if self.error else median(values)

    def column(self, name):
        """None: none of its counters."""
        return median(self.values(name))

    def values(self, name):
        """A column's value in each run; [] after an error, or if none of its counters exists."""
        each = [[sum(stats['counters'][counter]) for counter in COLUMNS[name]
                 if counter in stats['counters']] for stats in self.stats]
        return [] if self.error else [sum(values) for values in each if values]

    def counters(self):
        names = self.stats[0]['counters'] if self.stats else []
        return {name: self.counter(name) for name in names}


def must_all_say(rows):
    """If a program prints "verified" in some runs, a run is not right by its status alone."""
    if not any(OUTPUT in row.checked for row in rows):
        return
    for row in rows:
        if STATUS in row.checked and not row.error:
            row.error = row.job.silent()


# --------------------------------------------------------------------------------------- all runs

class Progress:
    """A line on standard error for every run; a terminal shows only the last one."""

    def __init__(self, count):
        self.count = count
        self.number = 0

    def step(self, text):
        self.number += 1
        if not text:
            return
        line = f'[{self.number}/{self.count}] {text}'
        if sys.stderr.isatty():
            line = f'\r\033[K{line}'
        print(line, end='' if sys.stderr.isatty() else '\n', file=sys.stderr, flush=True)

    @staticmethod
    def clear():
        if sys.stderr.isatty():
            print('\r\033[K', end='', file=sys.stderr, flush=True)


def take_turns(rows, repeat, progress):
    """Lets runs take turns, so that changes of the machine's speed affect all rows."""
    for _ in range(repeat):
        for row in rows:
            progress.step('' if row.error else row.label())
            if not row.error:
                row.add()
    progress.clear()
