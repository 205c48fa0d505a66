"""A program in the hands of the doctor: how it is started, and what one run of it has said."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
import time

import runs
from processes import kill_all, session_pids

CREATES, LAUNCHED, FIXED = 'creates', 'launched', 'fixed'  # the ways in which a program gets nodes
P_WORD = re.compile(r'^-p\d+$')
COMPUTES = re.compile(r'roam: node (\d+).* computes in \d+ of \d+ threads, at (\S+)\+(0x[0-9a-f]+)(.*)')
WAITS = re.compile(r'roam: (node \d+).* (waits .*)')
TRANSACTS = re.compile(r'^roam: (warning: )?node \d+: roam_tx\w* under protocol \w+, which has no transactions',
                       re.MULTILINE)
NO_THREAD = re.compile(r'^roam: .*no thread of the job can go on; (.*)$', re.MULTILINE)
LOOKS_MAX = 5
LOOKS_S = 0.5   # between two looks at a hung job
NEAR = 512      # bytes between two places of one loop
SAME = ('ROAM_CHAOS', 'ROAM_CHECK', 'ROAM_CHECK_STATUS', 'ROAM_CHECKPOINT', 'ROAM_CHECKPOINT_EVERY', 'ROAM_CONFLICTS',
        'ROAM_HOT', 'ROAM_PREFETCH', 'ROAM_PROTOCOL', 'ROAM_SHARING')


def known_protocols(roam):
    shown = subprocess.run([roam, 'info', 'protocols', '--json'], check=True,
                           stdout=subprocess.PIPE).stdout
    return json.loads(shown)['protocols']


def transacting(roam):
    """The protocol that has transactions."""
    those = [each['name'] for each in known_protocols(roam) if 'transactions' in each['properties']]
    if not those:
        raise runs.Failure('no protocol of this build has transactions')
    return those[0]


def protocols(roam):
    """One protocol of each model, if there is one: with copies, and for RC one that checks
    races."""
    known = [each for each in known_protocols(roam) if 'one_heap' not in each['properties']]
    chosen = {}
    for model, wanted in (('SC', 'evicts'), ('RC', 'checks_races'), ('ScC', '')):
        those = [each for each in known if each['model'] == model]
        those.sort(key=lambda each: wanted not in each['properties'])
        if those:
            chosen[model] = those[0]['name']
    return chosen


@contextlib.contextmanager
def page_server(roam, place):
    """A page server with an empty store, for one run; yields the options by which the run finds it."""
    address, key = os.path.join(place, 'socket'), os.path.join(place, 'key')
    with subprocess.Popen([roam, 'pages', 'serve', os.path.join(place, 'store'), address, '--key', key],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        try:
            if not server.stdout.readline():
                raise runs.Failure('no page server for its runs')
            yield {'ROAM_STORE': address, 'ROAM_STORE_KEY': key}
        finally:
            server.kill()


def printable(text):
    """What a program said, on one line, without anything that a terminal would obey."""
    return ''.join(each if each.isprintable() else '?' for each in text)[:300]


class Look(runs.Outcome):
    """One process; if it hangs, asks roam several times what its nodes do, and ends it."""

    def __init__(self, roam, *how):
        self.roam = roam
        self.looks = []
        super().__init__(*how)

    def end_hung(self, process):
        pids = [pid for pid in session_pids(process.pid) if pid != process.pid]
        for _ in range(LOOKS_MAX):
            asked = subprocess.run([self.roam, 'where', str((pids or [process.pid])[0])],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   timeout=30, check=False)
            self.looks.append(asked.stdout)
            if len(self.looks) > 1 and (len(self.placed()) > 1 or ' computes in ' not in asked.stdout):
                break
            time.sleep(LOOKS_S)
        kill_all(session_pids(process.pid))
        return process.wait()

    def placed(self):
        """The looks that show where a node computes; on a busy machine a look may not show it."""
        return [look for look in self.looks if COMPUTES.search(look)]

    def loops(self):
        """(node, file, address, text) of nodes that compute at the same place in two looks: they
        spin."""
        if len(self.placed()) < 2:
            return []
        first, second = ([match.groups() for match in COMPUTES.finditer(look)]
                         for look in self.placed()[-2:])
        return [one for one in second for old in first
                if one[:2] == old[:2] and abs(int(one[2], 16) - int(old[2], 16)) < NEAR]

    def waits(self):
        """What nodes wait for, or where they compute, as text for people."""
        text = self.looks[-1] if self.looks else ''
        return '; '.join(line[len('roam: '):] for line in text.splitlines()
                         if line.startswith('roam: '))[:300]


class Run:
    """One run, and what is known of it."""

    def __init__(self, label, model, nodes, outcome, stats):
        self.label, self.model, self.nodes = label, model, nodes
        self.outcome, self.stats = outcome, stats
        self.ran = (stats or {}).get('nodes')

    def has_nodes(self, style):
        """Whether the run is a job of several nodes; a launcher's lines name processes of any
        program."""
        shown = r'^roam: .*\bwaited\b' if style == LAUNCHED else r'^roam: .*\bnode ([1-9]|0 \(pid \d+\) was )'
        return (self.ran or 0) > 1 or any('node 1' in look for look in self.outcome.looks) or \
            re.search(shown, self.outcome.err, re.MULTILINE) is not None

    def stuck(self):
        """What all threads wait for; None if the job did not end for that reason."""
        found = NO_THREAD.search(self.outcome.err)
        return found.group(1) if found else None

    def said(self):
        """The program's last line on standard error, or the last line of all."""
        own = [line for line in self.outcome.err.splitlines()
               if line.strip() and not line.startswith('roam: ')]
        return printable(own[-1] if own else self.outcome.last_line())

    def lacks_transactions(self):
        """Whether the program ran transactions under a protocol that has none."""
        return TRANSACTS.search(self.outcome.err) is not None

    def failed(self):
        return self.outcome.hung or self.outcome.status != 0

    def ended(self):
        """In words."""
        status = self.outcome.status
        return f'it was killed by signal {-status}' if status < 0 else f'it ended with status {status}'

    def crashed(self):
        """The line that says which node died, and how, or None."""
        found = re.search(r'^roam: .*\bsignal\b.*$', self.outcome.err, re.MULTILINE)
        if found:
            return found.group(0)[len('roam: '):]
        if self.outcome.status < 0 or 128 < self.outcome.status < 160:
            number = -self.outcome.status if self.outcome.status < 0 else self.outcome.status - 128
            return f'killed by signal {number}'
        return None

    def why(self):
        """How it failed, in a few words."""
        if self.outcome.hung:
            return 'it hangs'
        return self.crashed() or f'status {self.outcome.status}: {self.said()}'


