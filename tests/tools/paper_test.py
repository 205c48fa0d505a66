#!/usr/bin/env python3
"""`roam compare --paper`: what it shows is what the runs cost, beside what the paper says; the
orders follow from the numbers; parts of the time add up to the whole, or it says that they do not;
protocols that are missing are named; bad options are refused.

usage: paper_test.py ROAM APPS COMPARE_PY
"""
import json
import os
import re
import stat
import subprocess

from comparing import (APPS, COMPARE_PY, ROAM, check, check_html, check_svg, compare, refused,
                       run_cases)

KERNELS = ['jump-mm', 'jump-me', 'jump-rx', 'jump-lu', 'jump-bk', 'jump-sor']
# A build with the protocols of $PROTOCOLS.
FAKE_ROAM = '''#!/bin/sh
case $* in
'info protocols') for name in $PROTOCOLS; do echo "  $name  a protocol"; done ;;
'info engines') echo "  sigsegv  works" ;;
version) echo "roam 0" ;;
esac
'''
# "jump-me -p4 -n 256K": the bytes are in variables like jiajia1_jump_me; 3 % more in the second
# run of each kind, which leaves a file here in the first.
FAKE_KERNEL = '''#!/bin/sh
kernel=$(basename "$0" | tr - _)
eval "bytes=\\$${ROAM_PROTOCOL}_$kernel"
mark=$0.$ROAM_PROTOCOL.$1
if [ -e "$mark" ]; then bytes=$((bytes * 103 / 100)); fi
: >"$mark"
[ "$ROAM_ONESIDED" = 0 ] || bytes=1
echo "$*" >"$0.arguments"
cat >"$ROAM_STATS" <<end
{"nodes": 2, "protocol": "$ROAM_PROTOCOL", "counters": {
 "read_faults": [1, 2], "write_faults": [3, 4], "messages_sent": [20, 30], "bytes_sent": [$bytes, 0], "bytes_fetched": [0, 0],
 "home_moves": [0, 7]}, "time_ms": {}}
end
[ "$bytes" -lt 100 ] && verdict=FAILED
echo "jump-me: n 1 p 4 total_us 2000000 region_us 1000 verified ${verdict:-ok}"
'''
BYTES = {'jiajia1_jump_me': '2000000', 'jump_jump_me': '1000000', 'jiajia2_jump_me': '2000000',
         'jiajia1_jump_rx': '1000000', 'jump_jump_rx': '500000', 'jiajia2_jump_rx': '2000000'}

SPLASH = ['barnes', 'fft', 'lu', 'ocean', 'radix', 'water-nsquared', 'water-spatial']
PARTS = ('compute', 'page', 'lock', 'barrier', 'overhead', 'handler')
# "fft -p2 -m 10 -t": with the check 7 pages are touched, without it all else counts.  COMPUTE: the
# parts overlap.
FAKE_SPLASH = '''#!/bin/sh
echo "$* ${ROAM_STATS_AFTER:-0}" >>"$0.arguments"
claims=100 verdict=off
case $* in *-t) claims=3 verdict=${VERDICT:-ok} ;; esac
cat >"$ROAM_STATS" <<end
{"nodes": 2, "protocol": "$ROAM_PROTOCOL", "counters": {
 "claims": [$claims, 4], "messages_sent": [6, 4], "messages_under_64": [5, 0], "messages_under_128": [0, 1],
 "messages_under_256": [0, 1], "messages_under_512": [0, 1], "messages_under_1k": [0, 0],
 "messages_under_2k": [0, 0], "messages_under_4k": [0, 0], "messages_from_4k": [1, 1], "diffs": [2, 2], "diff_bytes": [30, 10],
 "diff_runs": [20, 10],
 "barriers_before": [${ROAM_STATS_AFTER:-0}, ${ROAM_STATS_AFTER:-0}]},
 "time_ms": {"wall": [100, 100], "compute": [${COMPUTE:-40}, 50], "page": [30, 10], "lock": [10, 10],
 "barrier": [10, 20], "overhead": [10, 10], "protect": [5, 5], "handler": [20, 30], "page_handlers": [10, 0],
 "lock_handlers": [0, 0], "barrier_handlers": [0, 10], "overhead_handlers": [0, 0]}}
end
echo "fft: n 1 p 2 total_us 2000 region_us 1000 verified $verdict"
'''


