#!/usr/bin/env python3
"""`roam doctor` names each mistake of a program that makes one, with its place or variable, and finds
nothing in programs that make none; bad programs and arguments get one clear line.

usage: doctor_test.py ROAM SICK APPS [splash]

splash: of the SPLASH-2 programs, in which there is nothing to find.
"""
import concurrent.futures
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROAM, SICK, APPS = map(os.path.abspath, sys.argv[1:4])
FEW = ('--nodes', '2', '--seeds', '1')
CHECKS = ('--nodes', '2', '--seeds', '0')  # what the runs with checks show
HUNG = ('--nodes', '2', '--seeds', '0', '--timeout', '8')
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'sick.c'), encoding='utf-8') as source:
    LINES = source.read().splitlines()


class Wrong(Exception):
    """Something is not as it should be."""


def check(truth, text):
    if not truth:
        raise Wrong(text)


def loop(text):
    """sick.c:LINE of the only line with this text, or of the next one."""
    found = [number for number, line in enumerate(LINES, 1) if text in line]
    check(len(found) == 1, f'sick.c: {text!r} in {len(found)} lines')
    return rf'sick\.c:({found[0]}|{found[0] + 1})'


def doctor(*arguments, status, **env):
    """Its output and standard error; it must end so."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run([ROAM, 'doctor', *arguments], env={**kept, **env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100,
                          check=False)
    told = f'{arguments}: status {done.returncode}, said {done.stdout[-900:]!r} {done.stderr[-600:]!r}'
    check(done.returncode == status, f'expected status {status}: {told}')
    check('Traceback' not in done.stderr, told)
    return done.stdout, done.stderr


def ill(*arguments):
    """The verdicts on a program, one line each."""
    out, err = doctor(*arguments, status=1)
    check(re.search(r'^(\r\033\[K)?\[\d+/\d+\] ', err), f'no progress: {err[-200:]!r}')
    return [line for line in out.splitlines() if line.startswith('FOUND  ')]


def finds(kind, *patterns, how=FEW):
    """This mistake gets one verdict, which says all of this."""
    found = ill(*how, SICK, kind)
    check(len(found) == 1, f'{kind}: {found}')
    for pattern in patterns:
        check(re.search(pattern, found[0]), f'{kind}: expected {pattern!r}: {found[0]}')


def healthy(*arguments, **env):
    out, _ = doctor(*arguments, status=0, **env)
    check('healthy: nothing found' in out and 'FOUND' not in out, f'{arguments}: {out}')
    return out


# -------------------------------------------------------------------------------------- mistakes

def case_racing():
    line = loop('grid[8] = 2 * i')
    finds('racing', rf'^FOUND  two nodes write `grid`\+0x40 unordered \({line} and {line}\): ')


def case_copying():
    out, _ = doctor(*FEW, SICK, 'copying', status=1)
    found = [line for line in out.splitlines() if 'two nodes write' in line]
    line = loop('memcpy(&grid[100], from, bytes);')
    check(len(found) == 1 and re.search(rf'`grid`\+0x320 unordered \({line} and {line}\)', found[0]), out)


def case_statics():
    out, _ = doctor(*CHECKS, SICK, 'statics', status=1)
    found = [line for line in out.splitlines() if line.startswith('FOUND  ')]
    check(len(found) == 1 and found[0].startswith('FOUND  static `root` was written by node 0 after CREATE'),
          out)
    check('-> if nodes are to see each other\'s: ROAM_SHARED before the declaration of root' in out, out)


def case_lists():
    finds('lists', rf'^FOUND  pointer to private memory stored in `grid`\+0xf0 \({loop("grid[30] = (uint64_t)(uintptr_t)&own[2]")}\): '
          'node 1', how=CHECKS)


def case_frames():
    finds('frames', rf'^FOUND  pointer to private memory stored in `other`\+0x140 '
          rf'\({loop("other[40] = (uint64_t)")}\): node 0.* stack', how=CHECKS)


def case_points():
    healthy(*CHECKS, SICK, 'points')


BLOCK = loop('(uint64_t)(uintptr_t)roam_alloc(bytes)')


def case_behind():
    finds('behind', rf'^FOUND  block 0x\w+ \(40 bytes, allocated at {BLOCK}\) was written behind its end, at '
          r'\+ 0x28; seen when node 0 freed it', how=CHECKS)


def case_often():
    """What is wrong with many blocks of one place in the same way is said once, and counted."""
    said = checked('heap', 'often', '2')
    check(len(said) == 2 and 'was written behind its end' in said[0] and
          said[1] == 'roam: heap: 1 found, and 19 like them', said)


def case_before():
    finds('before', rf'^FOUND  block `other` \(8192 bytes, allocated at {loop("other = roam_alloc_placed(")}\) was '
          'written before its beginning, at - 0x48; seen at the end', how=CHECKS)


def case_after():
    finds('after', rf'^FOUND  block 0x\w+ \(40 bytes, allocated at {BLOCK}\) was written at \+ 0x18 after it '
          rf'was freed \(by node 0, at {loop("(void)roam_free(block)")}\)', how=CHECKS)


def case_twice():
    finds('twice', rf'^FOUND  block 0x\w+ \(9000 bytes, allocated at {BLOCK}\) was freed twice: by node 1, at '
          rf'{loop("(void)roam_free(block)")}, after node 0', how=CHECKS)


def case_blocks():
    healthy(*CHECKS, SICK, 'blocks')


def case_spins():
    finds('spins', f'spins on `done`: wait by a flag; it is read in the loop at {loop("while (*done == 0)")} ',
          'not under SC',
          how=HUNG)


def case_stale():
    finds('stale', '^FOUND  another answer than under SC: .*, and [0-3]" instead of .*, and 4"',
          'without an acquire')


def case_scope():
    finds('scope', rf'^FOUND  needs RC: `{loop("other[0] = round;")}` hands on by a lock what was written outside of '
          rf'its section: `other`\+0, which is read at {loop("grid[13] += other[0] == round")}; right under SC and RC')


def checked(name, kind, nodes, **env):
    """What a check says of a program."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run([SICK, f'-p{nodes}', kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**kept, 'ROAM_CHECK': name, **env}, timeout=100, check=True)
    return [line for line in done.stderr.splitlines() if line.startswith(f'roam: {name}: ')]


