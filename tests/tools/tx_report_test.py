#!/usr/bin/env python3
"""`roam tx report` names the pages for which transactions began anew, with what lies there, and tells those lost
in vain; bad programs and arguments get one clear line.

usage: tx_report_test.py ROAM CLASH APPS
"""
import json
import os
import re
import subprocess
import sys

ROAM, CLASH, APPS = map(os.path.abspath, sys.argv[1:])
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'clash.c'), encoding='utf-8') as source:
    LINES = source.read().splitlines()


def tx(*arguments, status=0, **env):
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run([ROAM, 'tx', *arguments], env={**kept, **env}, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100, check=False)
    assert done.returncode == status and 'Traceback' not in done.stderr, f'{arguments}: {done}'
    return done.stdout, done.stderr


def report(*arguments, **env):
    return json.loads(tx('report', '--json', '-', *arguments, **env)[0])


def line(text):
    """clash.c:LINE of the only line with this text, or of the next one."""
    found = [number for number, line in enumerate(LINES, 1) if text in line]
    assert len(found) == 1, text
    return rf'clash\.c:({found[0]}|{found[0] + 1})'


def case_hot():
    """The page that all write, of all nodes, before others, as text and as JSON."""
    out, _ = tx('report', '--nodes', '2', CLASH, 'hot')
    assert re.search(r'-p2 hot: reads \w+, validation forward, commit by token\n\d+ commits, [1-9]\d* aborts, ', out), out
    assert re.search(r'^[1-9]\d* +\d+ +0,1  hot \+0x0 to \+0xfff, of 16384 bytes$', out.splitlines()[3]), out
    said = report('--nodes', '2', '--run', CLASH, 'hot', ROAM_TX_READS='exact', ROAM_TX_VALIDATE='backward',
                  ROAM_TX_COMMIT='pages')
    assert (said['format'], said['style'], said['reads'], said['validate'], said['commit']) == \
        ('roam tx 1', 'launched', 'exact', 'backward', 'pages'), said
    assert said['counters']['tx_commits'] == 2 * 3000, said
    first = said['pages'][0]
    assert first['nodes'] == [0, 1] and first['in_vain'] == 0, said
    assert first['lies'] == [{'name': 'hot', 'first': 0, 'last': 4095, 'bytes': 16384}], said
    assert said['counters']['tx_aborts'] <= sum(page['attempts'] for page in said['pages']), said


def case_vain():
    """What was lost without being touched, by the line that allocated it; less often if it is closed, for it may be lost
    while it is being closed."""
    said = report('--nodes', '2', CLASH, 'vain', ROAM_TX_READS='resident')
    worst = [page for page in said['pages'] if page['in_vain'] > 0]
    assert len(worst) == 1 and worst[0]['nodes'] == [0] and worst[0]['closed'] == [], said
    assert worst[0]['in_vain'] <= worst[0]['attempts'] and said['counters']['tx_false'] > 0, said
    assert re.fullmatch('block of ' + line('beside = roam_alloc('), worst[0]['lies'][0]['name']), said
    exact = report('--nodes', '2', CLASH, 'vain', ROAM_TX_READS='exact')
    assert all(page['closed'] == page['nodes'] for page in exact['pages']), exact
    assert exact['counters']['tx_false'] < said['counters']['tx_false'], (exact, said)


def case_quiet():
    """Without conflicts there is nothing to show."""
    out, _ = tx('report', '--nodes', '2', CLASH, 'quiet')
    assert out.endswith('with the token\nno attempt lost a page\n'), out


def case_refused():
    for status, pattern, *words in [
            (2, 'report missing'), (2, 'show: the command is report', 'show', CLASH),
            (2, 'PROGRAM missing', 'report'), (2, '.*--nodes: one number', 'report', '--nodes', '1', CLASH, 'hot'),
            (2, 'option --nothing', 'report', '--nothing', CLASH),
            (127, 'no program ./nothing', 'report', './nothing'),
            (2, 'the program has run no transaction', 'report', '--nodes', '2', CLASH, 'none'),
            (2, 'the program has run no transaction', 'report', '--nodes', '2', os.path.join(APPS, 'hello')),
            (1, r'status 3: .*; `roam doctor` says more', 'report', '--nodes', '2', CLASH, 'fails'),
            (2, 'not a program of roam', 'report', '/bin/true')]:
        out, err = tx(*words, status=status)
        assert out == '' and re.search('^roam: tx: ' + pattern, err.rstrip('\n').rsplit('\n', 1)[-1]), (words, err)


if __name__ == '__main__':
    for case in (case_hot, case_vain, case_quiet, case_refused):
        case()
        print(f'ok {case.__name__}')