def executable(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)


def paper(place, *options, protocols='jiajia1 jump jiajia2 hlrc', status=0, err=None, env=None):
    """Output of a comparison of fake kernels in a fake build."""
    roam = os.path.join(place, 'roam')
    executable(roam, FAKE_ROAM)
    for kernel in ('jump-me', 'jump-rx'):
        executable(os.path.join(place, kernel), FAKE_KERNEL)
    return compare('--paper', 'jump', '--apps', place, '--kernels', 'me,rx', *options,
                   status=status, err=err, tool=('python3', '-B', COMPARE_PY, '--roam', roam),
                   env={**BYTES, 'PROTOCOLS': protocols, 'ROAM_ONESIDED': '1', **(env or {})})


def numbers(place):
    """The medians, their spread, the paper's time, and ours where each node has a CPU."""
    out = paper(place, '--sizes', 'small', '--nodes', '1,4', '--repeat', '2', '--json', '-')
    result = json.loads(out)
    check(result['paper']['year'] == 2000 and result['missing'] == [], f'{result["paper"]}')
    check(result['variables']['ROAM_ONESIDED'] == '0', f'{result["variables"]}')
    check([(row['program'], row['size'], row['nodes'], row['protocol']) for row in result['rows']] ==
          [(kernel, '256K', nodes, name) for kernel in ('jump-me', 'jump-rx') for nodes in (1, 4)
           for name in ('jiajia1', 'jump', 'jiajia2')], 'other rows')
    row = result['rows'][3]
    wanted = {'messages': 50, 'bytes': 2030000, 'faults': 10, 'home_moves': 7, 'paper_s': 0.777,
              'verified': True, 'runs': 2}
    check({key: row[key] for key in wanted} == wanted, f'{row}')
    check(row['spread']['bytes'] == [2000000, 2060000], f'{row["spread"]}')
    cpus = result['machine']['cpus']
    for row in result['rows']:
        timed = row['total_us'] is not None
        check(timed == (row['nodes'] <= cpus), f'{cpus} CPUs: {row}')
        check((row['paper_s'] is None) == (row['nodes'] == 1), f'{row}')
    with open(os.path.join(place, 'jump-me.arguments'), encoding='utf-8') as file:
        check(file.read() == '-p4 -n 256K -f -t\n', 'other arguments')


def orders(place):
    """They follow from the numbers here: as in the paper for me, not for rx."""
    out = paper(place, '--sizes', 'small', '--repeat', '1')
    me = re.search('^jump-me   jump/jiajia1 (.*); jump/jiajia2 (.*); jiajia2/jiajia1 (.*)$', out,
                   re.MULTILINE)
    rx = re.search('^jump-rx   jump/jiajia1 (.*); jump/jiajia2 (.*); jiajia2/jiajia1 (.*)$', out,
                   re.MULTILINE)
    check(me and rx, out)
    # The paper's ratios are the geometric means of 0.462/0.777, 0.494/0.909, 0.547/1.005 and so on.
    check(me.groups() == ('0.50 (0.56) holds', '0.50 (0.55) holds',
                          '1.00 (1.01) alike in the paper'), f'{me.groups()}')
    check(rx.groups() == ('0.50 (0.97) alike in the paper', '0.25 (1.11) differs',
                          '2.00 (0.87) differs'), f'{rx.groups()}')
    check(re.search(r'^jump-me +256K +16 +jump +50 +1\.000 +10 +7 +\S+ +0\.547 +yes$', out,
                    re.MULTILINE) and '18 of 18 verified' in out and 'ROAM_ONESIDED=0' in out, out)
    turned = paper(place, '--sizes', 'small', '--repeat', '1', env={'jiajia2_jump_rx': '400000'})
    check('jump/jiajia2 1.25 (1.11) holds; jiajia2/jiajia1 0.40 (0.87) holds' in turned, turned)