def scope_says(kind):
    return checked('scope', kind, '3', ROAM_PREFETCH='0', ROAM_HOT='0')


def case_scope_places():
    """The check names the write outside of sections, and none where barriers or sections hand on."""
    said = scope_says('scope')
    check(len(said) == 1 and '(other + 0, ' in said[0] and said[0].count(' at tools_sick+0x') == 2,
          f'scope: {said}')
    for kind in ('right', 'counts', 'small', 'keeps', 'inside'):
        said = scope_says(kind)
        check(not said, f'{kind}: {said}')


def case_stuck():
    finds('stuck', '^FOUND  hangs, under SC, too', 'node 1 waited for flag')


def waits_for_static(kind, *patterns, how):
    finds(kind, *patterns, how=how)
    out, _ = doctor(*how, SICK, kind, status=1)
    check('note   static `root` was written by node 0 after CREATE, before the job hung; no other node sees that '
          '(used by ' in out and '-> if another node waits for it: ROAM_SHARED before' in out, out)


def case_unheard():
    waits_for_static('unheard', '^FOUND  hangs, under SC, too', 'node 1 waited for condition', how=CHECKS)


def case_unshared():
    waits_for_static('unshared', '^FOUND  hangs: not at its end after 3 s, under SC, too: .*node 1 .*until a time',
                     how=(*CHECKS, '--timeout', '3'))


def case_endless():
    finds('endless', f'^FOUND  hangs: after 8 s node 1 still computes at {loop("while (*never == 0)")};',
          how=HUNG)