class Program:
    """The program, its arguments, and how it gets its nodes.  With `apart`, a run of a program with a store
    (ROAM_STORE) gets an empty one of its own."""

    def __init__(self, args, apart=False):
        self.args = args
        self.style = LAUNCHED if args.run else None
        self.transacts = None  # the protocol to which it was left because it runs transactions
        self.arguments = ['-p{nodes}' if P_WORD.match(word) and not args.run else word
                          for word in args.arguments]
        if any('{nodes}' in word for word in self.arguments) and not args.run:
            self.style = CREATES
        self.env = {key: value for key, value in os.environ.items()
                    if key not in (*SAME, 'ROAM_STATS', 'ROAM_STATS_AFTER', 'ROAM_BOOT')}
        self.apart = apart and self.stores()

    def stores(self):
        return self.env.get('ROAM_STORE', '') != ''

    def command(self, style, nodes):
        words = [runs.filled(word, nodes) for word in self.arguments]
        if style == LAUNCHED:
            return [self.args.roam, 'run', '-n', str(nodes), '--', self.args.program, *words]
        if style == CREATES and words == self.arguments:
            words = [f'-p{nodes}', *words]
        return [self.args.program, *words]

    def shown(self, nodes):
        words = self.command(self.style, nodes)
        if self.style == LAUNCHED:
            words[0] = 'roam'
        return ' '.join(words)

    def start(self, style, label, model, nodes, variables):
        stdin = runs.filled(self.args.input, nodes) if self.args.input else None
        with tempfile.TemporaryDirectory(prefix='roam-doctor-') as place, \
                page_server(self.args.roam, place) if self.apart else contextlib.nullcontext({}) as store:
            path = os.path.join(place, 'stats.json')
            try:
                outcome = Look(self.args.roam, self.command(style, nodes),
                               {**self.env, **store, 'ROAM_STATS': path, **variables}, stdin, self.args.timeout)
            except OSError as error:
                raise runs.Failure(f'cannot start {self.args.program}: {error.strerror}', 2) from None
            try:
                with open(path, encoding='utf-8') as file:
                    stats = json.load(file)
            except (FileNotFoundError, json.JSONDecodeError):
                stats = None
        return Run(label, model, nodes, outcome, stats)

    def find_style(self, protocol, nodes, progress):
        """Finds out how the program gets its nodes, trying each way once; returns the run that
        showed it, or raises a Failure."""
        tried = []
        if self.stores():
            self.transacts = protocol = transacting(self.args.roam)
        for style in [self.style] if self.style else [CREATES, LAUNCHED, FIXED]:
            progress.say(f'looks how it gets its nodes: {" ".join(self.command(style, nodes))}')
            run = self.start(style, f'{protocol} on {nodes}', 'SC', nodes,
                             {'ROAM_PROTOCOL': protocol})
            if run.lacks_transactions():
                self.transacts = protocol = transacting(self.args.roam)
                run = self.start(style, f'{protocol} on {nodes}', 'SC', nodes, {'ROAM_PROTOCOL': protocol})
            if run.has_nodes(style):
                self.style = style
                return run
            tried.append(run)
        raise runs.Failure(self.no_nodes(tried), 2)

    def no_nodes(self, tried):
        if any(run.ran == 1 for run in tried):
            return ('it never has more than one node: it takes neither -pN nor `roam run -n N`; say '
                    'where its number of nodes is by {nodes}')
        if all(run.outcome.hung for run in tried):
            return f'no job within {self.args.timeout:g} s, however it is started (--timeout)'
        bad = [run for run in tried if run.failed()]
        said = f': {bad[0].ended()}: {bad[0].said()}' if bad else ''
        return f'not a program of roam, or it ended before it made a job{said}'
