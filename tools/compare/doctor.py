"""Runs a program under several consistency models, and says in plain words what is wrong with it.

usage: roam doctor [OPTION]... [--] PROGRAM [ARGUMENT]...

  --nodes LIST      numbers of nodes, separated by commas (2,4)
  --seeds N         runs with random delays (ROAM_CHAOS) of each model (2)
  --timeout S       seconds after which a run counts as hung (60)
  --run             start PROGRAM by `roam run -n NODES`
  --input FILE      the standard input of PROGRAM; {nodes} in the name is replaced
  --json FILE       write the verdicts, for other programs; -: to standard output, without text
  --sharing         instead, run PROGRAM once, on the largest number of nodes, and print for each
                    allocation which nodes wrote which bytes of the pages that several nodes use,
                    and the faults and fetches of these pages
  --html FILE       with --sharing: write the tables and a heat map as an HTML page

PROGRAM is told the number of nodes by -pNODES before its arguments, or by a -pN or {nodes} among them,
or gets its nodes from `roam run -n NODES`; the doctor finds out which by starting it.  It runs under one protocol of each model, SC, RC
and ScC: as it is, with random delays, without fetching ahead, with ROAM_CHECK=race,statics,sharing,
pointers, and with ROAM_CHECK=heap; if it needs RC, with ROAM_CHECK=scope.
What it prints is its answer, as far as it is alike in all runs under SC; "verified ok" counts for all
of it.  A program of transactions runs under plurix alone, with ROAM_CHECK=statics and heap; if it has a store
(ROAM_STORE), each run gets a new, empty one instead, and heap is left out.  No run saves checkpoints.  Other
ROAM_ variables hold for all runs.  The exit status is 0 if nothing was found, 1 if
something was, 2 for wrong options and programs that make no job, 127 if there is no such program.
"""
import argparse
import json
import os
import re
import shutil
import sys

import command
import doctor_finds as finds
import doctor_runs
import doctor_sharing
import runs
from compare import check_program, number_list, positive

CHECKS = 'race,statics,sharing,pointers'
CONFIRMS = 3  # more runs under SC before an answer counts as another one
SEED_CONFIRMS = 100


def seeds(text):
    if not text.isdecimal() or int(text) > 1000:
        raise argparse.ArgumentTypeError(f'{text}: a number from 0 to 1000')
    return int(text)


def parse(argv):
    parser = command.Arguments('doctor')
    parser.add_argument('-h', '--help', action='store_true')
    parser.add_argument('--roam', default=shutil.which('roam') or 'roam')
    parser.add_argument('--nodes', type=number_list, default=[2, 4])
    parser.add_argument('--seeds', type=seeds, default=2)
    parser.add_argument('--timeout', type=positive(float), default=60.0)
    parser.add_argument('--run', action='store_true')
    parser.add_argument('--input')
    parser.add_argument('--json')
    parser.add_argument('--sharing', action='store_true')
    parser.add_argument('--html')
    options, program = parser.split(argv)
    args = parser.parse_args(options)
    if args.help:
        print(__doc__.strip())
        sys.exit(0)
    if not program:
        parser.error('PROGRAM missing')
    if args.html and not args.sharing:
        parser.error('--html goes with --sharing')
    if 1 in args.nodes:
        parser.error('--nodes 1: one node makes none of these mistakes')
    args.program, args.arguments = program[0], program[1:]
    for nodes in args.nodes if args.input else []:
        path = runs.filled(args.input, nodes)
        if not os.access(path, os.R_OK):
            raise runs.Failure(f'cannot read {path}')
    return args


class Progress(runs.Progress):
    def say(self, text):
        self.count += 1
        self.step(text)