def case_stops():
    finds('stops', '^FOUND  hangs: not at its end after 8 s, under SC, too: consistency is not the reason: .*node 1',
          how=HUNG)


def case_crash():
    finds('crash', r'^FOUND  crashes, under SC, too.*node 1 .*signal 11')


def case_falls():
    finds('falls', r'^FOUND  crashes, under SC, too.*node 0 .*signal 11')


def both(kind, *patterns):
    """A program that crashes, and why."""
    found = ill(*CHECKS, SICK, kind)
    check(len(found) == 2 and 'crashes, under SC, too' in found[0] + found[1], f'{kind}: {found}')
    for pattern in patterns:
        check(any(re.search(pattern, line) for line in found), f'{kind}: expected {pattern!r}: {found}')


def case_lacks():
    both('lacks', '^FOUND  static `part` was written by node 0 after CREATE: it points to shared memory')


def case_follows():
    both('follows', rf'^FOUND  pointer to private memory stored in `grid`\+0xf0 '
         rf'\({loop("grid[30] = (uint64_t)(uintptr_t)own;")}\): node 1')


def case_refuses():
    finds('refuses', '^FOUND  fails with status 3, .*: sick: no input$')


def case_launched():
    found = ill('--run', *FEW, SICK, 'racing')
    line = loop('grid[8] = 2 * i')
    check(len(found) == 1 and re.search(rf'`grid`\+0x40 unordered \({line} and {line}\)', found[0]), found)


# --------------------------------------------------------------------------------------- no mistake

def case_right():
    out = healthy('--nodes', '2,3', '--seeds', '1', SICK, 'right')
    check('note' not in out, out)


def case_counts():
    out = healthy('--nodes', '3', '--seeds', '0', SICK, 'counts')
    check('note   page of `grid` (+0) is written by all 3 nodes, each its own bytes' in out, out)


def case_owns():
    out = healthy(*CHECKS, SICK, 'owns')
    check('note   static `root` was written by every node after CREATE' in out, out)


def case_keeps():
    out = healthy(*CHECKS, SICK, 'keeps')
    check('note   static `root` was written by node 0 after CREATE' in out and
          'what is printed is the same if all share it' in out, out)


def case_numbers():
    """The numbers of nodes in a static: written by all but node 0, whose value does not change."""
    out = healthy('--nodes', '2,3', '--seeds', '0', SICK, 'numbers')
    check(re.search(r'^note   static `root` was written by node 1 after CREATE.*; on more nodes all but one gave',
                    out, re.MULTILINE), out)


def case_verifies():
    out = healthy(*CHECKS, SICK, 'verifies')
    check(re.search(r'^note   static `root` was written by node 0 after CREATE.*; the program verifies its answer',
                    out, re.MULTILINE), out)


def case_declared():
    healthy(*FEW, SICK, 'declared')


def case_chance():
    out = healthy(*FEW, SICK, 'chance')
    check('note   its output differs from run to run under SC' in out, out)


def case_transactions():
    """A program of transactions is judged under the protocol that has them."""
    bank = [os.path.join(APPS, 'plurix-bank'), '-m', 'tx', '-n', '200']
    out = healthy(*FEW, *bank)
    name = re.search(r'^note   it runs transactions \(roam_tx\), which only (\w+) has$', out, re.MULTILINE)
    check(name is not None and f'under {name.group(1)} (SC)\n' in out, out)
    finds('transacts', rf'^FOUND  fails with status 5, under {name.group(1)}: sick: wrong sum$')
    healthy(*CHECKS, os.path.join(APPS, 'plurix-tree'), '-m', 'tx', '-n', '50')  # allocates in transactions
    refused(1, '--sharing: it runs transactions, .*`roam tx report`', '--sharing', *CHECKS, *bank)


