"""What the runs of a program show: findings in plain words."""
import os
import re
import subprocess

from runs import VERIFIED

RACE = re.compile(r'^roam: race: (0x[0-9a-f]+)(?: \((.*?) \+ (0x[0-9a-f]+|0), of (\d+) bytes from \S+\))? '
                  r'was written by node (\d+) (.*) and by node (\d+) (.*), in intervals '
                  r'that nothing orders(?:; node \d+ began to write this page at (.*), node \d+ at '
                  r'(.*))?$', re.MULTILINE)
CODE = re.compile(r'^(\S+)\+(0x[0-9a-f]+)(.*)$')
STATICS = re.compile(r'^roam: statics: (\S+) \((\d+) bytes\) was written after CREATE on nodes? '
                     r'([\d, ]+) of (\d+), and differs between them; used by (.*)$', re.MULTILINE)
BROKEN = re.compile(r'^roam: statics: (\S+) \(\d+ bytes\) was written after CREATE on node (\d+), and points to '
                    r'shared memory; node \d+ may lack that; used by (.*)$', re.MULTILINE)
UNSEEN = re.compile(r'^roam: statics: (\S+) \(\d+ bytes\) was written after CREATE on node (\d+), and no other node sees '
                    r'that; used by (.*)$', re.MULTILINE)
SHARING = re.compile(r'^roam: sharing: page (0x[0-9a-f]+)(?: \((.*?) \+ (0x[0-9a-f]+|0), of .*\))? '
                     r'is written by all (\d+) nodes', re.MULTILINE)
POINTERS = re.compile(r'^roam: pointers: node (\d+) stored \S+ at (0x[0-9a-f]+)(?: \((.*?) \+ (0x[0-9a-f]+|0), of '
                      r'.*?\))?, which points into its private (\w+)(?:; it began to write this page at (.*))?$',
                      re.MULTILINE)
SCOPE = re.compile(r'^roam: scope: page (0x[0-9a-f]+)(?: \((.*?) \+ (0x[0-9a-f]+|0), of .*?\))? was written by node '
                   r'\d+ outside of a section, at (.*), and only locks have shown that to node \d+, which reads it '
                   r'at (.*)$', re.MULTILINE)
HEAP = re.compile(r'^roam: heap: block (0x[0-9a-f]+) \((?:(.*?), )?(\d+) bytes(?:, allocated at (.*?))?\) '
                  r'(was (?:written|freed) .*)$', re.MULTILINE)
BLOCK_OF = 'block of '  # a block without a name is named by the code that allocated it
HEAP_ADVICE = {
    'before': 'an index is below 0, or a loop runs down too far',
    'behind': 'allocate more, or stop the loop earlier: the last byte is at its size less 1',
    'after': 'free it after the last use by any node: roam_barrier_all(); before roam_free(x);',
    'twice': 'one node frees it, once',
}
NEEDS = re.compile(r'^roam: warning: the program needs (\w+), and protocol', re.MULTILINE)
LOOP = re.compile(r'\b(?:while|for) *\((.*)\)')
NAMES = re.compile(r'[A-Za-z_]\w*(?:(?:->|\.)[A-Za-z_]\w*|\[\w+\])*(?! *\()')
TOKEN = re.compile(r'[\w.+-]+|\S')


class Finding:
    """A verdict; `grave`: a mistake of the program, otherwise something to know."""

    def __init__(self, kind, text, advice, grave=True):
        self.kind, self.text, self.advice, self.grave = kind, text, advice, grave
        self.seen = []
        self.apart = True     # of a static: in all runs that could tell
        self.numbers = False  # of a static: one per node, by a run

    def json(self):
        return {'kind': self.kind, 'text': self.text, 'advice': self.advice, 'grave': self.grave,
                'seen': self.seen}


class Findings:
    def __init__(self):
        self.all = {}

    def add(self, run, kind, key, text, advice, grave=True):
        """Adds a finding once, however many runs show it."""
        finding = self.all.setdefault((kind, key), Finding(kind, text, advice, grave))
        if run is not None and run.label not in finding.seen:
            finding.seen.append(run.label)

    def meant_apart(self, name, apart, why):
        """Notes whether a run has shown that each node is meant to have this static for itself.  If it
        has on every number of nodes, that is no mistake."""
        finding = self.all[('statics', name)]
        finding.apart = finding.apart and apart
        finding.grave = not finding.apart and not finding.numbers
        finding.text = finding.text.replace(f'; {why}', '') + (f'; {why}' if apart else '')

    def numbers_nodes(self, name):
        """Notes that all nodes, but for one perhaps, have given this static values, as they do with their
        number."""
        finding = self.all[('statics', name)]
        finding.numbers = True
        finding.grave = False
        why = '; on more nodes all but one gave it a value of their own'
        if 'by every node' not in finding.text and why not in finding.text:
            finding.text += why

    def has(self, kind):
        return any(name == kind for name, _ in self.all)

    def ordered(self):
        return sorted(self.all.values(), key=lambda finding: not finding.grave)


