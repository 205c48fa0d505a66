#!/usr/bin/env python3
"""Jobs of several shapes: threads, rounds, teams, stacks, blocks of the heap, locks, tuples.

usage: teams.py [-k PART_OF_A_NAME] [GROUP]...
"""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

from harness import Later, Wrong, expect, few, launched, main, program, rest, right, run, started, thin, those
from shapes import DEFAULT, ENGINES, KINDS, ONE_HEAP, PROTOCOLS, expect_env, frees, with_option

PAGE = 4096


def matrix(seeds):
    """Each protocol with each seed, and each engine in turn: two seeds cover all pairs."""
    for seed in seeds:
        for at, protocol in enumerate(PROTOCOLS):
            engine = ENGINES[(at + seed) % len(ENGINES)]
            env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': engine, 'ROAM_CHAOS': str(seed)}
            yield (f'{protocol} {engine} chaos {seed}', env)


def thread_cases():
    for text, env in matrix([0, 1, 2]):
        for nodes, threads, start, when in ((2, 2, 'fork', 'settled'), (3, 3, 'fork', 'at-once'),
                                            (3, 2, 'run', 'settled'), (2, 3, 'run', 'at-once')):
            yield (f'threads {start} {nodes} x {threads} {when} {text}', right,
                   started(start, 'threads', start, nodes, threads, 10, when), 'counted right', env)
    for text, env in matrix([0, 1]):
        if env['ROAM_PROTOCOL'] in those(writers='one'):
            yield f'beside {text}', right, [program('beside'), '300'], 'nothing lost', env


def seen_through():
    """If a debugger stops within a fault, it shows the program's frames, too."""
    shown = run(['gdb', '-nx', '-batch', '-ex', 'set breakpoint pending on',
                 '-ex', 'handle SIGBUS SIGSEGV SIGALRM nostop noprint pass',
                 '-ex', 'break roami_page_done', '-ex', 'run', '-ex', 'bt',
                 '--args', program('stacks'), '2', '1']).out
    frames = re.findall(r'^#\d+ .*?(roami_fault|signals_handler|work) \(', shown, re.M)
    if frames[:1] != ['roami_fault'] or frames[-2:] != ['signals_handler', 'work']:
        raise Wrong(f'frames {frames}: {shown[-3000:]!r}')


def ended_in_fault(number):
    """A node all of whose threads are in endless faults takes the signals that end it."""
    def act(_first, pids):
        time.sleep(.3)
        os.kill(pids[0], number)

    result = run([program('cancel'), 'stopped', '3'], wanted=3, act=act,
                 env={'ROAM_TRANSPORT': 'udp', 'ROAM_DEADLINE': '0'})
    if result.status != -number or result.after > 3:
        raise Wrong(f'status {result.status} after {result.after:.1f} s: {result.err!r}')


def ends(turns, transport):
    """A handler calls exit at any moment: the job ends, in order if the thread had no lock."""
    for _ in range(turns):
        result = run([program('cut'), 'ends', '3'], env={'ROAM_TRANSPORT': transport})
        named = re.search(r'^roam: node \d: ended holding lock ', result.err, re.M)
        if (result.status != 0) != (named is not None):
            raise Wrong(f'status {result.status}: {result.err!r}')


def small_stack_cases():
    for protocol in list(KINDS.values())[:-1]:
        for transport in ('shm', 'udp'):
            yield (f'stacks {protocol} {transport}', right, [program('stacks'), '3', '5'],
                   'stacks right', {'ROAM_PROTOCOL': protocol, 'ROAM_TRANSPORT': transport})


def cut_cases():
    for what, sizes, transports in (('locks', '12', ('shm', 'udp')), ('jumps', '23', ('shm', 'udp')),
                                    ('values', '2', ('udp',)), ('reads', '2', ('shm',))):
        for nodes in sizes:
            for transport in transports:
                # A thread that is cancelled there does not know whether it has the lock.
                yield (f'cut {what} {nodes} {transport}', right, [program('cut'), what, nodes], 'cut right',
                       {'ROAM_TRANSPORT': transport, 'ROAM_LOG': 'error' if what == 'locks' else 'warn'})


