#!/usr/bin/env python3
"""`roam compare`: its table, JSON, picture and page agree with each other and with the runs; a
wrong result, a failure and a hang each mark their row; bad arguments are refused with one line.

usage: compare_test.py ROAM APPS COMPARE_PY few | rest
"""
import csv
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

from comparing import (APPS, BOTH, COMPARE_PY, FLOOR, ONE, OTHER, ROAM, DIFF_LOGS, check, check_html,
                       check_svg, compare, refused, run_cases)

PROTOCOLS = [ONE, OTHER]
KERNEL = os.path.join(APPS, 'jump-me')
TIMES = {'median', 'least', 'most'}
ROW = {'protocol': str, 'nodes': int, 'runs': int, 'verified': bool, 'checked_by': str, 'error': (str, type(None)),
       'total_us': dict, 'region_us': dict, 'wall_us': dict, 'after_us': type(None), 'threads_us': (int, float),
       'speed': float, 'over_floor': type(None), 'faults': (int, float), 'fetches': (int, float), 'diffs': (int, float),
       'messages': (int, float), 'bytes': (int, float), 'home_moves': (int, float, type(None)),
       'counters': dict, 'spread': dict, 'notes': list}
HEAD = {'format', 'roam', 'when', 'machine', 'program', 'arguments', 'engine', 'variables',
        'repeat', 'time', 'rows', 'threads'}
# A program whose counters and result are known: "-p2 PROTOCOL right 5 7 wrong" takes 5 ms and
# moves 7 homes, and is right except under PROTOCOL.
FAKE = '''#!/bin/sh
kind=$3
[ "$2" = "$ROAM_PROTOCOL" ] && kind=$6
verdict=ok
case $kind in
wrong) verdict=FAILED ;;
off) verdict=off ;;
dies) echo "out of luck" >&2; exit 3 ;;
killed) echo "about to go" >&2; kill -9 $$ ;;
hangs) echo "waiting for nobody" >&2; exec sleep 100 ;;
mute) say=: ;;
other) ran=its-own ;;
noisy) echo "a warning" >&2 ;;
esac
[ "$kind" = bare ] || cat >"$ROAM_STATS" <<end
{"nodes": 2, "protocol": "${ran:-$ROAM_PROTOCOL}", "counters": {
 "read_faults": [1, 2], "write_faults": [3, 4], "fetches": [5, 5], "messages_sent": [1, 0], "bytes_sent": [1000000, 0], "bytes_fetched": [0, 500000],
 "home_moves": [0, $5], "barriers_before": [${ROAM_STATS_AFTER:-0}, ${7:-0}]},
 "time_ms": {"wall": [7.5, 9.25]}}
end
${say:-echo} "fake: p 2 total_us ${4}000 region_us 1000 verified $verdict"
'''


# ----------------------------------------------------------------------------- a real comparison

def check_json(result):
    check(set(result) == HEAD, f'keys {sorted(result)}')
    check(result['format'] == 'roam compare 1', result['format'])
    check(result['arguments'] == ['-n50000', '-t'], f'arguments {result["arguments"]}')
    check([(row['nodes'], row['protocol']) for row in result['rows']] ==
          [(nodes, name) for nodes in (2, 3) for name in PROTOCOLS], 'other rows')
    for row in result['rows']:
        check(set(row) == set(ROW), f'keys {sorted(set(row) ^ set(ROW))}')
        for key, kind in ROW.items():
            check(isinstance(row[key], kind), f'{key} is {row[key]!r}')
        for key in ('total_us', 'region_us', 'wall_us'):
            check(set(row[key]) == TIMES and row[key]['least'] <= row[key]['median'] <=
                  row[key]['most'], f'{key}: {row[key]}')
        check(row['total_us']['median'] <= row['wall_us']['median'], 'the whole is less')
        for key, (least, most) in row['spread'].items():
            check(least <= row[key] <= most, f'{key}: {row[key]} of {least} to {most}')
        check(row['verified'] and row['error'] is None and row['runs'] == 2, f'{row}')
        check(row['faults'] > 0 and row['bytes'] > 50000, f'{row["protocol"]} costs nothing')
        check(abs(row['speed'] * row['total_us']['median'] / row['threads_us'] - 1) < 1e-6, 'speed')


