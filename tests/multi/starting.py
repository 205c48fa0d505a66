#!/usr/bin/env python3
"""Starting a job: CREATE, closed files, nodes that are absent, launchers that end early.

usage: starting.py [-k PART_OF_A_NAME] [GROUP]...
"""
import itertools
import os
import re
import resource
import signal
import subprocess
import tempfile
import time

from creating import all_read, created, early, either, fed, not_again, one_pi
from harness import (END_MAX, SLACK, Later, Wrong, expect, expect_end, few, launched, main, program, rest, run,
                     thin, those)
from shapes import ENGINES, KINDS, SIGNALLED, expect_env

STUBBORN = 'trap "" INT TERM; echo ready 0 $$; while :; do sleep 0.05; done'
BEFORE_KILL = 5.0  # STOP_S of tools/roam_run.h


TELLS = tuple(map(int, re.findall(r'\d+', os.uname().release)[:2])) >= (6, 15)  # how a stranger ended


def creator_dies():
    """Its forked nodes, which nothing watches yet, say so, one of them."""
    with tempfile.TemporaryFile(mode='w+') as err:
        subprocess.run([program('create'), 'dies', '3'], input='1', text=True, stdout=subprocess.DEVNULL,
                       stderr=err, check=False)
        end = time.monotonic() + END_MAX
        while time.monotonic() < end and os.fstat(err.fileno()).st_size == 0:
            time.sleep(0.02)
        time.sleep(0.3)
        err.seek(0)
        told = err.read()
    line = r'roam: node 0 \(pid \d+\) was killed by signal 9 \(Killed\) while it created nodes\n'
    if re.fullmatch(line, told) is None and (told != '' or TELLS):
        raise Wrong(f'{told!r}')


LONG = 200 << 20  # bytes: of files, more than a node's memory with the smallest heap
SOURCE = f'yes | head -c {LONG + (20 << 20)}'


def limited_input(*command):
    return run(['sh', '-c', f'{SOURCE} | exec "$0" "$@"', *launched(2, *command)],
               env={'ROAM_HEAP': '16M'}, limits={resource.RLIMIT_FSIZE: LONG})