# -------------------------------------------------------------------------------------- answers

class Answers:
    """The outputs of right runs on one number of nodes; what they have in common is the answer."""

    def __init__(self):
        self.texts = []
        self.ordered = True

    def add(self, text):
        self.texts.append(text)

    def verified(self):
        return bool(self.texts) and all(VERIFIED.search(text) for text in self.texts)

    def lines(self, text):
        lines = [line for line in text.splitlines() if line.strip()]
        return lines if self.ordered else sorted(lines)

    def shape(self):
        """The words of each line, None for words that differ; None if runs differ in their number
        of lines."""
        self.ordered = len({tuple(text.splitlines()) for text in self.texts}) == 1 or \
            len({tuple(sorted(text.splitlines())) for text in self.texts}) > 1
        each = [[TOKEN.findall(line) for line in self.lines(text)] for text in self.texts]
        if len({len(lines) for lines in each}) != 1:
            return None
        shape = []
        for at in zip(*each):
            same_count = len({len(words) for words in at}) == 1
            shape.append([words[0] if len(set(words)) == 1 else None for words in zip(*at)]
                         if same_count else None)
        return shape

    def varies(self):
        """The first line that is not alike in all outputs; '' if they have one answer."""
        shape = self.shape()
        if shape is None:
            return 'another number of lines'
        lines = self.lines(self.texts[0])
        return next((lines[i] for i, words in enumerate(shape) if words is None or None in words),
                    '')

    def tells(self):
        """Whether there is an answer to compare with."""
        return self.verified() or any(known_words(words) for words in self.shape() or [])

    def other(self, text):
        """(line, expected line) where an output has another answer; None if it has this one."""
        if self.verified():
            return None if VERIFIED.search(text) else (text.strip()[-200:], 'verified ok')
        shape = self.shape()
        if shape is None:
            return None
        expected, left = self.lines(self.texts[0]), self.lines(text)
        missing = []
        # Nodes print in any order, so each line may be anywhere; the line with most known words
        # goes first.
        for i in sorted(range(len(shape)), key=lambda i: -known_words(shape[i])):
            found = next((line for line in left if line_fits(shape[i], line)), None)
            if found is None:
                missing.append(expected[i])
            else:
                left.remove(found)
        return (left[0] if left else 'nothing', missing[0] if missing else 'nothing') \
            if left or missing else None


def known_words(words):
    return 0 if words is None else sum(word is not None for word in words)


def line_fits(words, line):
    """Whether a line has these words; None stands for any word."""
    if words is None:
        return True
    got = TOKEN.findall(line)
    return len(got) == len(words) and all(word in (None, new) for word, new in zip(words, got))


# --------------------------------------------------------------------------------------- places

def source_line(program, file, address):
    """path:line of an address; '' if it is not known."""
    try:
        said = subprocess.run(['addr2line', '-e', program, address], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, timeout=60, check=False).stdout
    except OSError:
        said = ''
    line = said.split(' (')[0].strip()
    known = os.path.basename(file) == os.path.basename(program) and line and '?' not in line and \
        not line.endswith(':0')
    return line if known else ''


def place(program, file, address, text):
    """file:line of an address, or the function's name as roam gives it."""
    line = source_line(program, file, address)
    return os.path.basename(line) if line else f'{file}+{address}{text}'


def waited_for(program, file, address):
    """The condition of the loop at this address, "done" or "queue->full", if its source line or the
    line before shows it; else ''."""
    path, _, number = source_line(program, file, address).rpartition(':')
    try:
        with open(path, encoding='utf-8', errors='replace') as source:
            lines = source.read().splitlines()
    except OSError:
        return ''
    for at in (int(number), int(number) - 1):
        found = LOOP.search(lines[at - 1]) if 0 < at <= len(lines) else None
        if found:
            names = [name for name in NAMES.findall(found.group(1)) if name not in ('NULL', 'true', 'false')]
            return names[0] if len(names) == 1 else ''
    return ''


# --------------------------------------------------------------------------------------- checks

def code_place(program, text):
    """file:line of "prog+0x11b5 (work+0x25)"."""
    found = CODE.match(text or '')
    return place(program, *found.groups()) if found else None