def check_table(out, result):
    lines = [line.split() for line in out.splitlines() if line.split(' ')[0] in PROTOCOLS]
    check(len(lines) == 4 and '4 of 4 verified' in out, out)
    for line, row in zip(lines, result['rows']):
        check(line[:2] == [row['protocol'], str(row['nodes'])] and line[-1] == 'yes', f'{line}')
        check(line[2] == f'{row["total_us"]["median"] / 1e3:.1f}', f'time {line}')
        us = row['total_us']
        check(line[3] == f'{us["least"] / 1e3:.1f}-{us["most"] / 1e3:.1f}', f'from-to {line}')
        check(line[6] == f'{row["faults"]:.0f}', f'faults {line}')


def check_csv(path, result):
    """The rows of the JSON, each number in a cell of its own."""
    with open(path, encoding='utf-8', newline='') as file:
        rows = list(csv.DictReader(file))
    check(len(rows) == len(result['rows']), f'{len(rows)} rows')
    for cells, row in zip(rows, result['rows']):
        wanted = {'program': 'jump-me -n50000 -t', 'verified': 'true', 'checked_by': 'output', 'error': '',
                  **{name: str(row[name]) for name in ('protocol', 'nodes', 'runs', 'speed', 'faults')},
                  'total_us': str(row['total_us']['median']),
                  'total_us_most': str(row['total_us']['most']), 'after_us_least': '',
                  'fetches_least': str(row['spread']['fetches'][0]),
                  **{f'counters.{name}': str(count) for name, count in row['counters'].items()}}
        got = {name: cells.get(name) for name in wanted}
        check(got == wanted, f'{got} but {wanted}')


def real_comparison(place):
    files = {kind: os.path.join(place, f'it.{kind}') for kind in ('json', 'csv', 'svg', 'html')}
    out = compare('--protocols', ','.join(PROTOCOLS), '--nodes', '2,3', '--repeat', '2',
                  '--json', files['json'], '--csv', files['csv'], '--svg', files['svg'], '--html', files['html'],
                  '--', KERNEL, '-n50000', err=rf'^\[12/12\] {OTHER} on 3$')
    with open(files['json'], encoding='utf-8') as file:
        result = json.load(file)
    check_json(result)
    check_table(out, result)
    check_csv(files['csv'], result)
    check(check_svg(files['svg'], ['axes_', 'legend_']) >= 5, 'too few panels')
    check(ONE in check_html(files['html'], 4), 'no table')


def floor(place):
    """Where all nodes have one heap nothing is brought, and the others are compared with that; it is
    first of all, and no column if it is not among those asked for (real_comparison)."""
    path = os.path.join(place, 'it.json')
    out = compare('--protocols', f'{ONE},{FLOOR}', '--nodes', '2,3', '--repeat', '1', '--json', path,
                  '--', KERNEL, '-n50000')
    with open(path, encoding='utf-8') as file:
        rows = {(row['protocol'], row['nodes']): row for row in json.load(file)['rows']}
    heading = out.splitlines()[2].split()
    check(heading.count('floor') == 1 and f'of {FLOOR},' in ' '.join(out.split()).split('floor: ')[1], out)
    for (name, nodes), row in rows.items():
        least = rows[FLOOR, nodes]['total_us']['median']
        check(abs(row['over_floor'] * least / row['total_us']['median'] - 1) < 1e-6, f'{row}')
        check(re.search(rf'^{name} +{nodes} .* {row["over_floor"]:.2f}x ', out, re.M), out)
        check((name == FLOOR) == (row['faults'] == row['fetches'] == row['diffs'] == 0), f'{row}')
    check(len(rows) == 4, out)