def long_input():
    right = subprocess.run(['sh', '-c', f'{SOURCE} | cksum'], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    result = limited_input('cksum')
    if result.status != 0 or result.out != 2 * right:
        raise Wrong(f'status {result.status}: {result.out!r} {result.err!r}, right is {right!r}')


def kept_input():
    """One node reads all, the other one nothing."""
    with tempfile.TemporaryDirectory() as where:
        result = limited_input('sh', '-c', f'mkdir {where}/one 2> /dev/null && sleep 20 || cat > /dev/null')
        os.rmdir(f'{where}/one')
    if result.status != 1 or not result.err.startswith('roam: ') or \
            'cannot be kept: the limit of file sizes (ulimit -f) is too low' not in result.err:
        raise Wrong(f'status {result.status}: {result.err!r}')


def stubborn(number, twice):
    """Nodes that ignore a signal are killed: after a while, or at once at the second signal."""
    def act(first, _pids):
        os.kill(first, number)
        if twice:
            time.sleep(0.2)
            os.kill(first, number)
    result = expect(launched(2, 'sh', '-c', STUBBORN), SIGNALLED + number, wanted=2, act=act)
    least, most = (0, 1.5) if twice else (BEFORE_KILL, BEFORE_KILL + 2)
    if not least <= result.after <= most:
        raise Wrong(f'ended after {result.after:.1f} s')


def kind():
    """Nodes may take their time to end in order."""
    script = 'trap "sleep 1; exit 0" TERM; echo ready 0 $$; while :; do sleep 0.05; done'
    result = expect(launched(2, 'sh', '-c', script), wanted=2,
                    act=lambda first, _pids: os.kill(first, signal.SIGTERM))
    if not 1 <= result.after <= 4:
        raise Wrong(f'ended after {result.after:.1f} s')


def under_shell_launcher_killed():
    """A shell between launcher and node leaves no orphan either."""
    words = [program('deaths'), 'run', '3', '1', 'never', 'barrier']
    expect_end(launched(3, 'sh', '-c', ' '.join(words) + '; exit $?'), 3, -signal.SIGKILL, '',
               act=lambda first, pids: os.kill(first, signal.SIGKILL))


def absent(nodes, who, pause):
    """A node ends without having called roam_start, while the others wait for it."""
    script = (f'case $ROAM_BOOT in local:{who}:*) sleep {pause}; exit 0;; esac; '
              f'exec {program("hello")}')
    result = expect(launched(nodes, 'sh', '-c', script), 1,
                    rf'^roam: node {who} \(pid \d+\) exited with status 0 and never called '
                    r'roam_start(; node \d waited at its first synchronisation.*)?$')
    if result.seconds > END_MAX + SLACK + pause:
        raise Wrong(f'ended only after {result.seconds:.1f} s')


def many(start):
    """The largest number of nodes on one host starts in good time: of processors, which others use, too."""
    words = [program('wake'), '64']
    timed = ['bash', '-c', 'TIMEFORMAT="%U %S"; time "$@"', '-']
    result = expect(timed + (words if start == 'fork' else launched(64, *words)), out='woken at once',
                    err=r'^[\d.]+ [\d.]+$')
    seconds = sum(float(part) for part in result.err.split())
    if seconds > 4:
        raise Wrong(f'took {seconds:.1f} s of processors')


def create_cases():
    """Nodes of `roam run` that all execute main up to CREATE."""
    for way, nodes, env in (('all', 4, {}), ('each', 4, {}), ('all', 2, {'ROAM_PROTOCOL': KINDS['one writer']}),
                            ('all', 3, {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'encrypt'})):
        yield (f'CREATE {way} of {nodes}, run {" ".join(env.values())}', lambda *how: created(run(
            fed(launched(how[1], program('create'), *how[:2])), env=how[2]), how[1]), way, nodes, env)
    yield ('CREATE that nothing announced, run', lambda: created(run(
        fed(launched(4, program('create'), 'late', 4))), 4))
    yield ('CREATE too late, run', lambda: early(run(
        fed(launched(3, program('create'), 'early', 3)))))
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_ALLOC': 'own'}):
        yield (f'the first program, run {" ".join(env.values())}', lambda env_: one_pi(run(
            launched(4, program('example')), env=env_)), env)
    yield ('the first program on too few', expect, launched(3, program('example')), 1,
           '^roam: the program asks for 4 nodes, the launcher started 3$')
    yield ('the first program on one', expect, launched(1, program('example')), 1,
           '^roam: the program asks for 4 nodes, the launcher started 1$')
    for env in ({}, {'ROAM_PROTOCOL': KINDS['one writer']},
                {'ROAM_PROTOCOL': KINDS['twins'], 'ROAM_FAULT': 'sigsegv'},
                {'ROAM_PROTOCOL': KINDS['follows']}, {'ROAM_TRANSPORT': 'udp', 'ROAM_ONESIDED': '0'}):
        yield (f'no CREATE follows, run {" ".join(env.values())}', lambda env_: either(run(
            launched(4, program('either'), '4'), env=env_), 4), env)
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}):
        yield (f'CREATE after roam_start, run {" ".join(env.values())}', lambda env_: expect(
            launched(4, program('either'), '4', 'create'), out=r'\Athe sum is 406\n\Z', env=env_),
               env)
    for nodes in (1, 3):
        yield (f'CREATE of 4 after roam_start against {nodes}', expect,
               launched(nodes, program('stranger'), 'start', '4'), 1,
               f'^roam: the program asks for 4 nodes, the launcher started {nodes}$')
    yield ('CREATE again, run', lambda: not_again(run(
        fed(launched(3, program('create'), 'again', 3)))))
    yield ('the creator dies before the seal', creator_dies)
    yield ('input of all, run', lambda: all_read(launched(3, 'cksum'), 3, run))
    yield Later(('input beyond the limit of file sizes', long_input))
    yield Later(('input that cannot be kept', kept_input))
    yield ('input that nobody reads, and no end of it, run', expect,
           ['sh', '-c', 'yes | exec "$0" "$@"', *launched(3, 'true')])
    wrong = '^roam: the program asks for {} nodes, the launcher started {}$'
    for way, asked, nodes in (('all', 4, 2), ('each', 4, 2), ('each', 2, 4)):
        yield (f'CREATE {way} of {asked} against {nodes}', expect,
               fed(launched(nodes, program('create'), way, asked)), 1, wrong.format(asked, nodes))
    yield ('other allocations, run', expect, fed(launched(3, program('create'), 'uneven', 3)), 1,
           '^roam: node [12] has allocated other blocks before CREATE than node 0: ')
    for name, words in (('create', 'all 2'), ('hello', '')):
        yield (f'another option of one node, {name}', expect, fed(launched(
            2, 'sh', '-c', 'case $ROAM_BOOT in local:1:*) export ROAM_HOT=0;; esac; '
            f'exec {program(name)} {words}')), 1,
               '^roam: node 1 has another ROAM_HOT than node 0: set it once, for all nodes$')
    yield ('another program on one node', expect, fed(launched(
        2, 'sh', '-c', f'case $ROAM_BOOT in local:1:*) exec {program("hello")};; esac; '
        f'exec {program("locks")} run 2 10')), 1, '^roam: node 1 runs another program than node 0: ')