class Doctor:
    """The runs, and what they have shown."""

    def __init__(self, args):
        self.args = args
        self.program = doctor_runs.Program(args, apart=True)
        self.models = doctor_runs.protocols(args.roam)
        self.findings = finds.Findings()
        self.progress = Progress(len(args.nodes) * (3 + 3 * args.seeds + 3))
        self.given_up = set()  # models under which it has failed
        self.fails = {}        # model: the first run that failed
        self.others = {}       # model: (run, line, expected) of the first other answer
        self.answers = {}
        self.runs = []
        self.declared = None

    def start(self, model, nodes, how, variables):
        label = f'{self.models[model]} on {nodes}{", " if how else ""}{how}'
        self.progress.step(label)
        run = self.program.start(self.program.style, label, model, nodes,
                                 {'ROAM_PROTOCOL': self.models[model], **variables})
        self.runs.append(run)
        return run

    def run(self, model, nodes, how='', **variables):
        """A run, or None if its model has been given up."""
        if model not in self.models or model in self.given_up:
            self.progress.step('')
            return None
        run = self.start(model, nodes, how, variables)
        self.note(run)
        return run

    def note(self, run):
        needs = finds.NEEDS.search(run.outcome.err)
        self.declared = needs.group(1) if needs else self.declared
        if run.failed():
            self.given_up.add(run.model)
            self.fails.setdefault(run.model, run)

    # ------------------------------------------------------------------------------ all runs

    def examine(self):
        first = self.program.find_style(self.models['SC'], self.args.nodes[0], self.progress)
        if self.program.transacts is not None:
            self.take_transactions(self.program.transacts)
        fixed = self.program.style == doctor_runs.FIXED
        for nodes in self.args.nodes[:1] if fixed else self.args.nodes:
            self.examine_on(nodes, first)
            first = None
            if 'SC' in self.given_up:
                break
        self.progress.clear()
        self.judge()

    def take_transactions(self, only):
        """Leaves one protocol, the only one that the program can run under."""
        self.models = {'SC': only}
        self.findings.add(None, 'transactions', '', f'it runs transactions (roam_tx), which only {only} has',
                          f'run it with ROAM_PROTOCOL={only}; other protocols, and the checks race, sharing, pointers '
                          'and scope, were left out', grave=False)

    def seeds(self):
        return [{'how': f'ROAM_CHAOS={seed}', 'ROAM_CHAOS': str(seed)}
                for seed in range(1, self.args.seeds + 1)]

    def examine_on(self, nodes, first):
        """Makes all runs on this number of nodes; `first`, if not None, is the first of them, made
        already."""
        answers = self.answers[nodes] = finds.Answers()
        for how in [{}, *self.seeds()]:
            run = first or self.run('SC', nodes, **how)
            if first is not None:
                self.runs.append(first)
                self.note(first)
            first = None
            if run is not None and not run.failed():
                answers.add(run.outcome.out)
        for model in ('RC', 'ScC') if 'SC' not in self.given_up else ():
            more = [{'how': 'ROAM_PREFETCH=0', 'ROAM_PREFETCH': '0'}] if model == 'RC' else []
            for how in [{}, *self.seeds(), *more]:
                self.compare(self.run(model, nodes, **how), nodes)
        self.look(nodes)

    def look(self, nodes):
        """Makes the runs with checks, which may show why other runs failed.  If each would hang, too,
        makes the one that says what other nodes may wait for."""
        hung = 'SC' in self.fails and (self.fails['SC'].outcome.hung or self.fails['SC'].stuck() is not None)
        if hung:
            run = self.start('SC', nodes, 'ROAM_CHECK=statics', {'ROAM_CHECK': 'statics'})
            finds.unseen(self.findings, run, self.program)
        model, checks = ('SC', 'statics') if self.program.transacts else ('RC', CHECKS)
        if any(run.outcome.hung for run in self.fails.values()) or model not in self.models:
            return
        run = self.start(model, nodes, f'ROAM_CHECK={checks}', {
            'ROAM_CHECK': checks,
            'ROAM_HOT': '0'})  # the first write to a page in each interval faults, and is noted
        finds.races(self.findings, run, self.args.program)
        finds.pointers(self.findings, run, self.args.program)
        finds.sharing(self.findings, run, self.args.program)
        self.weigh_statics(finds.statics(self.findings, run, self.args.program), nodes)
        self.judge_checked(run)
        if self.program.stores():  # the check is refused beside a store
            return
        run = self.start(model, nodes, 'ROAM_CHECK=heap', {'ROAM_CHECK': 'heap'})  # it moves blocks apart
        finds.heap(self.findings, run, self.args.program)
        if not self.program.transacts:  # transactions get no blocks under this check
            self.judge_checked(run)

    def judge_checked(self, run):
        """Judges a run with a check that failed, if the check has said nothing and no other run has
        failed."""
        if run.failed() and not self.fails and \
                not any(run.label in finding.seen for finding in self.findings.ordered()):
            self.judge_failed(run, 'not without the check, which only moves things and takes time')

    def weigh_statics(self, names, nodes):
        """Finds out whether the program wants its nodes to have these statics apart: what it verifies is
        right with them apart; what it prints may be the same if all share them, as threads of one
        node do."""
        if self.answers[nodes].verified():
            for name in names:
                self.findings.meant_apart(name, True, 'the program verifies its answer, with a copy on each node')
            return
        if not names or self.program.style != doctor_runs.CREATES or not self.answers[nodes].tells() or \
                self.program.transacts:
            return
        self.progress.count += 1
        run = self.start('RC', nodes, f'ROAM_THREADS={nodes}', {'ROAM_THREADS': str(nodes)})
        alike = not run.failed() and self.answers[nodes].other(run.outcome.out) is None
        for name in names:
            self.findings.meant_apart(name, alike, 'what is printed is the same if all share it')

    def compare(self, run, nodes):
        """Notes an answer other than under SC, once more runs under SC have confirmed that it is
        another one."""
        answers = self.answers[nodes]
        if run is None or run.failed() or not answers.texts or run.model in self.others:
            return
        other = answers.other(run.outcome.out)
        for seed in range(CONFIRMS if other is not None else 0):
            self.progress.count += 1
            more = self.run('SC', nodes, 'once more', ROAM_CHAOS=str(SEED_CONFIRMS + seed))
            if more is not None and not more.failed():
                answers.add(more.outcome.out)
        other = answers.other(run.outcome.out)
        if other is None:
            return
        self.others[run.model] = (run, *other)
        # A program that is wrong under RC, too, may have been lucky there.
        for seed in range(CONFIRMS if run.model == 'ScC' else 0):
            self.progress.count += 1
            self.compare(self.run('RC', nodes, 'once more', ROAM_CHAOS=str(SEED_CONFIRMS + seed)),
                         nodes)

    # ------------------------------------------------------------------------------ verdicts

    def judge(self):
        if 'SC' in self.fails:
            self.judge_failed(self.fails['SC'], f'under {self.models["SC"]}' if self.program.transacts else
                              'under SC, too: consistency is not the reason')
        else:
            self.judge_weaker()
        for nodes, answers in self.answers.items():
            line = '' if answers.verified() or not answers.texts else answers.varies()
            if line:
                self.findings.add(None, 'output', '',
                                  f'its output differs from run to run under SC, on {nodes} nodes: '
                                  f'"{line[:100]}"',
                                  'only what is alike in all runs was compared between models; a '
                                  'line "verified ok" would count for all of it', grave=False)

    def judge_weaker(self):
        bad = {model: self.fails.get(model) for model in ('RC', 'ScC')}
        if bad['RC'] is not None:
            self.judge_failed(bad['RC'], 'not under SC: it reads what another node wrote without '
                              'an acquire between')
        elif 'RC' in self.others:
            self.judge_other(self.others['RC'])
        elif self.declared in (None, 'SCC', 'ScC') and (bad['ScC'] is not None
                                                        or 'ScC' in self.others):
            self.judge_scope(bad['ScC'])

    def judge_failed(self, run, when):
        outcome = run.outcome
        loops = outcome.loops()
        if run.stuck() is not None:
            self.findings.add(run, 'hang', '', f'hangs, {when}: {run.stuck()}',
                              'some thread must come to that barrier, or set that flag, or unlock')
        elif loops:
            node, file, address, text = loops[0]
            at = finds.place(self.args.program, file, address, text)
            if run.model == 'SC':
                self.findings.add(run, 'hang', '', f'hangs: after {self.args.timeout:g} s node {node} '
                                  f'still computes at {at}; {when}',
                                  'if it is only slow there: --timeout')
            else:
                name = finds.waited_for(self.args.program, file, address)
                what = f'`{name}`: wait by a flag; it is' if name else 'a plain variable,'
                flag = name if re.fullmatch(r'\w+', name) else 'flag'
                self.findings.add(run, 'spins', at,
                                  f'spins on {what} read in the loop at {at} (node {node}); {when}',
                                  'wait by a flag, a condition or a barrier: roam_flag_wait(&'
                                  f'{flag}); there, and roam_flag_set(&{flag}); where it is written')
        elif outcome.hung:
            self.findings.add(run, 'hang', '', f'hangs: not at its end after {self.args.timeout:g} s, '
                              f'{when}: {outcome.waits() or outcome.last_line()}',
                              'if it is only slow: --timeout')
        elif run.crashed() is not None:
            self.findings.add(run, 'crash', '', f'crashes, {when}: {run.crashed()}',
                              'if no other line says why, find the place: roam run --gdb, or '
                              'docs/debugging.md, "gdb"')
        else:
            self.findings.add(run, 'status', '', f'fails with status {outcome.status}, {when}: '
                              f'{run.said()}', 'see what it says')

    def judge_other(self, other):
        run, line, expected = other
        self.findings.add(run, 'answer', 'RC',
                          f'another answer than under SC: "{line[:100]}" instead of '
                          f'"{expected[:100]}"' + ('' if self.findings.has('race') else '; no two '
                          'writes race, so it reads what another node wrote without an acquire '
                          'between'),
                          'lock where it writes and where it reads (roam_lock(&x); ... '
                          'roam_unlock(&x);), or roam_barrier_all(); between them')

    def judge_scope(self, failed):
        if failed is not None:
            how = f'ends with status {failed.outcome.status} under ScC'
            how = 'hangs under ScC' if failed.outcome.hung or failed.stuck() is not None else how
            run = failed
        else:
            run, line, expected = self.others['ScC']
            how = f'another answer under ScC: "{line[:100]}" instead of "{expected[:100]}"'
        self.findings.add(run, 'needs', 'RC',
                          f'needs RC: {self.handed_on(run.nodes)}; right under '
                          f'SC{" and RC" if "RC" in self.models else ""}, {how}',
                          'say so: roam_needs(ROAM_MODEL_RC); before CREATE, and take a protocol of '
                          'RC; or write inside of the section')

    def handed_on(self, nodes):
        """Runs the program once more, to see where it writes what locks hand on."""
        if 'RC' not in self.models:
            return 'it hands on by a lock what was written outside of its section'
        self.progress.count += 1
        run = self.start('RC', nodes, 'ROAM_CHECK=scope', {
            'ROAM_CHECK': 'scope', 'ROAM_HOT': '0',
            'ROAM_PREFETCH': '0'})  # each page that is read faults, and is noted
        self.progress.clear()
        found = finds.scope(run, self.args.program)
        if not found:
            return 'it hands on by a lock what was written outside of its section'
        first = found[0]
        more = sorted({wrote for wrote, _, _ in found[1:]} - {first[0]})
        return (f'`{first[0]}` hands on by a lock what was written outside of its section: {first[2]}, which is '
                f'read at {first[1]}' + (f'; so do {", ".join(more)}' if more else ''))

    # -------------------------------------------------------------------------------- report

    def status(self):
        return 1 if any(finding.grave for finding in self.findings.ordered()) else 0

    def text(self):
        ran = ' and '.join(str(nodes) for nodes in self.answers)
        lines = [f'roam doctor: {self.program.shown(self.args.nodes[0])}: {len(self.runs)} runs on '
                 f'{ran} nodes, under {", ".join(f"{name} ({model})" for model, name in self.models.items())}']
        for finding in self.findings.ordered():
            lines.append(f'{"FOUND" if finding.grave else "note "}  {finding.text}')
            lines.append(f'       -> {finding.advice}')
            if finding.seen:
                lines.append(f'       seen under {"; ".join(finding.seen)}')
        grave = sum(finding.grave for finding in self.findings.ordered())
        lines.append(f'{grave} found' if grave else 'healthy: nothing found')
        return '\n'.join(lines)

    def json(self):
        return {'format': 'roam doctor 1', 'program': self.args.program,
                'arguments': self.args.arguments, 'style': self.program.style,
                'nodes': list(self.answers), 'protocols': self.models,
                'runs': [{'label': run.label, 'model': run.model, 'nodes': run.nodes,
                          'status': run.outcome.status, 'hung': run.outcome.hung,
                          'wall_us': run.outcome.wall_us} for run in self.runs],
                'healthy': self.status() == 0,
                'findings': [finding.json() for finding in self.findings.ordered()]}


def write(what, path):
    text = json.dumps(what, indent=1) + '\n'
    if path == '-':
        sys.stdout.write(text)
        return
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def share(args):
    """--sharing; the exit status."""
    program = doctor_runs.Program(args, apart=True)
    shown = os.path.basename(args.program)
    nodes = max(args.nodes)
    sharing = doctor_sharing.measure(program, doctor_runs.protocols(args.roam)['RC'], nodes, Progress(2))
    if args.html:
        with open(args.html, 'w', encoding='utf-8') as file:
            file.write(doctor_sharing.page_html(sharing, shown))
    if args.json:
        write(doctor_sharing.as_json(sharing, args.program, sharing.nodes), args.json)
    if args.json != '-':
        print(f'roam doctor: {program.shown(nodes)}: pages that several of {sharing.nodes} nodes use')
        print(doctor_sharing.table(sharing))
    return 0


def main(argv):
    args = parse(argv)
    command.end_by_signals()
    check_program(args)
    if args.sharing:
        return share(args)
    doctor = Doctor(args)
    doctor.examine()
    if args.json:
        write(doctor.json(), args.json)
    if args.json != '-':
        print(doctor.text())
    return doctor.status()


if __name__ == '__main__':
    command.run('doctor', main)