def bytes_once(_):
    """A page that comes by message is counted as sent, one that is copied as fetched: not both."""
    for onesided in ('0', '1'):
        out = compare('--nodes', '2', '--repeat', '1', '--json', '-', '--verify', '-t', KERNEL,
                      '-n50000', '-f', env={'ROAM_ONESIDED': onesided})
        result = json.loads(out)
        check(result['rows'][0]['protocol'] == FLOOR, 'the floor is not the first')
        check(result['variables'] == {'ROAM_ONESIDED': onesided}, f'{result["variables"]}')
        for row in result['rows']:
            pages = 4096 * row['counters']['fetches']
            fetched, sent = row['counters']['bytes_fetched'], row['counters']['bytes_sent']
            told = f'{row["protocol"]}: {pages} bytes of pages, {fetched} fetched, {sent} sent'
            if row['protocol'] == FLOOR:
                check(pages == fetched == 0, told)
                continue
            check(pages > 0 and fetched + sent >= pages, told)
            # By messages; or else either way, but not both.  What the creator had put into a page
            # comes to the node that claims it, whichever is first, and is no fetch.
            brought = 4096 * row['counters']['claims']
            check(fetched == 0 if onesided == '0' else fetched <= brought or sent < pages, told)


def after_barriers(_):
    """The whole and what comes after three barriers are told apart, barriers and bytes by number."""
    command = ['--nodes', '2,3', '--repeat', '1', '--json', '-', '--protocols', f'{ONE},{DIFF_LOGS}']
    sor = ['--', os.path.join(APPS, 'jump-sor'), '-n256', '-f', '-t']
    whole, rest = (json.loads(compare(*command, *options, *sor, env={'ROAM_ONESIDED': '0'}))
                   for options in ([], ['--after-barriers', '3']))
    for row, later in zip(whole['rows'], rest['rows']):
        told = f'{row["counters"]} {later["counters"]}'
        check(later['counters']['barriers_before'] == 3 * row['nodes'] and
              row['counters']['barriers_before'] == 0, told)
        check(later['counters']['barriers'] ==
              row['counters']['barriers'] - 3 * row['nodes'], told)
        check(later['counters']['claims'] == 0 < row['counters']['claims'] and
              0 < later['bytes'] < row['bytes'], told)
        check(0 < later['after_us']['median'] < later['wall_us']['median'] and
              row['after_us'] is None and later['threads_us'] is None, f'{later}')
    check(rest['time'] == 'after' and rest['variables']['ROAM_STATS_AFTER'] == '3', 'other time')
    compare('--nodes', '2', '--protocols', ONE, '--after-barriers', '1000', *sor, status=1,
            err=f'{ONE} on 2: it ends before it has left 1000 full barriers')


def launched(_):
    out = compare('--protocols', ONE, '--nodes', '3', '--repeat', '1', '--no-verify', '--run',
                  os.path.join(APPS, 'hello'))
    check('status 0' in out and '1 of 1 ended with status 0' in out and 'threads' not in out, out)


# ------------------------------------------------------------------------------ known programs