def closed_cases():
    """Programs started with each of the standard descriptors closed, or several."""
    ways = [{}, {'ROAM_FAULT': 'sigsegv', 'ROAM_STATS': '/dev/null'},
            {'ROAM_TRANSPORT': 'udp', 'ROAM_UDP': 'plain'},
            {'ROAM_TRANSPORT': 'udp', 'ROAM_FAULTY': 'drop=1%', 'ROAM_LOG': 'info'}]
    for number, which in enumerate(itertools.product((False, True), repeat=3)):
        shut = ''.join(how for how, yes in zip((' <&-', ' >&-', ' 2>&-'), which) if yes)
        env = ways[number % len(ways)]
        for start, words in (('fork', [program('closed'), '2']),
                             ('run', launched(2, 'sh', '-c', f'exec {program("closed")} 2{shut}')),
                             ('launcher', launched(2, program('closed'), '2'))):
            outer = ['sh', '-c', f'exec "$0" "$@"{shut if start != "run" else ""}', *words]
            # The program's output is not checked.
            yield (f'closed{shut}, {start} {" ".join(env.values())}', closed, outer, env)


def slip_cases():
    """What a program or its user did wrong is told in one line, which is right."""
    for start in ('fork', 'run'):
        for how, line in (('twice', r'warning: node 1: roam_thread_init by thread \d+, which is registered already, at '),
                          ('unregistered', r'warning: node 1: roam_thread_fini by thread \d+, which is not registered, at '),
                          ('fork', r'process \d+, a fork of node 1, has no shared heap, and touched it')):
            for engine in ENGINES if how == 'fork' else ['auto']:
                words = [program('slips'), how]
                yield (f'slip {how}, {start} {engine}', expect,
                       words if start == 'fork' else launched(2, *words), 0, '^roam: ' + line,
                       'it went on'), {'ROAM_FAULT': engine}
    for start in ('fork', 'run'):
        for how, line in (('fork_over', r'process \d+, a fork of node 0, has no shared heap, and touched it'),
                          ('fork_calls', r'process \d+, a fork of node 1, has no shared heap, and touched it'),
                          ('fork_within', r'process \d+, a fork of node 1, cannot go on with the call of roam')):
            words = [program('slips'), how]
            yield (f'slip {how}, {start}', expect, words if start == 'fork' else launched(2, *words), 0,
                   '^roam: ' + line, 'it went on'), {'ROAM_PROTOCOL': those('transactions')[0]} if how == 'fork_within' else {}
    yield ('slip fork_alone', expect, [program('slips'), 'fork_alone'], 0,
           r'^roam: process \d+, a fork of node 0, has no shared heap, and touched it', 'it went on'), {}
    for start in ('fork', 'run'):
        for how, status, line, out in (
                ('exits', 0, '', 'it went on'),
                ('exits_first', 1, '^roam: node 0: the function of node 0 ended by pthread_exit, which '
                                   'would end main', r'\A\Z')):
            words = [program('slips'), how]
            yield (f'slip {how}, {start}', expect, words if start == 'fork' else launched(2, *words),
                   status, line, out), {}
    for how, line in (('wrlock', 'roam_wrlock of .*, which this thread holds already'),
                      ('rdlock', 'roam_rdlock of .*, which this thread holds already'),
                      ('once', 'roam_once of .*, which this thread holds already'),
                      ('realloc', 'roam_realloc of .*, which is no block of roam_alloc, or freed already'),
                      ('tx', r'roam_tx under protocol \w+, which has no transactions .ROAM_PROTOCOL=\w+.')):
        yield (f'slip {how}', expect, [program('slips'), how], 0,
               rf'^roam: warning: node 1: {line}, at multi_slips\+0x[0-9a-f]+( \(\w+\+0x[0-9a-f]+\))?; later',
               'it went on'), {}
    for env in ({}, {'ROAM_ONESIDED': '0'}):
        for how, line in (('counts', 'threads arrived at barrier 0x[0-9a-f]+ for 2 threads in all, and for 3: all '
                                     'callers pass the same number$'),
                          ('registers', 'threads arrived at roam_barrier_all for 2 threads in all, and for 3: one '
                                        'was registered, or ended, between them$')):
            yield (f'slip {how}', expect, [program('slips'), how], 1, rf'^roam: node \d: {line}',
                   r'\A\Z'), env
    late = r'^roam: the heap was touched at 0x[0-9a-f]+, after roam_finish \(ROAM_STRICT=1\)$'
    for engine in ENGINES:
        for how, strict, status, line, out in (('late', '0', 0, '', 'it went on'), ('late_node', '0', 0, '', 'it went on'),
                                               ('late', '1', -signal.SIGSEGV, late, r'\A\Z')):
            yield (f'slip {how}, strict {strict}, {engine}', expect, [program('slips'), how], status, line,
                   out), {'ROAM_FAULT': engine, 'ROAM_STRICT': strict}
    yield ('slip ignores an option', expect, [program('slips'), 'ignores'], 1,
           '^roam: ROAM_PROTOCOL=nope: unknown', r'\A\Z'), {'ROAM_PROTOCOL': 'nope'}