def missing(place):
    """Named, and no error; a row that is wrong is one."""
    out = paper(place, '--sizes', 'small', '--repeat', '1', protocols='jump hlrc')
    check(out.count('Not in this build: jiajia1, jiajia2.') == 2 and 'jump/jiajia' not in out and
          '6 of 6 verified' in out, out)
    out = paper(place, '--sizes', 'small', '--repeat', '1', protocols='hlrc jiajia1 jump',
                status=1, err='^roam: compare: jump-me 256K: jump on 16: wrong result$',
                env={'jump_jump_me': '90', 'jump_jump_rx': '100'})
    check('NO: wrong result' in out and '9 of 12 verified' in out and
          'jump/jiajia1 not measured' in out, out)
    paper(place, protocols='hlrc', status=1,
          err='^roam: compare: this build has none of .*: jiajia1, jump, jiajia2$')
    paper(place, '--protocols', 'jump,nosuch', status=2, err='no protocol "nosuch"; known: .*jump')


def real_kernels(place):
    """All six, under those of the protocols that the build has, and one that is not the paper's:
    pages go by messages, and are counted once."""
    listed = subprocess.run([ROAM, 'info', 'protocols'], check=True, stdout=subprocess.PIPE,
                            text=True).stdout
    protocols = ['hlrc'] + [name for name in ('jiajia1', 'jump', 'jiajia2')
                            if re.search(rf'^  {name} ', listed, re.MULTILINE)]
    count = len(KERNELS) * len(protocols)
    files = {kind: os.path.join(place, f'it.{kind}') for kind in ('json', 'svg', 'html')}
    out = compare('--paper', 'jump', '--protocols', ','.join(protocols), '--sizes', 'small',
                  '--nodes', '3', '--repeat', '1', '--cache-pages', '8', '--placed',
                  '--json', files['json'], '--svg', files['svg'], '--html', files['html'],
                  err=rf'^\[{count}/{count}\] jump-sor 512: {protocols[-1]} on 3$')
    check(f'{count} of {count} verified' in out and 'caches 8 pages' in out and 'its part' in out,
          out)
    with open(files['json'], encoding='utf-8') as file:
        result = json.load(file)
    check([row['program'] for row in result['rows'][::len(protocols)]] == KERNELS and
          result['placed'], 'other rows')
    for row in result['rows']:
        check(row['verified'] and row['messages'] > 0 and row['paper_s'] is None, f'{row}')
        check(row['counters']['bytes_fetched'] == 0, f'{row["protocol"]}: pages count twice')
    check(sum(row['counters']['evictions'] for row in result['rows']) > 100, 'no small cache')
    check(check_svg(files['svg'], ['axes_', 'legend_']) >= 12, 'too few panels')
    check('jump-lu' in check_html(files['html'], count), 'no table')


def splash(place, *options, **how):
    """Output of `--paper hlrc` with a fake fft in a fake build."""
    roam = os.path.join(place, 'roam')
    executable(roam, FAKE_ROAM)
    executable(os.path.join(place, 'fft'), FAKE_SPLASH)
    return compare('--paper', 'hlrc', '--apps', place, '--kernels', 'fft', '--nodes', '2', '--sizes',
                   'small', '--repeat', '2', *options, tool=('python3', '-B', COMPARE_PY, '--roam', roam),
                   env={'PROTOCOLS': 'hlrc ivy', **how.pop('env', {})}, **how)


def parts(place):
    """Handlers come off the waits in which they ran; the checked run counts only pages touched."""
    out = splash(place)
    # Of 200 ms, and 30 in handlers that no waiting thread ran.
    check(re.search(r'^fft +-m 10 +hlrc +2 +0\.230 +39\.1 +13\.0 +8\.7 +8\.7 +8\.7 +21\.7  yes$', out,
                    re.MULTILINE), out)
    check(re.search(r'^fft +-m 10 +hlrc +2 +10 +50\.0 +10\.0 +10\.0 +10\.0 +0\.0 +0\.0 +0\.0 +20\.0 +70\.0 '
                    r'+0\.0 +4 +10 +7\.5$', out, re.MULTILINE), out)
    check(re.search(r'^the paper +HLRC +8 +- +- +significant .* <= 5  figure 2$', out, re.MULTILINE) and
          'FFT, 2048x2048, 86 s sequential, 196 MB shared (table 1), speedup 5.8' in out and
          'add up to the whole in every row' in out and '1 of 1 verified' in out, out)
    with open(os.path.join(place, 'fft.arguments'), encoding='utf-8') as file:
        check(file.read() == '-p2 -m 10 -t 0\n-p2 -m 10 2\n-p2 -m 10 2\n', 'other runs')
    row = json.loads(splash(place, '--json', '-'))['rows'][0]
    check(row['pages_touched'] == 7 and row['verified'] and row['runs'] == 2 and
          row['paper']['shared_MB'] == 196 and row['small_percent'] == 70 and
          row['runs_per_diff'] == 7.5, f'{row}')
    out = splash(place, env={'COMPUTE': '60'})
    check('fft -m 10: hlrc on 2: the parts of its time are 108.7 % of the whole' in out and
          'add up' not in out, out)
    out = splash(place, status=1, env={'VERDICT': 'FAILED'},
                 err='^roam: compare: fft -m 10: hlrc on 2: wrong result$')
    check('0 of 1 verified' in out, out)