def case_stores():
    """Each run of a program with a store has one of its own: that of the program is neither there nor asked."""
    with tempfile.TemporaryDirectory() as place:
        env = {'ROAM_STORE': os.path.join(place, 'none'), 'ROAM_STORE_KEY': os.path.join(place, 'key')}
        out = healthy(*FEW, SICK, 'keeps-pages', **env)
        check('note   it runs transactions' in out and not os.listdir(place), out)


def case_checkpoints():
    """No run of the doctor saves where the program would."""
    with tempfile.TemporaryDirectory() as place:
        healthy(*CHECKS, os.path.join(APPS, 'jump-sor'), '-n64', '-i3', '-t', ROAM_CHECKPOINT=place,
                ROAM_CHECKPOINT_EVERY='0')
        check(not os.listdir(place), os.listdir(place))


def case_kernels():
    healthy(*FEW, os.path.join(APPS, 'jump-me'), '-n20000', '-t')
    healthy(*FEW, os.path.join(APPS, 'fft'), '-m10', '-p1')
    healthy(*FEW, os.path.join(APPS, 'hello'))


def case_sharing():
    """Per allocation and page: who wrote which bytes, faults, fetches; as text, JSON and a picture."""
    with tempfile.TemporaryDirectory() as place:
        page, said = os.path.join(place, 'page.html'), os.path.join(place, 'said.json')
        out, _ = doctor('--sharing', '--nodes', '2,3', '--html', page, '--json', said, SICK, 'counts', status=0)
        with open(page, encoding='utf-8') as file:
            text = file.read()
        with open(said, encoding='utf-8') as file:
            grid = [each for each in json.load(file)['allocations'] if each['name'] == 'grid'][0]
    check(re.search(r'^grid +8192 +2 +1 +1 +\d+ +\d+ +\d+$', out, re.MULTILINE), out)
    check(re.search(r'page \+0x0: \d+ faults, \d+ fetches; wrote: node 0 .*0xa0-0xa0; node 1 0xa8-0xa8; '
                    r'node 2 0xb0-0xb0 \(each its own bytes\)$', out, re.MULTILINE), out)
    only = grid['pages'][0]
    check(only['wrote']['1'] == [[168, 168]] and only['in_common'] == 0, only)
    # At least what every round cost the nodes that are not the page's home.
    check(all(only['faults_and_fetches'][node][1] >= 20 and only['faults_and_fetches'][node][2] >= 20
              for node in '12'), only)
    pictures = re.findall(r'<svg.*?</svg>', text, re.DOTALL)
    check(len(pictures) == 2 and '://' not in text, text[:500])
    for picture in pictures:
        root = xml.etree.ElementTree.fromstring(picture)
        cells = [each for each in root.iter('rect') if each.get('width') == '9']
        check(len(cells) >= 64 and 'wrote: node 0' in root.find('.//title').text, picture[:300])
    out, _ = doctor('--sharing', '--nodes', '3', SICK, 'small', status=0)
    check(re.search(r'^sick\.c:\d+ \(3 blocks\) +24 +1 +1 +1 ', out, re.MULTILINE), out)
    out, _ = doctor('--sharing', '--nodes', '2', SICK, 'racing', status=0)
    check('(1 bytes in common)' in out or re.search(r'\([2-8] bytes in common\)', out), out)


SPLASH = {
    'barnes': ['-n300', '-t'], 'cholesky': ['-n6', '-t'], 'fft': ['-m10', '-t'],
    'fmm': ['-n400', '-k2', '-t'], 'lu': ['-n96', '-b16', '-t'], 'lu-nc': ['-n96', '-b16', '-t'],
    'ocean': ['-n34', '-c'], 'ocean-nc': ['-n18', '-c'],
    'radiosity': ['-r0', '-f0.3', '-a0.3', '-e0.1', '-t'], 'radix': ['-n16384', '-r256', '-t'],
    'raytrace': ['-n16', '-l1', '-t'], 'volrend': ['-n20', '-z33', '-r2', '-d50', '-t'], 'water-nsquared': ['-n64', '-t'],
    'water-spatial': ['-n216', '-c4.6', '-t'],
}