def stack_cases():
    """Faults on small stacks; with few pages, so that faults have to make room."""
    yield from thin(3, small_stack_cases())
    lazy = KINDS['twins']
    yield (f'stacks {lazy} udp sigsegv, few pages', right, [program('stacks'), '3', '5'], 'stacks right',
           {'ROAM_PROTOCOL': lazy, 'ROAM_TRANSPORT': 'udp', 'ROAM_FAULT': 'sigsegv',
            'ROAM_CACHE_PAGES': '4'})
    for what in ('deferred', 'asynchronous', 'longjmp'):
        for transport in ('shm', 'udp'):
            yield (f'cancel {what} {transport}', right, [program('cancel'), what, '3'], 'loads right',
                   {'ROAM_TRANSPORT': transport})
    for number in (signal.SIGINT, signal.SIGTERM):
        yield f'{number.name} in a fault', ended_in_fault, number
    for what in ('deferred', 'asynchronous', 'longjmp', 'ended'):
        for transport in ('shm', 'udp'):
            yield (f'calls {what} {transport}', right, [program('calls'), what, '3'], 'calls right',
                   {'ROAM_TRANSPORT': transport})
    yield from thin(3, cut_cases())
    for transport in ('shm', 'udp'):
        yield f'cut ends {transport}', ends, 6, transport
        yield Later((f'cut ends {transport}', ends, 30, transport))
    for what, text in (('longjmp', 'roam_touch is called by a thread that is within roam_barrier: a '
                                   'signal handler has jumped out of that, or calls roam'),
                       ('ended', 'a thread has ended within roam_barrier: ')):
        yield (f'calls {what}, early', expect_env, [program('calls'), what, '2'], 1,
               rf'^roam: node \d: {text}', None, {'ROAM_SPIN_US': '1000000'})
    yield 'a debugger sees through', seen_through


def round_cases():
    yield ('idle', right, launched(3, program('idle'), '3'), 'node 2: ', {})
    for text, env in matrix([0, 1, 2]):
        for nodes, how in ((2, 'all'), (3, 'all'), (2, 'loop'), (4, 'loop')):
            yield (f'rounds {how} {nodes} {text}', right,
                   [program('rounds'), how, str(nodes), '5'], '5 rounds right', env)


def team(how, processes, threads, rounds=3):
    return [program('team'), how, processes, threads, rounds]


def not_divisible(how):
    """roam_create_all returns an error; other calls, which have no error for it, end the
    program."""
    expect(list(map(str, team(how, 6, 4))), 1,
           r'^roam: 6 processes cannot be divided among nodes of 4 threads each \(ROAM_THREADS\)$',
           env={'ROAM_THREADS': '4'})