def real_splash(place):
    """All seven: parts and classes add up, to what the counters say."""
    files = {kind: os.path.join(place, f'it.{kind}') for kind in ('json', 'csv', 'svg', 'html')}
    out = compare('--paper', 'hlrc', '--sizes', 'small', '--nodes', '2', '--repeat', '1',
                  *(word for kind, path in files.items() for word in (f'--{kind}', path)),
                  err=r'^\[7/7\] water-spatial -n 64: hlrc on 2$')
    check('7 of 7 verified' in out and 'add up to the whole in every row' in out, out)
    with open(files['json'], encoding='utf-8') as file:
        rows = json.load(file)['rows']
    check([row['program'] for row in rows] == SPLASH, 'other rows')
    for row in rows:
        check(abs(sum(row['breakdown'][f'{part}_percent'] for part in PARTS) - 100) < 0.5,
              f'{row["program"]}: {row["breakdown"]}')
        # One handler in eight is timed: on a busy machine it may stand for all of a short wait.
        check(all(row['breakdown'][f'{part}_percent'] >= 0 for part in PARTS) and
              row['breakdown']['page_percent'] + row['breakdown']['handler_percent'] > 0,
              f'{row["program"]}: {row["breakdown"]}')
        check(abs(sum(row['message_sizes'].values()) - 100) < 1e-6 and row['pages_touched'] > 0,
              f'{row["program"]}: {row["message_sizes"]}')
        counters = row['counters']
        check(0 < counters['messages_from_4k'] * 4096 <= counters['bytes_sent'],
              f'{row["program"]}: {counters}')
    with open(files['csv'], encoding='utf-8') as file:
        head = file.readline()
    check('breakdown.handler_percent' in head and 'paper.shared_MB' in head, head)
    check(check_svg(files['svg'], ['axes_', 'legend_']) >= 7, 'too few panels')
    check('Barnes-Spatial, 262144 bodies' in check_html(files['html'], 7), 'nothing of the paper')


def bad_options(place):
    def wrong(status, err, *options):
        refused(status, err, '--paper', 'jump', '--protocols', 'hlrc', *options)
    wrong(2, 'no program "jump-nosuch" here; known: jump-mm, ', '--kernels', 'me,nosuch')
    wrong(2, '--sizes', '--sizes', 'huge')
    wrong(2, 'jump-me: the programs are those of the paper', os.path.join(APPS, 'jump-me'))
    wrong(127, 'no programs jump-mm, .* in .*nowhere', '--apps', os.path.join(place, 'nowhere'))
    wrong(1, 'cannot write', '--json', place)
    for option in (['--run'], ['--no-verify'], ['--input', 'x'], ['--verify', '-t'],
                   ['--verified', 'x'], ['--time', 'wall'], ['--after-barriers', '3']):
        wrong(2, f'{option[0]}: not with --paper', *option)
    for pages in ('0', 'x', '-1', '4294967296'):
        wrong(2, '--cache-pages', '--cache-pages', pages)
    refused(2, '--paper', '--paper', 'nosuch')
    refused(2, '--placed: not with --paper hlrc', '--paper', 'hlrc', '--placed')
    refused(2, 'no program "mm" here; known: barnes, fft', '--paper', 'hlrc', '--kernels', 'fft,mm')
    for option in (['--kernels', 'me'], ['--sizes', 'small'], ['--placed'], ['--apps', place]):
        refused(2, f'{option[0]}: not with a program', *option, os.path.join(APPS, 'jump-me'))


if __name__ == '__main__':
    run_cases(numbers, orders, missing, parts, real_kernels, real_splash, bad_options)
