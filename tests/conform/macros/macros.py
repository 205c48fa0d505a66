#!/usr/bin/env python3
"""Programs with macros as their users run them: under a launcher, under every kind of protocol, over
datagrams, with barriers along the tree; what they print, and what ROAM_STATS says of a marked region.

    macros.py complete|launched|survive|teams|tree|marks"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

CASES = ['input', 'locks', 'late', 'threads', 'rounds', 'tickets', 'output', 'pointers', 'sparse', 'bytes']
BODIES = ''.join(f'{i * 7 + 3}\n' for i in range(500))


def program(name):
    return os.environ['MACROS_' + name.upper()]


def programs():
    """The programs of one group of macros, over roam."""
    return sorted(key[len('MACROS_'):].lower() for key in os.environ
                  if key.startswith('MACROS_') and not key.endswith('_PTHREAD') and
                  key not in ('MACROS_ROAM', 'MACROS_SURVIVE'))


def run(command, wanted='', status=0, err=None, **env):
    """Runs a program and returns what it printed; `err`: what stderr must contain, else it must be
    empty."""
    done = subprocess.run(command, input=BODIES, env={**os.environ, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    said = done.stderr if err is None else '' if err in done.stderr else 'lacks ' + err
    if done.returncode != status or wanted not in done.stdout or said:
        told = ' '.join([f'{key}={value}' for key, value in env.items()] + command)
        sys.exit(f'{told}: status {done.returncode}\n{done.stdout}{done.stderr}{said}')
    return done.stdout


def launch(nodes, *command):
    return [program('roam'), 'run', '-n', str(nodes), *command]


HERE = os.path.dirname(os.path.abspath(__file__))
DEFINED = re.compile(r'^(?:roam_macro|roam_call|roam_ignored|roam_mark|define)\(<\|([A-Z][A-Z0-9_]*)', re.MULTILINE)


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def complete():
    """Both macro files have the same macros, and each is in a program, outside of its comments."""
    files = [os.path.join(HERE, '..', '..', '..', 'include', 'roam', name)
             for name in ('parmacs.m4', 'parmacs-pthread.m4')]
    over, natively = (set(DEFINED.findall(read(path))) for path in files)
    assert over == natively and len(over) > 90, over ^ natively
    text = ''.join(re.sub(r'/\*.*?\*/', '', read(path), flags=re.DOTALL)
                   for path in glob.glob(os.path.join(HERE, '*.[CH]')))
    unused = [name for name in sorted(over) if not re.search(rf'\b{name}\b', text)]
    assert not unused, unused


def launched():
    """Each generation of each program, whose processes a launcher has started."""
    for name in programs():
        for generation in '12':
            run(launch(4, program(name), '-p4', '-g' + generation), 'conforms')


def protocols():
    """The default protocol, and the first of each other model."""
    out = subprocess.run([program('roam'), 'info', 'protocols', '--json'], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    listed = json.loads(out)
    first = {}
    for each in listed['protocols']:
        first.setdefault(each['model'], each['name'])
    first['RC'] = listed['default']
    return list(first.values())


def outputs(out, err, procs):
    """Checks that every process's lines are there once each, and the file."""
    for i in range(procs):
        assert out.count(f'process {i} of {procs}\n') == 1, out
        assert err.count(f'error {i}\n') == 1, err


def survive_output(command, procs, **env):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'file')
        done = subprocess.run(command + ['output', str(procs), path], env={**os.environ, **env},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
                              check=True)
        outputs(done.stdout, done.stderr, procs)
        assert done.stdout.count('survive: output ok\n') == 1, done.stdout
        with open(path, encoding='utf-8') as file:
            assert file.read() == 'by ticket 0\n'


def survive_all(start, procs, cases=tuple(CASES), **env):
    for case in cases:
        if case == 'output':
            survive_output(start, procs, **env)
        else:
            run(start + [case, str(procs)], f'survive: {case} ok', **env)


def survive():
    forked = [program('survive')]
    for protocol in protocols():
        survive_all(forked, 3, ROAM_PROTOCOL=protocol)
    survive_all(forked, 1)
    survive_all(forked, 4, ROAM_TRANSPORT='udp')
    # Natively: malloc may refuse 30 GB.
    survive_all([program('survive_pthread')], 4, [case for case in CASES if case != 'sparse'])
    # A launcher's nodes cannot be created again.
    once = [case for case in CASES if case != 'rounds']
    survive_all(launch(3, *forked), 3, once)
    survive_all(launch(2, '-H', 'localhost:2', *forked), 2, once)


def teams():
    """Runs on nodes of two threads each, without the programs about a node's counts or private
    statics, which belong to both threads."""
    for name in programs():
        if name not in ('home', 'marks', 'statics'):
            run([program(name), '-p4'], 'conforms', ROAM_THREADS='2')
            run([program(name), '-p6'], 'conforms', ROAM_THREADS='2', ROAM_TRANSPORT='udp', ROAM_BARRIER='tree')
    survive_all([program('survive')], 4, ROAM_THREADS='2')


def departures(path, **env):
    """How many departures of barriers each node has sent, in a program of barriers."""
    run([program('barrier'), '-p6', '-g2'], 'conforms', ROAM_STATS=path, ROAM_TRANSPORT='udp', **env)
    with open(path, encoding='utf-8') as file:
        return json.load(file)['messages'].get('depart', [0] * 6)


def tree():
    """ROAM_BARRIER=tree reaches BARRIER of all processes: nodes 1 to 4 are the root's, node 5 is node
    1's, which sends it the departures; a program that registers threads is told."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        flat, along = departures(path), departures(path, ROAM_BARRIER='tree')
        assert flat[1] == 0, flat
        # 60 of all, of which each tells its children.
        assert along[1] >= 60 and along[0] >= 240 and sum(along[2:]) == 0, along
        assert along[0] < flat[0], (flat, along)
    for name in programs():
        run([program(name), '-p', '6'], 'conforms', ROAM_TRANSPORT='udp', ROAM_BARRIER='tree')
    survive_all([program('survive')], 6, ROAM_TRANSPORT='udp', ROAM_BARRIER='tree')
    survive_all(launch(6, program('survive')), 6, [case for case in CASES if case != 'rounds'],
                ROAM_TRANSPORT='udp', ROAM_BARRIER='tree')
    run([program('survive'), 'registers', '2'], '2 registered', ROAM_TRANSPORT='udp')
    run([program('survive'), 'registers', '2'], '0 registered', err='promised to register no threads',
        ROAM_TRANSPORT='udp', ROAM_BARRIER='tree')
    run([program('survive_pthread'), 'registers', '2'], '2 registered')


def region(path, start, **env):
    run(start + ['region', '3'], 'survive: region ok', ROAM_STATS=path, **env)
    with open(path, encoding='utf-8') as file:
        return json.load(file)['counters']['lock_acquires']


def marks():
    """What main does before its mark, 50 locks, is not counted; ROAM_STATS_AFTER also leaves out
    the first four locks of each node."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        for start in [program('survive')], launch(3, program('survive')):
            counted = region(path, start)
            assert counted == [10, 10, 10], counted
            counted = region(path, start, ROAM_STATS_AFTER='1')
            assert counted == [6, 6, 6], counted


GROUPS = {'complete': complete, 'launched': launched, 'survive': survive, 'teams': teams, 'tree': tree, 'marks': marks}

if __name__ == '__main__':
    GROUPS[sys.argv[1]]()