def races(findings, run, program):
    for match in RACE.finditer(run.outcome.err):
        address, name, offset, _, one, since_one, two, since_two, at_one, \
            at_two = match.groups()
        lines = [code_place(program, at) for at in (at_one, at_two)]
        where = f' ({lines[0]} and {lines[1]})' if None not in lines else ''
        what = f'{block_name(program, name)}+{offset}' if name else address
        findings.add(run, 'race', name or address,
                     f'two nodes write {what} unordered{where}: node {one} {since_one}, node {two} '
                     f'{since_two}',
                     'put both writes into sections of one lock (roam_lock(&x); ... '
                     'roam_unlock(&x);), or roam_barrier_all(); between them')


def block_name(program, name):
    """`grid`, or `block of queue.c:12`."""
    if name.startswith(BLOCK_OF):
        line = code_place(program, name[len(BLOCK_OF):])
        name = f'{BLOCK_OF}{line}' if line else name
    return f'`{name}`'


def code_lines(program, text):
    """A sentence of roam's, with its places of code given as lines."""
    return re.sub(r'\S+\+0x[0-9a-f]+(?: \([^)]*\))?', lambda found: code_place(program, found.group(0)), text)


def scope(run, program):
    """(where it was written, where it is read, what) of each page that only locks hand on, though it was
    written outside of their sections; the pages that were seen first come first."""
    found = []
    for address, name, offset, wrote, read in SCOPE.findall(run.outcome.err):
        what = f'{block_name(program, name)}+{offset}' if name else address
        found.append((code_place(program, wrote), code_place(program, read), what))
    return found


def heap(findings, run, program):
    for match in HEAP.finditer(run.outcome.err):
        address, name, size, by, what = match.groups()
        block = f'block `{name}`' if name else f'block {address}'
        where = f', allocated at {code_place(program, by)}' if by else ''
        kind = next(word for word in ('twice', 'after', 'before', 'behind') if f' {word}' in what)
        findings.add(run, 'heap', (name or by or address, kind),
                     f'{block} ({size} bytes{where}) {code_lines(program, what)}', HEAP_ADVICE[kind])


def pointers(findings, run, program):
    for match in POINTERS.finditer(run.outcome.err):
        node, address, name, offset, kind, at = match.groups()
        line = code_place(program, at)
        what = f'{block_name(program, name)}+{offset}' if name else address
        findings.add(run, 'pointers', name or address,
                     f'pointer to private memory stored in {what}{f" ({line})" if line else ""}: node {node} '
                     f'stores what points into its own {kind}, which no other node has',
                     'allocate what it points to with roam_alloc (G_MALLOC), or keep the pointer in a '
                     'variable that is not shared')


def sharing(findings, run, program):
    for match in SHARING.finditer(run.outcome.err):
        address, name, offset, nodes = match.groups()
        what = f'of {block_name(program, name)} (+{offset})' if name else address
        findings.add(run, 'sharing', name or address,
                     f'page {what} is written by all {nodes} nodes, each its own bytes',
                     'if it is slow: pad each node\'s part to a page (4096 bytes; to 64 bytes between '
                     'threads of one node), or take ROAM_PROTOCOL=adapt', grave=False)


SHARED = 'ROAM_SHARED before the declaration of {0}, or allocate it (roam_alloc, G_MALLOC) before CREATE'


def statics(findings, run, _program):
    """Notes what the check says of statics; returns the names of those that some nodes have
    written, not all."""
    some = []
    for match in STATICS.finditer(run.outcome.err):
        name, _, writers, nodes, users = match.groups()
        every = len(writers.split(',')) == int(nodes)
        by = 'every node' if every else f'node{"s" if "," in writers else ""} {writers}'
        some += [] if every else [name]
        most = int(nodes) > 2 and len(writers.split(',')) == int(nodes) - 1
        findings.add(run, 'statics', name,
                     f'static `{name}` was written by {by} after CREATE, and differs between nodes '
                     f'(used by {users})',
                     f'if nodes are to see each other\'s: {SHARED.format(name)}; if each is to '
                     'have its own, nothing', grave=not every)
        if most or every:
            findings.numbers_nodes(name)
    for match in BROKEN.finditer(run.outcome.err):
        name, writer, users = match.groups()
        findings.add(run, 'statics', name,
                     f'static `{name}` was written by node {writer} after CREATE: it points to shared memory, '
                     f'and the other nodes do not have that pointer (used by {users})', SHARED.format(name))
    return some


def unseen(findings, run, _program):
    """Notes the statics that node 0 had written when the job hung."""
    for match in UNSEEN.finditer('\n'.join([run.outcome.err, *run.outcome.looks])):
        name, writer, users = match.groups()
        findings.add(run, 'statics', name,
                     f'static `{name}` was written by node {writer} after CREATE, before the job hung; no other '
                     f'node sees that (used by {users})',
                     f'if another node waits for it: {SHARED.format(name)}', grave=False)