def splash(name):
    """No verdict, and no note but on pages that all nodes write."""
    out = healthy('--seeds', '1', os.path.join(APPS, name), *SPLASH[name])
    notes = [line for line in out.splitlines() if line.startswith('note')]
    check(all(' is written by all 4 nodes, each its own bytes' in line for line in notes), notes)
    check(re.search(r': 1[5-8] runs on 2 and 4 nodes, under ', out), out)


def case_json():
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, 'said.json')
        doctor('--json', path, *FEW, SICK, 'statics', status=1)
        with open(path, encoding='utf-8') as file:
            said = json.load(file)
    check(said['format'] == 'roam doctor 1' and not said['healthy'], said)
    check([(each['kind'], each['grave']) for each in said['findings']] == [('statics', True)], said)
    check(set(said['protocols']) == {'SC', 'RC', 'ScC'} and len(said['runs']) == 10, said)
    check(all(run['status'] == 0 and not run['hung'] for run in said['runs']), said)
    out, _ = doctor('--json', '-', *FEW, SICK, 'right', status=0)
    check(json.loads(out)['healthy'] is True, out)


# --------------------------------------------------------------------------------------- bad input

def refused(status, pattern, *arguments):
    out, err = doctor(*arguments, status=status)
    last = err.rstrip('\n').rsplit('\n', 1)[-1]
    check(out == '' and re.search('^roam: doctor: ' + pattern, last), f'{arguments}: {out!r} {last!r}')


def script(place, name, text, first='#!/bin/sh\n'):
    path = os.path.join(place, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(f'{first}{text}\n')
    os.chmod(path, 0o755)
    return path


def case_refused():
    refused(2, 'PROGRAM missing')
    refused(2, '.*--nodes 1: ', '--nodes', '1', SICK, 'right')
    refused(2, '--html goes with --sharing', '--html', 'x', SICK, 'right')
    refused(1, "--sharing: node 1 .* signal 11.*; `roam doctor` without", '--sharing', *CHECKS, SICK, 'crash')
    refused(2, 'option --nothing', '--nothing', SICK)
    refused(127, 'no program ./nothing', './nothing')
    refused(2, 'not a program of roam, or it ended before it made a job$', *FEW, SICK, 'alone')
    refused(2, 'not a program of roam, .*: it ended with status 1', *FEW, '/bin/false')
    with tempfile.TemporaryDirectory() as place:
        sleeps = script(place, 'sleeps', 'exec sleep 50')
        refused(2, 'no job within 1 s', '--timeout', '1', sleeps)
        refused(2, 'not a program of roam, .*: it was killed by signal 11: no output$',
                script(place, 'crashes', 'kill -SEGV $$'))
        refused(2, 'not a program of roam, or it ended before it made a job$',
                script(place, 'random', 'head -c 4000 /dev/urandom; echo "roam: node 1 verified ok"'))
        refused(2, r'not a program of roam, .*: it ended with status 5: [^\x00-\x1f\x7f]*$',
                script(place, 'random', 'head -c 4000 /dev/urandom >&2; exit 5'))
        refused(2, f'cannot start {place}/words: Exec format error$', script(place, 'words', '', first='no program\n'))
        refused(127, f'no program {place}$', place)
        os.chmod(sleeps, 0o644)
        refused(127, f'no program {sleeps}: it is not executable', sleeps)


def name_of(case):
    return case.args[0] if isinstance(case, functools.partial) else case.__name__


def run(case):
    try:
        case()
        return f'ok {name_of(case)}'
    except Wrong as wrong:
        return f'FAILED {name_of(case)}: {wrong}'


def main():
    cases = [value for name, value in sorted(globals().items()) if name.startswith('case_')]
    if sys.argv[4:] == ['splash']:
        cases = [functools.partial(splash, name) for name in SPLASH]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(run, cases))
    print('\n'.join(results))
    sys.exit(any(result.startswith('FAILED') for result in results))


if __name__ == '__main__':
    main()
