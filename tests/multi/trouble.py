#!/usr/bin/env python3
"""Bad days: misuse, system calls that are refused, memory and files that end, checks, core files.

usage: trouble.py [-k PART_OF_A_NAME] [GROUP]...
"""
import json
import os
import re
import resource
import signal
import tempfile

from harness import (Later, MemoryGroup, Wrong, expect, expect_end, few, launched, main, program, rest, run, started,
                     thin, those)
from shapes import (DEFAULT, ENDS, ENGINES, KINDS, ONE_HEAP, PROTOCOLS, SIGNALLED, start_fails,
                    unshown)


def stranger(how, nodes, env=None, **rest):
    expect([program('stranger'), how, str(nodes)], env=env, out='ended in order', **rest)


def disposed(what, *command):
    """The command as of a parent that ignores or blocks the signals of faults."""
    return ['env', *(f'--{what}-signal={name}' for name in ('SEGV', 'BUS')), *command]


def inherits(what, start, env):
    """Faults work, and a crash stays a crash, whatever the program has inherited."""
    for mode in ('seated', 'evict'):
        words = [program('stranger'), mode, '2']
        expect(disposed(what, *(words if start == 'fork' else launched(2, *words))),
               out='ended in order', env={'ROAM_CACHE_PAGES': '300', **env})
    for how, who in (('null', 1), ('wild', 0), ('beyond', 1)):
        status, said = ENDS[how]
        command = disposed(what, *started(start, 'deaths', start, 3, who, how, 'barrier'))
        expect_end(command, 3, -(status - SIGNALLED) if start == 'fork' and who == 0 else status,
                   rf'^roam: node {who} \(pid \d+\) {said} \(Segmentation fault\); node',
                   env={'BEYOND': '0x7ff000000000', **env})


def unheard(how, start, env):
    """A node that blocks or ignores what a fault of the heap raises is named, and so is that; also
    what node 0 waits for, if it has come to that by then."""
    words = [program('stranger'), how, '2']
    number = 7 if env['ROAM_FAULT'] == 'uffd' else 11
    expect(words if start == 'fork' else launched(2, *words), SIGNALLED + number,
           rf"^roam: node 1 \(pid \d+\) was killed by signal {number} \([\w ]+\): roam's handler did "
           'not get it, because the program has blocked, ignored or reset it, or its stack was full(; node 0|$)',
           env=env)


def fault_signal_cases():
    for engine in ENGINES:
        env = {'ROAM_FAULT': engine}
        for start in ('fork', 'run'):
            for what in ('ignore', 'block'):
                yield (f'{what}, inherited, {start} {engine}', inherits, what, start, env)
            for how in ('shuts', 'ignores'):
                yield (f'{how} {start} {engine}', unheard, how, start, env)


def misuse(start, nodes):
    """All wrong calls are refused.  The library prints one line for a call that returns its error;
    for locks, one of each kind in the job, with the place."""
    place = r'at multi_misuse\+0x[0-9a-f]+( \(\w+\+0x[0-9a-f]+\))?'
    result = run(started(start, 'misuse', start, nodes))
    strange = [line for line in result.err.splitlines() if not re.match(
        'roam: (nodes cannot be created here|the program asks for |warning: node|roam_create(_all)?: needs a function '
        'and at least one node$)', line)]
    if 'roam: roam_create: needs' not in result.err or 'roam: roam_create_all: needs' not in result.err:
        strange.append('nothing of calls of CREATE without a function')
    for wrong in ('roam_lock of .*, which this thread holds already',
                  'roam_unlock of .*, which this thread does not hold',
                  'roam_cond_wait without its lock .*', 'roam_lock of .*, which is no address of an object',
                  'roam_once of .*, which is not in the shared heap',
                  'roam_barrier at .* for no thread, or for more than the job can have',
                  'roam_reduce of .*, of no value, of more than 64, or by an operation .*',
                  r'roam_barrier by thread \d+, which has not called roam_thread_init: barriers are '
                  'counted wrongly',
                  'roam_free of .*, which is no block of roam_alloc, or freed already'):
        if len(re.findall(f'{wrong}, {place}; later', result.err)) != 1:
            strange.append(f'not once: {wrong}')
    if result.status != 0 or strange or 'all refused' not in result.out:
        raise Wrong(f'status {result.status}, {strange}, stderr {result.err[-600:]!r}')
    result = run(started(start, 'misuse', start, nodes), env={'ROAM_STRICT': '1'})
    lines = [line for line in result.err.splitlines() if 'needs a function' not in line]
    if result.status == 0 or len(lines) != 1 or re.fullmatch(
            rf'roam: node \d: roam_unlock of .*, {place} .ROAM_STRICT=1.', lines[0]) is None:
        raise Wrong(f'strict: status {result.status}, stderr {result.err[-600:]!r}')
    where = re.search(r'at multi_misuse\+(0x[0-9a-f]+)', result.err).group(1)
    found = run(['addr2line', '-e', program('misuse'), where])
    if re.search(r'misuse\.c:\d+', found.out) is None:
        raise Wrong(f'addr2line: {found.out!r}')