def team_stats(command, env, processes=4, each=2):
    """Each thread has counted what it did; their sums are the node's."""
    with tempfile.TemporaryDirectory(prefix='roam-team-') as where:
        path = os.path.join(where, 'stats.json')
        right(command, f'{processes} processes right', {**env, 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            stats = json.load(file)
    threads = stats['threads']
    if [(one['node'], one['thread']) for one in threads] != [divmod(i, each) for i in range(processes)]:
        raise Wrong(f'{threads}')
    for node in range(processes // each):
        mine = [one for one in threads if one['node'] == node]
        faults = stats['counters']['read_faults'][node] + stats['counters']['write_faults'][node]
        if sum(one['locks'] for one in mine) != stats['counters']['lock_acquires'][node] or \
                not 0 < sum(one['faults'] for one in mine) <= faults:
            raise Wrong(f'{mine}, {stats["counters"]}')


REFUSED = r"""roam: node {node}: roam_thread_init: the threads of this job are fixed \(ROAM_THREADS=2\)
roam: node {node}: roam_thread_fini: the threads of this job are fixed \(ROAM_THREADS=2\)
roam: nodes cannot be created here: the job is sealed
roam: node {node}: roam_wait_for_end by process {process}, a thread of that node: only .*
roam: node {node}: roam_finish by process {process}, a thread of that node: only the node's first thread may, .*
"""


def team_refused(command, node, process, env):
    """A call that a thread of a team may not make is refused, and changes nothing: the program ends
    well."""
    result = run(command, env=env, timeout=60)
    if result.status != 0 or 'processes right' not in result.out or \
            re.fullmatch(REFUSED.format(node=node, process=process), result.err) is None:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


def team_alone(how):
    """A job of one node restricts, copies and sends nothing."""
    with tempfile.TemporaryDirectory(prefix='roam-team-') as where:
        path = os.path.join(where, 'stats.json')
        right(list(map(str, team(how, 4, 4))), '4 processes right', {'ROAM_THREADS': '4', 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            stats = json.load(file)
    counters = stats['counters']
    busy = {name: counters[name] for name in ('read_faults', 'write_faults', 'fetches', 'twins', 'diffs',
                                              'protects', 'invalidations', 'messages_sent') if counters[name] != [0]}
    if stats['engine'] != 'plain' or busy or counters['conds'] == [0] or counters['flags'] == [0]:
        raise Wrong(f'{stats["engine"]}, {busy}')


def held(env):
    """Each process prints once, and what main printed before them appears once."""
    result = run(list(map(str, team('held', 6, 3, 1))), env={'ROAM_THREADS': '3', **env}, timeout=60)
    lines = sorted(result.out.splitlines())
    if result.status != 0 or lines != sorted(['6 processes right', *(f'process {i} of 6' for i in range(6))]):
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


def late_statics():
    """All processes get what main writes between its CREATEs, and ROAM_CHECK=statics says so."""
    result = run(list(map(str, team('late', 4, 2, 1))), env={'ROAM_THREADS': '2', 'ROAM_CHECK': 'statics'},
                 timeout=60)
    said = re.findall(r'^roam: statics: (\w+) \(.*was written between CREATE and the first synchronisation: ',
                      result.err, re.MULTILINE)
    if result.status != 0 or said != ['late']:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


ASKS_FOR_TWO = r'^roam: the program asks for 2 nodes of 2 threads \(ROAM_THREADS\), the launcher started 1$'
NODES = '/sys/devices/system/node'
OWN_MOUNTS = ['unshare', '--mount', '--propagation', 'private']


def two_domains():
    """--threads auto with two NUMA domains: a node for each, bound to its processors."""
    cpus = sorted(os.sched_getaffinity(0))
    halves = cpus[:len(cpus) // 2], cpus[len(cpus) // 2:]
    with tempfile.TemporaryDirectory() as place:
        with open(f'{place}/online', 'w', encoding='ascii') as file:
            file.write('0-1\n')
        for number, half in enumerate(halves):
            os.mkdir(f'{place}/node{number}')
            with open(f'{place}/node{number}/cpulist', 'w', encoding='ascii') as file:
                file.write(','.join(map(str, half)) + '\n')
        result = run([*OWN_MOUNTS, 'sh', '-c', 'mount --bind "$1" "$2" && shift 2 && exec "$@"', 'sh', place, NODES,
                      *with_option(2, ['--threads', 'auto', '--report-bindings'],
                                   *map(str, team('all', len(cpus), len(halves[0]), 1)))], env={})
    said = re.findall(r'^roam: node (\d) .*: (?:\d+ threads, )?CPUs ([\d,-]+)$', result.err, re.MULTILINE)
    if result.status != 0 or f'{len(cpus)} processes right' not in result.out or \
            [sorted(spread(text)) for _, text in sorted(said)] != list(map(list, halves)):
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


def bindings():
    """Each node says how many threads it has, and where they may run."""
    result = run(with_option(2, ['--threads', '3', '--report-bindings'], *map(str, team('all', 6, 3, 1))), env={})
    said = re.findall(r'^roam: node (\d) on host \S+ \(pid \d+\): 3 threads, CPUs [\d,-]+$', result.err, re.MULTILINE)
    if result.status != 0 or sorted(said) != ['0', '1'] or '6 processes right' not in result.out:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}')


PLACE = r'multi_team\+0x[0-9a-f]+( \(\w+\+0x[0-9a-f]+\))?'
# What the last process does, the check that it is for, and what that says of it.
CHECKED = (
    ('races', 'race', r'0x[0-9a-f]+ \(block of .* was written by node 0 since the barrier .* and by node 1 since the '
     rf'barrier .*, in intervals that nothing orders; node 0 began to write this page at {PLACE}, node 1 at {PLACE}'),
    ('points', 'pointers', r'node 1 stored 0x[0-9a-f]+ at 0x[0-9a-f]+ \(block of .*, which points into its private '
     rf'(stack|memory); it began to write this page at {PLACE}'),
    ('behind', 'heap', rf'block 0x[0-9a-f]+ \(40 bytes, allocated at {PLACE}\) was written behind its end, at \+ 0x28; '
     'seen when node 1 freed it'),
    ('static', 'statics', r'own \(4 bytes\) was written after CREATE on node 1 of 2, and differs between them; used by '
     '.*'),
)


def team_checked(check, how, said, env, launch):
    """A check says exactly this, and the program is right."""
    words = list(map(str, team(how, 4, 2, 1)))
    result = run(with_option(2, ['--threads', '2', *launch], *words) if launch is not None else words,
                 env={'ROAM_CHECK': check, 'ROAM_THREADS': '2', **env}, timeout=60)
    wanted = [rf'roam: {check}: {said}', rf'roam: {check}: 1 found'] if said else [rf'roam: {check}: none found']
    lines = result.err.splitlines()
    if result.status != 0 or '4 processes right' not in result.out or len(lines) != len(wanted) or \
            not all(map(re.fullmatch, wanted, lines)):
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err!r}, wanted {wanted}')


def random_team(protocol, seed):
    """Where every conflict is ordered, threads of one node make no race of what is none."""
    expect([program('random'), '--seed', str(seed), '--nodes', '3', '--team', '2'], out='^right',
           err='^roam: race: none found$', env={'ROAM_CHECK': 'race', 'ROAM_PROTOCOL': protocol})


def checked_cases():
    """The checks of nodes of several threads.  They compare nodes: threads of one node are not looked at."""
    for how, check, said in CHECKED:
        for text, env, launch in (('near', {}, None), ('udp', {'ROAM_TRANSPORT': 'udp'}, None), ('launched', {}, []),
                                  ('hosts', {}, ['-H', 'localhost:1,localhost:1'])):
            yield f'team, ROAM_CHECK={check}, {text}', team_checked, check, how, said, env, launch
            yield f'team, ROAM_CHECK={check}, nothing to find, {text}', team_checked, check, 'all', '', env, launch
    for protocol in those('checks_races'):
        yield (f'team, races under {protocol}', team_checked, 'race', 'races', CHECKED[0][2],
               {'ROAM_PROTOCOL': protocol}, None)
        for seed in (1, 2):
            yield f'team, no races in a random program, {protocol}, seed {seed}', random_team, protocol, seed
    yield 'team, races within a node', team_checked, 'race', 'mates', '', {}, None


def spread(text):
    """The numbers of 0,2-4."""
    for part in text.split(','):
        first, _, last = part.partition('-')
        yield from range(int(first), int(last or first) + 1)


def domain_cases():
    """Whether mounts may be made and the number of processors is even."""
    if os.geteuid() == 0 and len(os.sched_getaffinity(0)) % 2 == 0 and \
            subprocess.run([*OWN_MOUNTS, 'true'], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        yield ('two NUMA domains', two_domains)


THREAD = r'.*, in process 3, its thread 1(;|$)'


def dying_cases():
    """The line that says how a node ended names the thread that ended it, however the job was started."""
    for how, status, said in (('killed', 139, r'was killed by signal 11 \('), ('aborted', 134, r'was killed by signal 6 \('),
                              ('divided', 136, r'was killed by signal 8 \('),
                              ('trapped', 133, r'was killed by signal 5 \('), ('leave', 3, 'exited with status 3')):
        words = list(map(str, team(how, 4, 2, 1)))
        yield (f'team, {how}', expect_env, words, status, rf'^roam: node 1 \(pid \d+\) {said}{THREAD}', '',
               {'ROAM_THREADS': '2'})
        for text, hosts in (('launched', []), ('hosts', ['-H', 'localhost:1,localhost:1'])):
            where = ' on host localhost' if hosts else ''
            yield (f'team, {how}, {text}', expect, with_option(2, ['--threads', '2', *hosts], *words), status,
                   rf'^roam: node 1{where} \(pid \d+\) {said}{THREAD}', '')
    # The first node's end is noticed in another way; a signal from outside is no thread's.
    yield ('team, killed, first node', expect_env, list(map(str, team('killed-first', 4, 2, 1))), -signal.SIGSEGV,
           r'^roam: node 0 \(pid \d+\) was killed by signal 11 \(.*, in process 1, its thread 1(;|$)', '',
           {'ROAM_THREADS': '2'})
    yield ('team, ended from outside', expect_env, list(map(str, team('outside', 4, 2, 1))), 134,
           r'^roam: node 1 \(pid \d+\) was killed by signal 6 \([^()]*\)(;|$)', '', {'ROAM_THREADS': '2'})


def team_cases():
    """Nodes of several threads."""
    yield from domain_cases()
    yield ('bindings of threads', bindings)
    for text, env in matrix([0, 1]):
        for how, processes, threads in (('all', 4, 2), ('loop', 6, 3), ('loop', 4, 4), ('unequal', 6, 2)):
            yield (f'team {how} {processes} / {threads} {text}', right,
                   list(map(str, team(how, processes, threads))), f'{processes} processes right',
                   {**env, 'ROAM_THREADS': str(threads)})
    for text, env in (('near', {}), ('far', {'ROAM_ONESIDED': '0'}), ('udp', {'ROAM_TRANSPORT': 'udp'}),
                      ('encrypted', {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'encrypt'})):
        for how in ('all', 'loop', 'unequal'):
            yield (f'team {how} launched {text}', right,
                   with_option(3, ['--threads', '2'], *map(str, team(how, 6, 2, 1))),
                   '6 processes right', env)
    for text, env in (('near', {}), ('udp', {'ROAM_TRANSPORT': 'udp'})):
        yield (f'counters of threads {text}', team_stats, list(map(str, team('all', 4, 2, 1))),
               {**env, 'ROAM_THREADS': '2'})
        yield (f'counters of threads {text}, launched', team_stats,
               with_option(2, ['--threads', '2'], *map(str, team('all', 4, 2, 1))), env)
    for processes, each in ((64, 16), (64, 32), (64, 4)):
        yield (f'counters of {processes // each} x {each} threads', team_stats,
               list(map(str, team('all', processes, each, 1))), {'ROAM_THREADS': str(each)}, processes, each)
    yield ('counters of 2 x 20 threads, hosts', team_stats,
           with_option(2, ['-H', 'localhost:1,localhost:1', '--threads', '20'],
                       *map(str, team('all', 40, 20, 1))), {}, 40, 20)
    yield ('counters of threads, hosts', team_stats,
           with_option(2, ['-H', 'localhost:1,localhost:1', '--threads', '2'],
                       *map(str, team('all', 4, 2, 1))), {})
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}, *({'ROAM_PROTOCOL': name} for name in sorted(set(KINDS.values())))):
        for each in (2, 4, 8):
            yield (f'tuples of a team, {8 // each} x {each} {env}', right, list(map(str, team('past', 8, each, 1))),
                   '8 processes right', {**env, 'ROAM_THREADS': str(each)})
    yield ('tuples of a team, launched', right,
           with_option(2, ['--threads', '3'], *map(str, team('past', 6, 3, 1))), '6 processes right', {})
    yield ('team of 16 x 4', right, list(map(str, team('all', 64, 4, 1))), '64 processes right',
           {'ROAM_THREADS': '4'})
    yield ('team, own allocator', right, list(map(str, team('loop', 6, 3))), '6 processes right',
           {'ROAM_THREADS': '3', 'ROAM_ALLOC': 'own'})
    for how in ('all', 'loop'):
        yield f'team of one node, idle library, {how}', team_alone, how
    for env in ({}, {'ROAM_ALLOC': 'own'}):
        yield f'team, stdout held {env}', held, env
    yield 'team, statics written between CREATEs', late_statics
    for how in ('all', 'loop'):
        yield f'team, not divisible, {how}', not_divisible, how
    for how, status, err in (
            ('early', 1, r'^roam: node \d+: no thread of the job can go on; '),
            ('cancelled', 1, r'^roam: node \d+: no thread of the job can go on; '),
            ('quit', 1, r'^roam: node 1: exit by process 3, a thread of this node, would end ')):
        yield (f'team, {how}', expect_env, list(map(str, team(how, 4, 2, 1))), status, err, '',
               {'ROAM_THREADS': '2'})
        yield (f'team, {how}, launched', expect,
               with_option(2, ['--threads', '2'], *map(str, team(how, 4, 2, 1))), status, err, '')
    yield from dying_cases()
    yield from checked_cases()
    for how in ('all', 'loop'):
        yield (f'team of one node, {how}', right, list(map(str, team(how, 2, 2))), '2 processes right',
               {'ROAM_THREADS': '2'})
        yield (f'team of one launched node, {how}', right,
               with_option(1, ['--threads', '2'], *map(str, team(how, 2, 2, 1))), '2 processes right', {})
        yield (f'team of two, one node launched, {how}', expect,
               with_option(1, ['--threads', '2'], *map(str, team(how, 4, 2, 1))), 1,
               ASKS_FOR_TWO, '')
    yield ('team of three, two threads, one node launched', expect,
           with_option(1, ['--threads', '2'], *map(str, team('loop', 3, 2, 1))), 1, ASKS_FOR_TWO, '')
    yield ('team of two, three threads, one node launched', expect,
           with_option(1, ['--threads', '3'], *map(str, team('loop', 2, 2, 1))), 1,
           r'^roam: 2 processes cannot be divided among nodes of 3 threads each \(ROAM_THREADS\)$', '')
    yield ('threads without effect', expect, with_option(2, ['--threads', '2'], program('hello')), 0,
           '^roam: ROAM_THREADS=2 had no effect: the program has not called CREATE$', 'the sum of')
    for value in ('0', '257', 'all', '-1'):
        yield (f'ROAM_THREADS={value}', expect_env, [program('hello')], 1,
               f'^roam: ROAM_THREADS={value}: must be auto or a number from 1 to 256$', '',
               {'ROAM_THREADS': value})
        yield (f'--threads {value}', expect, with_option(2, ['--threads', value], program('hello')), 2,
               '^roam: run: --threads ', '')
    for processes, node in ((4, 1), (2, 0)):
        words = list(map(str, team('fixed', processes, 2, 1)))
        yield (f'team of {processes}, calls that are refused', team_refused, words, node, processes - 1,
               {'ROAM_THREADS': '2'})
        yield (f'team of {processes}, calls that are refused, launched', team_refused,
               with_option(node + 1, ['--threads', '2'], *words), node, processes - 1, {})
    for how in ('gone', 'helper', 'child'):
        for processes in (4, 2):
            yield (f'team of {processes}, {how}', right, list(map(str, team(how, processes, 2))),
                   f'{processes} processes right', {'ROAM_THREADS': '2'})


def more_frees_cases():
    for text, env in matrix([0]):
        yield (f'frees {text}', frees, 'fork', 3, env)
        yield (f'frees, roam run, {text}', frees, 'run', 1, env)
    yield ('frees, own allocator', frees, 'fork', 3, {'ROAM_ALLOC': 'own'})


def heap_cases():
    yield from more_frees_cases()
    for text, env in matrix([0, 1]):
        for nodes, start, heap in ((3, 'fork', 33), (4, 'run', 48)):
            bytes_ = (heap << 20) + (PAGE if heap == 33 else 0)
            yield (f'heap of {heap} MiB {start} {nodes} {text}', right,
                   started(start, 'heap', start, nodes, bytes_), 'one heap',
                   {**env, 'ROAM_HEAP': str(bytes_), 'ROAM_LOG': 'error'})  # it frees what is no block


def lock_cases():
    """In the end, more locks than one node has records for in shared memory."""
    for text, env in matrix([0]):
        for onesided in '10':
            if env['ROAM_PROTOCOL'] == DEFAULT or onesided == '1':
                yield (f'locks {text} one-sided {onesided}', right,
                       started('fork', 'locks', 'fork', 2, 100000), '100000 locks right',
                       {**env, 'ROAM_ONESIDED': onesided})
    yield ('locks run 3', right, started('run', 'locks', 'run', 3, 450000), '450000 locks right', {})
    for processes, threads in ((4, 4), (4, 2)):
        yield (f'locks fork {processes} / {threads} threads', right,
               started('fork', 'locks', 'fork', processes, 100000), '100000 locks right',
               {'ROAM_THREADS': str(threads)})


def soon_cases(seeds):
    """Calls that give up, both where a lock uses its record and where it uses messages."""
    yield from thin(3, ((f'soon fork 3 {text}', right, started('fork', 'soon', 'fork', 3, 200), 'in time', env)
                        for text, env in matrix(seeds)))
    for start, env in (('run', {'ROAM_TRANSPORT': 'udp'}), ('run', {'ROAM_ONESIDED': '0'}),
                       ('fork', {'ROAM_THREADS': '2'}), *(('fork', {'ROAM_PROTOCOL': one}) for one in ONE_HEAP),
                       ('fork', {'ROAM_TRANSPORT': 'udp', 'ROAM_THREADS': '2'})):
        yield (f'soon {start} 4 {env}', right, started(start, 'soon', start, 4, 200), 'in time', env)


def root_cases():
    """Named blocks: however nodes start, and however they reach node 0's table."""
    quiet = {'ROAM_LOG': 'error'}
    for text, env in matrix([0]):
        yield (f'roots fork 3 {text}', right, started('fork', 'roots', 'fork', 3), 'roots right', {**env, **quiet})
    for start, env in (('run', {}), ('run', {'ROAM_TRANSPORT': 'udp'}), ('create', {'ROAM_TRANSPORT': 'udp'}),
                       ('run', {'ROAM_ONESIDED': '0'}),
                       ('fork', {'ROAM_THREADS': '2'}), *(('fork', {'ROAM_PROTOCOL': one}) for one in ONE_HEAP)):
        yield (f'roots {start} 4 {env}', right, started(start, 'roots', start, 4), 'roots right', {**env, **quiet})
    yield ('roots create 3 checked', expect_env, started('create', 'roots', 'create', 3), 0,
           '^roam: heap: none found$', 'roots right', {'ROAM_CHECK': 'heap', **quiet})
    yield 'roots fork 1', right, started('fork', 'roots', 'fork', 1), 'roots right', quiet


def past_cases(protocols, seeds):
    """Tuples beside pages: under any protocol, and over any transport."""
    for seed in seeds:
        for protocol in protocols:
            for start, nodes, transport in (('fork', 2, 'shm'), ('run', 3, 'shm'),
                                            ('run', 2, 'udp')):
                env = {'ROAM_PROTOCOL': protocol, 'ROAM_TRANSPORT': transport,
                       'ROAM_CHAOS': str(seed)}
                yield (f'past {start} {nodes} {transport} {protocol} chaos {seed}', right,
                       started(start, 'past', start, nodes), 'tuples right', env)


GROUPS = {
    'past': lambda: list(past_cases([DEFAULT], [0])),
    'past_more': lambda: list(past_cases(
        [KINDS[kind] for kind in ('one writer', 'twins', 'follows')], [1, 2])),
    'threads': lambda: list(thread_cases()),
    'rounds': lambda: list(round_cases()),
    'team': lambda: list(team_cases()),
    'stacks': lambda: few(stack_cases()),
    'stacks_more': lambda: rest(stack_cases()),
    'heap': lambda: list(heap_cases()),
    'locks': lambda: list(lock_cases()),
    'soon': lambda: few(soon_cases([0])),
    'soon_more': lambda: [*rest(soon_cases([0])), *soon_cases([1, 2])],
    'roots': lambda: few(thin(3, root_cases())),
    'roots_more': lambda: rest(thin(3, root_cases())),
}

if __name__ == '__main__':
    main(GROUPS)