def slip(env, command, status, err, out):
    expect(command, status, err, out, env=env)


def file_limit(start):
    words = [program('stranger'), 'start', '2']
    expect(words if start == 'fork' else launched(2, *words), 1,
           r'^roam: cannot make the shared memory of node 0: File too large \(raise the limit of '
           r'file sizes, ulimit -f\)$', limits={resource.RLIMIT_FSIZE: 1 << 20})


def others_key():
    """A key that another user may know or change."""
    with tempfile.TemporaryDirectory() as where:
        path = f'{where}/key'
        with open(path, 'w', encoding='utf-8') as file:
            file.write('0' * 64)
        os.chmod(path, 0o600)
        os.chown(path, 65534, -1)
        expect([program('roam'), 'past', 'serve', f'{where}/socket', '--key', path], 1,
               'the key in .* is not safe: it belongs to another user$')


def launcher_gone_early(turns):
    """Whenever the launcher is killed, no node blames the network, or anything else."""
    for turn in turns:
        with subprocess.Popen([program('roam'), 'run', '-n', '2', *(['-H', 'localhost'] * (turn % 4 > 0)),
                               program('hello')], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as launcher:
            time.sleep(0.001 * turn)
            launcher.kill()
            said = launcher.stderr.read()
        if said:
            raise Wrong(f'killed after {turn} ms: {said!r}')


def closed(command, env):
    result = run(command, env=env)
    if result.status != 0:
        raise Wrong(f'status {result.status}, {result.err[-300:]!r}')


def start_cases():
    yield from create_cases()
    yield from thin(5, closed_cases())
    for case, env in slip_cases():
        yield (case[0], slip, env, *case[2:])
    for start in ('fork', 'run'):
        yield (f'limit of file sizes, {start}', file_limit, start)
    if os.geteuid() == 0:
        yield ('a key of another user', others_key)
    yield ('launcher killed early', launcher_gone_early, range(0, 40, 3))
    yield Later(('launcher killed early', launcher_gone_early, range(40)))
    yield ('64 nodes, run', many, 'run')
    yield Later(('64 nodes, fork', many, 'fork'))
    for nodes, who, pause in ((2, 0, 0), (2, 1, 0), (2, 1, 1), (5, 3, 0), (5, 4, 1)):
        yield (f'absent {who} of {nodes}, {pause} s', absent, nodes, who, pause)
    yield ('no process joins', expect, launched(3, 'true'))
    yield ('no process joins, at different times', expect,
           launched(3, 'sh', '-c', 'case $ROAM_BOOT in local:1:*) sleep 0.5;; esac'))
    for number in (signal.SIGINT, signal.SIGTERM):
        yield (f'stubborn, {number.name} twice', stubborn, number, True)
    yield Later(('stubborn', stubborn, signal.SIGTERM, False))
    yield ('kind', kind)
    yield ('launcher killed, under a shell', under_shell_launcher_killed)
    for command, status in (([program('hello')], 1), (launched(2, program('hello')), 2)):
        yield (f'one line of {" ".join(command[1:2]) or "hello"}', expect_env, command, status,
               '^roam: ROAM_HEAP=1M: must be', None, {'ROAM_HEAP': '1M'})


GROUPS = {
    'start': lambda: few(start_cases()),
    'start_more': lambda: rest(start_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