def objects(start, nodes, env):
    """Locks, conditions and flags need no init, and new blocks contain none."""
    expect(started(start, 'objects', start, nodes), out='all free', env=env)


def too_many_creates():
    line = '^roam: 4 nodes asked for, at most 3 allowed .ROAM_NODES_MAX.$'
    expect([program('stranger'), 'creates', '9'], 4, line, env={'ROAM_NODES_MAX': '3'})
    expect([program('stranger'), 'start', '4'], 1, line, env={'ROAM_NODES_MAX': '3'})


def refused(calls, command, *arguments, **how):
    return expect([program('refuse'), calls, *command], *arguments, **how)


def refused_uffd():
    count = [program('threads'), 'fork', '2', '1', '5', 'settled']
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        refused('userfaultfd', count, out='counted right', env={'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            engine = json.load(file)
    if 'sigsegv' not in json.dumps(engine):
        raise Wrong(f'did not take sigsegv: {json.dumps(engine)[:200]}')
    refused('userfaultfd', [program('stranger'), 'start', '2'], 1,
            '^roam: ROAM_FAULT=uffd: .*(userfaultfd|not permitted)', env={'ROAM_FAULT': 'uffd'})


def refused_memfd():
    line = '^roam: cannot make the shared memory of node 0: Operation not permitted'
    refused('memfd_create', [program('stranger'), 'start', '2'], 1, line)
    refused('memfd_create', launched(2, program('stranger'), 'start', '2'), 1, line)


def refused_io_uring():
    for env in ({}, {'ROAM_TRANSPORT': 'udp'}):
        refused('io_uring_setup', [program('stranger'), 'start', '2'], out='ended in order',
                env=env)
    refused('io_uring_setup', [program('stranger'), 'start', '2'], 1,
            r'^roam: cannot start the node: .* \(ROAM_UDP=uring does not work here: '
            r'`roam info machine`\)$', env={'ROAM_TRANSPORT': 'udp', 'ROAM_UDP': 'uring'})


def refused_socket():
    """A transport that does not work is named with the reason; auto uses the others where these
    reach all."""
    said = json.loads(refused('socket', [program('roam'), 'info', 'transports', '--json']).out)
    missing = [each for each in said['transports'] if not each['works'] and 'bare' not in each['capabilities']]
    if not missing or any(not re.search('socket.*: Operation not permitted', each['why']) or
                          'hosts' not in each['capabilities'] for each in missing):
        raise Wrong(f'not why: {said}')
    refused('socket', [program('roam'), 'info', 'transports'],
            out=f'{missing[0]["name"]} +missing: {missing[0]["why"]}: between hosts')
    refused('socket', [program('stranger'), 'start', '2'], out='ended in order')
    refused('socket', [program('stranger'), 'start', '2'], 1,
            f'^roam: ROAM_TRANSPORT={missing[0]["name"]}: {missing[0]["why"]}$',
            env={'ROAM_TRANSPORT': missing[0]['name']})


def refused_pidfd():
    refused('pidfd_open', [program('stranger'), 'start', '2'], 1,
            '^roam: cannot start the nodes: Operation not permitted$')


NO_RACE = '^roam: race: none found$'
NO_STATICS = '^roam: statics: none found$'


def checked(command, check, *lines, status=0, **env):
    """Expects exactly these lines on stderr, the last of which is the verdict."""
    result = run(command, env={'ROAM_CHECK': check, **env})
    said = result.err.splitlines()
    if result.status != status or len(said) != len(lines) or 'ran' not in result.out or \
            not all(re.search(pattern, line) for pattern, line in zip(lines, said)):
        raise Wrong(f'expected {lines}: status {result.status}, {result.err[-1500:]!r}')


def races(protocol):
    def race(how, *lines):
        checked([program('race'), how], 'race', *lines, ROAM_PROTOCOL=protocol)
    race('racing', r'^roam: race: 0x[0-9a-f]+ \(the words \+ 0x38, of 262144 bytes from 0x[0-9a-f]+\) '
         'was written by node 0 since the barrier and by node 1 since the barrier, in intervals that '
         r'nothing orders; node 0 began to write this page at multi_race\+0x[0-9a-f]+.*, node 1 at '
         r'multi_race\+0x[0-9a-f]+', '^roam: race: 1 found')
    race('locked', NO_RACE)
    race('neighbours', NO_RACE)
    race('few', NO_RACE)


def race_free_stripes(protocol):
    """More rounds than `few`: the home looks at its own writes while the other node's diff arrives."""
    checked([program('race'), 'stripes'], 'race', NO_RACE, ROAM_PROTOCOL=protocol)


def races_named(protocol):
    """The block is named by its place in the source, whichever node allocated it and when, with
    each side's last lock; equal races make one line; counters that begin late change nothing."""
    block = r'\(checked\.C:\d+ \+ 0x[0-9a-f]+, of \d+ bytes from 0x[0-9a-f]+\)'
    place = r'\(checked\.C:\d+ \+ [0-9a-fx]+, of 24000 bytes from 0x[0-9a-f]+\)'
    line = rf'^roam: race: 0x[0-9a-f]+ {place} was written by node 0 since it locked 0x[0-9a-f]+ ' \
        rf'\(checked\.C:\d+ \+ 0, .* and by node 1 since it locked 0x[0-9a-f]+ {block}, in intervals'
    for env in ({}, {'ROAM_STATS_AFTER': '3'}):
        checked([program('checked'), 'races', '2'], 'race', line,
                '^roam: race: 1 found, and [1-9][0-9]* like them$', ROAM_PROTOCOL=protocol, **env)
    checked([program('checked'), 'races', '2'], 'race', line, 'found', status=9,
            ROAM_CHECK_STATUS='9', ROAM_PROTOCOL=protocol)
    checked([program('checked'), 'shared', '2'], 'race', NO_RACE, ROAM_CHECK_STATUS='9',
            ROAM_PROTOCOL=protocol)


def statics():
    """A static that one node computes for all is named, with its users; a program that is right has
    none, nor has one with private values that are the same everywhere."""
    def lines(nodes):
        end = f'was written after CREATE on node 0 of {nodes}, and differs between them; used by '
        return (fr'^roam: statics: view \(32 bytes\) {end}(turn_view, )?(look, )?work',
                fr'^roam: statics: angle \(8 bytes\) {end}(main, )?(look, )?work|, work',
                '^roam: statics: 2 found$')
    for nodes, env in (2, {}), (3, {'ROAM_TRANSPORT': 'udp'}), (2, {'ROAM_PROTOCOL': KINDS['follows']}), \
            *((3, {'ROAM_PROTOCOL': name}) for name in ONE_HEAP):
        checked([program('checked'), 'statics', str(nodes)], 'statics', *lines(nodes), **env)
    checked(launched(3, '-H', 'localhost:3', program('checked'), 'statics', '3'), 'statics', *lines(3))
    checked([program('checked'), 'statics', '2'], 'race,statics', NO_RACE, *lines(2), status=3,
            ROAM_CHECK_STATUS='3')
    checked([program('checked'), 'shared', '3'], 'statics', NO_STATICS, ROAM_CHECK_STATUS='3')
    for kernel, *size in (('fft', '-m10'), ('lu', '-n100'), ('ocean', '-n34'), ('radix', '-n20000')):
        expect([program(kernel), '-p3', *size], out='verified', err=NO_STATICS,
               env={'ROAM_CHECK': 'statics'})


def races_unseen(protocol):
    """A protocol that cannot check refuses to, in one line; a region of it beside a protocol that
    can runs."""
    for check in ('race', 'sharing', 'pointers'):
        start_fails({'ROAM_CHECK': f'statics,{check}', 'ROAM_PROTOCOL': protocol},
                    unshown(check, protocol))
    checked([program('race'), 'locked', protocol], 'race', NO_RACE)


def heap_apart(protocol):
    """Red zones are not for models under which a node may not see their bytes."""
    start_fails({'ROAM_CHECK': 'heap', 'ROAM_PROTOCOL': protocol},
                f'^roam: ROAM_CHECK=heap: under ROAM_PROTOCOL={protocol} a node may not see what lies '
                f'around a block; take ROAM_PROTOCOL={DEFAULT}$')


def scope_of_none(protocol):
    """Where an acquire has nothing to do, nothing is known of what has shown a node a write."""
    start_fails({'ROAM_CHECK': 'scope', 'ROAM_PROTOCOL': protocol},
                f'^roam: ROAM_CHECK=scope: under ROAM_PROTOCOL={protocol} writes are seen without a lock\'s '
                f'notices; take ROAM_PROTOCOL={DEFAULT}$')


def heap_unharmed(protocol):
    """A program whose blocks come and go is right with red zones, too, and these are whole at its
    end, under every protocol that has the check, whether the nodes are forked or launched."""
    for seed, more in ((1, []), (2, ['--roam', program('roam')])):
        expect([program('random'), '--seed', str(seed), '--nodes', '3', *more], out='^right',
               err='^roam: heap: none found$', env={'ROAM_CHECK': 'heap', 'ROAM_PROTOCOL': protocol})


def race_free(kernel, size):
    """A program whose every sharing is ordered, on pages that have several writers."""
    for protocol in those('checks_races') if kernel == 'jump-sor' else [DEFAULT]:
        expect([program(kernel), '-p3', f'-n{size}', '-t'], out='verified ok', err=NO_RACE,
               env={'ROAM_CHECK': 'race', 'ROAM_PROTOCOL': protocol})


def races_random(protocol):
    """A program in which every conflict is ordered has no race, and is as right as without the
    check."""
    for seed in (1, 2):
        expect([program('random'), '--seed', str(seed), '--nodes', '3'], out='^right', err=NO_RACE,
               env={'ROAM_CHECK': 'race', 'ROAM_PROTOCOL': protocol})


def stats_once(start):
    result = run(started(start, 'threads', start, 2, 1, 3, 'settled'), env={'ROAM_STATS': '1'})
    tables = len(re.findall('^.*lock_acquires', result.err, re.MULTILINE))
    if result.status != 0 or tables != 1:
        raise Wrong(f'status {result.status}, {tables} tables: {result.err[:600]!r}')


def peak_memory(start):
    """ROAM_STATS gives each node's peak as the kernel does, and not the peak of the process that
    started it."""
    ours = bytearray(b'x') * (300 << 20)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        command = [program('stranger'), 'peak', '3']
        result = expect(command if start == 'fork' else launched(3, *command),
                        out='ended in order', env={'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            told = json.load(file)['counters']['peak_memory_kb']
    del ours
    seen = dict(re.findall(r'^peak (\d) (\d+)$', result.out, re.MULTILINE))
    seen = [int(seen[str(node)]) for node in range(3)]
    for node, (kernel, roam) in enumerate(zip(seen, told)):
        if not kernel <= roam <= kernel + 4096 or kernel < (node + 1) * 40 << 10 or \
                kernel > 300 << 10:
            raise Wrong(f'the kernel says {seen}, ROAM_STATS {told}')


def one_line_or_well(command, line, **how):
    """The program works, or ends in order with one line that says what is too small."""
    result = run(command, **how)
    lines = result.err.splitlines()
    if result.status == 0 and not lines and 'ended in order' in result.out:
        return True
    if result.status not in (1, 2) or len(lines) != 1 or re.search(line, lines[0]) is None:
        raise Wrong(f'{how}: status {result.status}, stderr {result.err[-600:]!r}')
    return False


def limits_of_space(start):
    """One part or another of a node's memory does not fit."""
    command = [program('stranger'), 'start', '3']
    line = r'^roam: (node \d: )?cannot (map|start).*ulimit -v'
    fits = [('16M', 20000), ('64M', 1953), ('64G', 10000000)]
    works = [one_line_or_well(command if start == 'fork' else launched(3, *command), line,
                              env={'ROAM_HEAP': heap}, limits={resource.RLIMIT_AS: mib << 20})
             for heap, mib in [('16M', 64), ('16M', 128), ('16M', 300), ('64G', 4096), ('64G', 70000),
                               ('64G', 140000), ('64G', 300000), *fits]]
    if works != [False] * 7 + [True] * len(fits):
        raise Wrong(f'worked: {works}')
    for nodes, heap, mib in ((2, '64M', 1953), (1, '4G', 5 * 4096)):
        command = [program('stranger'), 'start', str(nodes)]
        if not one_line_or_well(command if start == 'fork' else launched(nodes, *command), line,
                                env={'ROAM_HEAP': heap}, limits={resource.RLIMIT_AS: mib << 20}):
            raise Wrong(f'{nodes} nodes with {heap} in {mib} MiB')


def limits_of_files(start, counts):
    """No descriptor is left for one purpose or another."""
    command = [program('stranger'), 'start', '5']
    works = [one_line_or_well(command if start == 'fork' else launched(5, *command),
                              '^roam: .*ulimit -n', limits={resource.RLIMIT_NOFILE: files})
             for files in counts]
    if works[0] or not works[-1]:
        raise Wrong(f'worked: {works}')


def kernel_exhausts():
    """A program of macros cannot see errors: it ends, and says where."""
    expect([program('fft'), '-p2', '-m20'], 1, r'^\S*fft.C:\d+: G_MALLOC: the shared heap or the '
           'memory behind it is exhausted$', env={'ROAM_HEAP': '16M'})


GROUP_LIMIT = 128 << 20


def limits_of_memory(start, filler, engine):
    """The heap grows beyond the memory cgroup's limit: the kernel kills the node that fills it, and
    one line says why."""
    with MemoryGroup(GROUP_LIMIT) as group:
        if group is None:
            print('skip: memory cgroup: none can be made here')
            return
        command = [program('stranger'), 'fill', '3']
        if start == 'run':
            command = launched(3, *command)
        told = rf'^roam: node {filler} .*: the memory cgroup has no memory left; ' \
            r'node \d waited at roam_barrier_all'
        alone = start == 'fork' and filler == 0
        expect(command, -signal.SIGKILL if alone else SIGNALLED + signal.SIGKILL, told, group=group,
               env={'ROAM_FAULT': engine, 'FILLER': str(filler)})


def enough_memory():
    """A job stays within its memory limit; at the end the creator has copies of all that was
    written."""
    with MemoryGroup(12 * GROUP_LIMIT) as group:
        if group is not None:
            stranger('fill', 3, {'FILLER': '1'}, group=group)


def object_cases():
    for start in ('fork', 'run'):
        for nodes in (2, 3):
            for env in ({}, {'ROAM_ONESIDED': '0'}, {'ROAM_TRANSPORT': 'udp'},
                        {'ROAM_PROTOCOL': KINDS['follows']}):
                yield (f'objects {start} {nodes} {env}', objects, start, nodes, env)


def group_cases():
    for start in ('fork', 'run'):
        for filler in (0, 1):
            for engine in ENGINES:
                yield (f'memory cgroup, {start}, node {filler}, {engine}', limits_of_memory, start,
                       filler, engine)


def trouble_cases():
    yield from thin(3, group_cases())
    yield Later(('memory cgroup large enough', enough_memory))
    yield from thin(5, object_cases())
    yield ('too many CREATEs', too_many_creates)
    yield ('heap exhausted', stranger, 'exhaust', 3, {'ROAM_HEAP': '16M'})
    yield ('space of barriers', stranger, 'barriers', 2)
    yield ('objects of one node of threads', objects, 'fork', 2, {'ROAM_THREADS': '2'})
    for start in ('fork', 'run'):
        for nodes in (2, 3):
            case = (f'misuse {start} {nodes}', misuse, start, nodes)
            yield case if nodes == 2 else Later(case)
        yield (f'ROAM_STATS printed once, {start}', stats_once, start)
        yield Later((f'peak memory, {start}', peak_memory, start))
        yield (f'RLIMIT_AS, {start}', limits_of_space, start)
        yield (f'RLIMIT_NOFILE, {start}', limits_of_files, start, range(4, 32, 3))
        yield Later((f'RLIMIT_NOFILE, {start}', limits_of_files, start, range(4, 32)))
    yield ('userfaultfd refused', refused_uffd)
    yield ('memfd_create refused', refused_memfd)
    yield ('io_uring refused', refused_io_uring)
    yield ('sockets refused', refused_socket)
    yield ('pidfd_open refused', refused_pidfd)
    yield ('heap exhausted in a kernel', kernel_exhausts)
    for start in ('fork', 'run'):
        for how in ('null', 'abort'):
            yield (f'core file, {how} {start}', core_file, start, how)
    yield from thin(11, core_cases())
    yield from thin(5, fault_signal_cases())
    for engine in ENGINES:
        for how in ('fork', 'system', 'efault', 'blocked', 'seated'):
            yield (f'{how} {engine}', stranger, how, 2, {'ROAM_FAULT': engine})
        yield (f'beyond the heap {engine}', beyond_heap, engine)
        yield (f'evict {engine}', stranger, 'evict', 2,
               {'ROAM_FAULT': engine, 'ROAM_CACHE_PAGES': '300'})


def race_cases():
    for protocol in those('checks_races'):
        yield (f'races under {protocol}', races, protocol)
        yield (f'races named under {protocol}', races_named, protocol)
        yield (f'no races in random programs under {protocol}', races_random, protocol)


def zone_cases():
    for protocol in those():
        apart = protocol in those(model='ScC')
        yield (f'red zones under {protocol}', heap_apart if apart else heap_unharmed, protocol)


def check_cases():
    """What ROAM_CHECK finds, and does not."""
    yield from thin(2, race_cases())
    yield Later((f'no race in stripes under {DEFAULT}', race_free_stripes, DEFAULT))
    for protocol in those('checks_races', without=['acquires']):
        yield (f'scope under {protocol}', scope_of_none, protocol)
    for protocol in those(without=['checks_races', 'one_heap', 'transactions']):
        yield (f'races under {protocol}', races_unseen, protocol)
    yield from thin(2, zone_cases())
    for kernel, size in (('bk', 3000), ('lu', 150), ('me', 20000), ('mm', 70), ('rx', 3000),
                         ('sor', 90)):
        yield (f'no races in jump-{kernel}', race_free, f'jump-{kernel}', size)


def beyond_heap(engine):
    """The first byte after the heap is a wild pointer; its last byte, outside of any block, is not
    checked, as with malloc."""
    expect([program('stranger'), 'beyond', '2'], SIGNALLED + signal.SIGSEGV,
           r'^roam: node 1 \(pid \d+\) was killed by signal 11',
           env={'ROAM_HEAP': '16M', 'BEYOND': str(16 << 20), 'ROAM_FAULT': engine})


def map_count():
    """A job needs more mappings than the kernel allows: it works all the same, or says in one line
    what is too small."""
    result = run([program('stranger'), 'alternate', '2'], env={'ROAM_FAULT': 'sigsegv'}, timeout=60)
    lines = result.err.splitlines()
    if result.status != 0 and not (len(lines) == 1 and 'max_map_count' in lines[0]):
        raise Wrong(f'status {result.status}, stderr {result.err[-500:]!r}')


CORE_MAX = 50 << 20


def dumped_bytes(pid):
    """The size of a process's core file as ls -l would show it, or more: its own memory."""
    total = size = 0
    with open(f'/proc/{pid}/smaps', encoding='utf-8') as file:
        for line in file:
            words = line.split()
            if words[0] == 'Size:':
                size = int(words[1]) << 10
            elif words[0] == 'VmFlags:' and 'wr' in words and 'dd' not in words:
                total += size
    return total


def core_mapped(start, heap, protocol):
    sizes = []

    def act(first, pids):
        sizes.extend(dumped_bytes(pid) for pid in pids)
        os.kill(max(pid for pid in pids if pid != first), signal.SIGKILL)
    expect_end(started(start, 'deaths', start, 2, 1, 'never', 'barrier'), 2, SIGNALLED + 9,
               '^roam: node', act=act, env={'ROAM_HEAP': heap, 'ROAM_PROTOCOL': protocol})
    if len(sizes) != 2 or not 1 << 20 < min(sizes) <= max(sizes) < CORE_MAX:
        raise Wrong(f'bytes for a core file: {sizes}')


def core_file(start, how):
    """Makes a real core file, where the system puts them where the program runs."""
    with open('/proc/sys/kernel/core_pattern', encoding='ascii') as file:
        if file.read()[0] in '|/':
            return
    with tempfile.TemporaryDirectory() as directory:
        expect(started(start, 'deaths', start, 2, 1, how, 'barrier'), ENDS[how][0], '^roam: node 1',
               env={'ROAM_HEAP': '64G'}, cwd=directory,
               limits={resource.RLIMIT_CORE: resource.RLIM_INFINITY})
        cores = [os.stat(os.path.join(directory, name)) for name in os.listdir(directory)]
    if len(cores) != 1 or not 0 < max(cores[0].st_size, cores[0].st_blocks * 512) < CORE_MAX:
        raise Wrong(f'core files: {[(core.st_size, core.st_blocks * 512) for core in cores]}')


def core_cases():
    for start in ('fork', 'run'):
        for heap in ('64G', '1T'):
            for protocol in PROTOCOLS:
                yield (f'memory for a core file, {start} {heap} {protocol}', core_mapped, start,
                       heap, protocol)


def limit_cases():
    yield ('max_map_count', map_count)
    if 'uffd' in ENGINES:
        yield ('as many ranges with uffd', stranger, 'alternate', 2, {'ROAM_FAULT': 'uffd'})
    for seed in range(1, 6):
        for engine in ENGINES:
            yield (f'evict {engine} chaos {seed}', stranger, 'evict', 3,
                   {'ROAM_FAULT': engine, 'ROAM_CACHE_PAGES': '100', 'ROAM_CHAOS': str(seed)})


GROUPS = {
    'trouble': lambda: few(trouble_cases()),
    'trouble_more': lambda: rest(trouble_cases()),
    'checks': lambda: few(check_cases()),
    'checks_more': lambda: rest(check_cases()),
    'statics': lambda: [('statics', statics)],
    'limits': lambda: list(limit_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
