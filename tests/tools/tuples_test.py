#!/usr/bin/env python3
"""`roam compare tuples`: every program computes the same by every model; what is shown is what the
runs took; a wrong result is marked; bad options are refused.

usage: tuples_test.py ROAM APPS COMPARE_PY
"""
import json
import os
import stat
import subprocess

from comparing import APPS, BOTH, ONE, check, check_html, check_svg, compare, refused, run_cases

MODELS = {'sum': ['memory', 'tuples', 'xfunction', 'pages', 'reduce'],
          'pi': ['tuples', 'xfunction', 'pages', 'reduce'], 'sor': ['tuples', 'pages'],
          'tsp': ['tuples', 'pages'], 'producers': ['tuples', 'pages'],
          'pingpong': ['tuples', 'pages']}
# tuples-sum -pP -m MODEL: so many microseconds at 32 processes, a tenth at 2.
US = {'memory': 3000, 'tuples': 2000, 'xfunction': 1000, 'pages': 500, 'reduce': 250}
FAKE = '''#!/bin/sh
model=$3
case $model in
memory) us=3000 ;; tuples) us=2000 ;; xfunction) us=1000 ;; pages) us=500 ;; reduce) us=250 ;;
esac
[ "$1" = -p32 ] || us=$((us / 10))
cat >"$ROAM_STATS" <<end
{"nodes": 2, "protocol": "$ROAM_PROTOCOL", "counters": {"read_faults": [1, 2],
 "messages_sent": [20, 30], "bytes_sent": [1000000, 500000]}, "time_ms": {}}
end
[ "$model" = "$BROKEN" ] && verdict=FAILED
echo "tuples-sum: model $model n 1 p 1 total_us 9000000 region_us $us verified ${verdict:-ok}"
'''


def fake(place, *options, **how):
    path = os.path.join(place, 'tuples-sum')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(FAKE)
    os.chmod(path, stat.S_IRWXU)
    return compare('tuples', '--apps', place, '--kernels', 'sum', '--nodes', '2,32', '--repeat', '1',
                   *options, **how)


def numbers(place):
    rows = json.loads(fake(place, '--json', '-'))
    check(rows['protocol'] == ONE and
          rows['sum'] == {'nodes': 32, 'here': {'memory': 3, 'tuples': 2, 'xfunction': 1},
                          'paper': {'memory': 79, 'tuples': 48, 'xfunction': 1}}, f'{rows["sum"]}')
    check([(row['nodes'], row['model']) for row in rows['rows']] ==
          [(nodes, model) for nodes in (2, 32) for model in US], 'other rows')
    for row in rows['rows']:
        us = US[row['model']] / (1 if row['nodes'] == 32 else 10)
        check(row['region_us']['median'] == us and row['verified'], f'{row}')
        check(row['x'] == US[row['model']] / 2000 and row['messages'] == 50, f'{row}')
    out = fake(place)
    lines = [line.split() for line in out.splitlines() if ' memory ' in line]
    check(['tuples-sum', '32', 'memory', '3.00', '3.00-3.00', '1.50', '50', '1.50', '3', 'yes'] in
          lines, out)
    check('memory : tuples : xfunction: 3.0 : 2.0 : 1.0 here, 79 : 48 : 1 in' in out and
          '10 of 10 verified' in out, out)


def wrong_result(place):
    """Marked; the others stand, the ratios that need it are not there."""
    page = os.path.join(place, 'it.html')
    out = fake(place, '--html', page, status=1, env={'BROKEN': 'tuples'},
               err='^roam: compare: tuples-sum: tuples on 32: wrong result$')
    check(out.count('NO: wrong result') == 2 and '8 of 10 verified' in out and '79' not in out, out)
    check(check_html(page, 10).count('class="wrong') == 2, 'the page does not mark the rows')


def real_programs(place):
    """All six, by every model; the elements and the pages are used."""
    files = {kind: os.path.join(place, f'it.{kind}') for kind in ('json', 'svg', 'html')}
    count = 2 * sum(map(len, MODELS.values()))
    out = compare('tuples', '--nodes', '2,32', '--repeat', '1', '--json', files['json'], '--svg',
                  files['svg'], '--html', files['html'],
                  err=rf'^\[{count}/{count}\] tuples-pingpong: pages on 32$')
    check(f'{count} of {count} verified' in out, out)
    with open(files['json'], encoding='utf-8') as file:
        rows = json.load(file)['rows']
    check([(row['program'], row['nodes'], row['model']) for row in rows] ==
          [(f'tuples-{name}', nodes, model) for name, models in MODELS.items() for nodes in (2, 32)
           for model in models], 'other rows')
    for row in rows:
        told = f'{row["program"]} {row["model"]}: {row["messages"]} messages, {row["faults"]} faults'
        if row['model'] == 'pages':
            check(row['faults'] > 0, f'no pages: {told}')
        elif row['model'] != 'reduce':
            check(row['messages'] > row['nodes'] and row['faults'] < 20, f'no tuples: {told}')
    check(check_svg(files['svg'], ['axes_', 'legend_']) == 6, 'not a panel for each program')
    check(check_html(files['html'], count).startswith('<!DOCTYPE'), 'no page')


def bad_programs(_):
    """What the programs refuse, and that one of them notices a wrong result of its own."""
    for arguments, status in ((['-p', '1', '-m', 'tuples'], 2), (['-p', '65', '-m', 'tuples'], 2),
                              (['-m', 'nosuch'], 2), ([], 2), (['-m', 'tuples', '-n', '0'], 2),
                              (['-m', 'tuples', '-n', '9x'], 2), (['-m', 'tuples', 'x'], 2)):
        done = subprocess.run([os.path.join(APPS, 'tuples-pingpong'), *arguments], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(done.returncode == status and done.stdout == '' and 'usage:' in done.stderr,
              f'{arguments}: {done}')


def bad_options(place):
    refused(2, 'no program "tuples-nosuch" here; known: tuples-sum', 'tuples', '--kernels', 'nosuch')
    refused(2, '--protocols NAME', 'tuples', '--protocols', BOTH)
    refused(2, 'no protocol "nosuch"', 'tuples', '--protocols', 'nosuch')
    refused(2, 'prog: the programs are those', 'tuples', 'prog')
    refused(127, 'no programs tuples-sum, ', 'tuples', '--apps', place)
    for option in (['--run'], ['--sizes', 'small'], ['--placed'], ['--input', 'x']):
        refused(2, f'{option[0]}: not with tuples', 'tuples', *option)
        refused(2, f'{option[0]}: not with tuples', *option, 'tuples')


if __name__ == '__main__':
    run_cases(numbers, wrong_result, real_programs, bad_programs, bad_options)