def fake(place, name, *first, protocols=ONE, status=0, err=None, options=()):
    """A comparison of the program above, and its JSON."""
    path = os.path.join(place, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(FAKE)
    os.chmod(path, stat.S_IRWXU)
    out = compare('--protocols', protocols, '--nodes', '2', '--repeat', '1', '--json', '-',
                  *options, path, *first, status=status, err=err)
    return json.loads(out)['rows']


def numbers(place):
    row, = fake(place, 'numbers', '-', 'right', '5', '7')
    wanted = {'faults': 10, 'fetches': 10, 'diffs': None, 'messages': 1, 'bytes': 1500000,
              'home_moves': 7, 'verified': True}
    got = {key: row[key] for key in wanted}
    check(got == wanted and row['total_us']['median'] == 5000, f'{row}')
    row, = fake(place, 'later', '-', 'right', '5', '7', '', '3', options=('--after-barriers', '3'))
    check(row['after_us']['median'] == 9250, f'{row}')
    fake(place, 'sooner', '-', 'right', '5', '7', '', '0', options=('--after-barriers', '3'), status=1,
         err=f'{ONE} on 2: it ends before it has left 3 full barriers')
    row, = fake(place, 'noisy', '-', 'noisy', '5', '7')
    check(row['verified'] and row['notes'] == ['a warning'], f'{row}')
    out = compare('--protocols', ONE, '--nodes', '2', '--repeat', '1', '--time', 'region',
                  os.path.join(place, 'noisy'), '-', 'noisy', '5', '7')
    check(re.search(r'^protocol .*MB +home moves +verified$', out, re.MULTILINE) and
          re.search(rf'^{ONE} +2 +1\.0 +10 +10 +1 +1\.50 +7 +yes$', out, re.MULTILINE) and
          f'{ONE} on 2: a warning' in out, out)


def one_row_wrong(place):
    """Only what one protocol does is wrong: its row is marked, the other one stands."""
    rows = fake(place, 'one', OTHER, 'right', '5', '7', 'wrong', protocols=BOTH,
                status=1, err=rf'^roam: compare: {OTHER} on 2: wrong result$')
    check([row['verified'] for row in rows] == [True, False] and
          rows[1]['error'] == 'wrong result' and rows[1]['total_us'] is None, f'{rows}')


def page_of_wrong(place):
    """The page marks the row, too."""
    fake(place, 'one', OTHER, 'right', '5', '7', 'wrong', protocols=BOTH, status=1, err='wrong result')
    page = os.path.join(place, 'wrong.html')
    out = compare('--protocols', BOTH, '--nodes', '2', '--repeat', '2', '--html', page,
                  os.path.join(place, 'one'), OTHER, 'right', '5', '7', 'wrong', status=1)
    check('NO: wrong result' in out and '1 of 2 verified' in out, out)
    check(check_html(page, 2).count('class="wrong"') == 1, 'the page does not mark the row')


def bad_runs(place):
    for kind, line in (('off', 'not verified: give it its option'), ('dies', 'status 3: out of luck'),
                       ('killed', 'killed by signal 9: about to go'),
                       ('other', 'it ran under its-own'),
                       ('bare', 'no counters: does it run over roam')):
        row, = fake(place, kind, '-', kind, '5', '7', status=1, err=line)
        check(line in row['error'] and not row['verified'], f'{row}')
    row, = fake(place, 'hangs', '-', 'hangs', '5', '7', status=1, options=('--timeout', '0.5'),
                err='hung: not at its end after 0.5 s.*waiting for nobody')
    check('hung' in row['error'], f'{row}')


def silent(place):
    """A program that says nothing of its result is right by its status, and the table says so; not
    where it does say it in other runs, or was asked to."""
    row, = fake(place, 'mute', '-', 'mute', '5', '7')
    check(row['checked_by'] == 'status' and not row['verified'] and row['error'] is None, f'{row}')
    mute = ['--protocols', BOTH, '--nodes', '2', '--repeat', '1']
    path = os.path.join(place, 'mute')
    out = compare(*mute, '--', path, '-', 'mute', '5', '7')
    check(re.search(rf'^{OTHER} +2 .* status 0$', out, re.MULTILINE) and
          '2 of 2 ended with status 0: no result was checked' in out and
          'its results were not checked' in ' '.join(out.split()), out)
    rows = list(csv.reader(compare(*mute, '--csv', '-', '--', path, '-', 'mute', '5', '7').splitlines()))
    at = rows[0].index('checked_by')
    check(len(rows) == 3 and rows[2][at - 1:at + 2] == ['false', 'status', ''], f'{rows}')
    line = 'has no "verified ok" '
    compare(*mute, '--', path, OTHER, 'right', '5', '7', 'mute', status=1, err=f'{OTHER} on 2: .*' + line)
    compare(*mute, '--', path, ONE, 'right', '5', '7', 'mute', status=1, err=f'{ONE} on 2: .*' + line)
    compare(*mute, '--verify', '-t', '--', path, '-', 'mute', '5', '7', status=1, err=line)
    compare(*mute, '--verified', 'verified ok', '--', path, '-', 'mute', '5', '7', status=1, err=line)
    compare(*mute, '--', path, OTHER, 'mute', '5', '7', 'dies', status=1,
            err=f'{OTHER} on 2: status 3: out of luck')


def real_hang(place):
    """What the other nodes waited for is shown.  The size is one that takes far longer."""
    path = os.path.join(place, 'jump-lu')
    os.symlink(os.path.join(APPS, 'jump-lu'), path)
    compare('--protocols', ONE, '--nodes', '3', '--repeat', '1', '--timeout', '1', '--', path,
            '-n', '2500', status=1, err=f'{ONE} on 3: hung: .*roam: node 2 .*killed')


def interrupted(place):
    """An end of the comparison ends the program under way, too."""
    path, told = os.path.join(place, 'sleeper'), os.path.join(place, 'pid')
    for number, at_once in [(number, at_once) for at_once in (False, True, True, True)
                            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]:
        with open(path, 'w', encoding='utf-8') as file:  # it may end the comparison itself
            file.write(f'#!/bin/sh\necho $$ >{told}.new\nmv {told}.new {told}\n'
                       f'{f"kill -{number:d} $PPID" if at_once else ":"}\nexec sleep 100\n')
        os.chmod(path, stat.S_IRWXU)
        with subprocess.Popen([ROAM, 'compare', '--protocols', ONE, path],
                              stderr=subprocess.PIPE, start_new_session=True) as process:
            while not os.path.exists(told):
                check(at_once or process.poll() is None, 'ended by itself')
                time.sleep(0.01)
            if not at_once:
                process.send_signal(number)
            status = process.wait(30)
        with open(told, encoding='utf-8') as file:
            pid = int(file.read())
        os.unlink(told)
        check(status == 128 + number, f'signal {number}: status {status}')
        check(not os.path.exists(f'/proc/{pid}'), f'signal {number}: the program goes on')


def places_of_nodes(place):
    """{nodes} in an argument and in the name of the input, and then no -p; arguments untouched."""
    path = os.path.join(place, 'show')
    with open(path, 'w', encoding='utf-8') as file:
        file.write('#!/bin/sh\necho "{\\"counters\\": {}}" >"$ROAM_STATS"\n'
                   'echo "verified ok"\n[ "$*" = "x3y -- --nodes" ] && grep -q three\n')
    os.chmod(path, stat.S_IRWXU)
    with open(os.path.join(place, 'input.3'), 'w', encoding='utf-8') as file:
        file.write('three\n')
    compare('--protocols', ONE, '--nodes', '3', '--repeat', '1', '--input',
            os.path.join(place, 'input.{nodes}'), '--', path, 'x{nodes}y', '--', '--nodes')
    refused(1, 'cannot read .*input.4', '--nodes', '3,4', '--input',
            os.path.join(place, 'input.{nodes}'), path, 'x{nodes}y')


def bad_arguments(place):
    refused(2, f'no protocol "nosuch"; known: .*{ONE}', '--protocols', f'{ONE},nosuch', KERNEL)
    refused(2, 'no fault engine "nosuch"; known: auto, ', '--engine', 'nosuch', KERNEL)
    refused(127, 'no program .*nosuch', os.path.join(place, 'nosuch'))
    refused(127, 'is it ./jump-me', 'jump-me', folder=APPS)
    refused(2, 'PROGRAM missing')
    for option, value in (('--nodes', '2,x'), ('--nodes', '65'), ('--nodes', '0'),
                          ('--repeat', '0'), ('--timeout', '-1'), ('--verified', '('),
                          ('--svg', '-'), ('--time', 'day'), ('--nosuch', '1')):
        refused(2, option, option, value, KERNEL)
    for value in ('0', 'x', '1000001', '-1'):
        refused(2, '--after-barriers.*number from 1', '--after-barriers', value, KERNEL)
    refused(2, '--time: not with --after-barriers', '--after-barriers', '3', '--time', 'wall',
            KERNEL)
    refused(1, 'cannot write .*it.svg', '--svg', os.path.join(place, 'none', 'it.svg'), KERNEL)
    for option in ('--json', '--csv'):
        refused(1, 'cannot write', option, place, KERNEL)
    refused(2, 'one of them', '--json', '-', '--csv', '-', KERNEL)


def without_matplotlib(place):
    """-S: without the packages of the distribution."""
    for option in ('--svg', '--html'):
        refused(1, 'matplotlib.*apt-get install python3-matplotlib', option,
                os.path.join(place, 'it'), KERNEL,
                tool=('/usr/bin/python3', '-S', '-B', COMPARE_PY, '--roam', ROAM))


FEW = (real_comparison, launched, numbers, one_row_wrong, bad_runs, places_of_nodes, bad_arguments)
REST = (page_of_wrong, floor, bytes_once, after_barriers, silent, real_hang, interrupted, without_matplotlib)

if __name__ == '__main__':
    run_cases(*({'few': FEW, 'rest': REST}[sys.argv[4]]))
