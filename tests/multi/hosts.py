#!/usr/bin/env python3
"""Jobs across hosts: network namespaces joined by veth, each as good as a host, reached by
ROAM_RSH="ip netns exec".  The launcher runs in one of its own.

usage: hosts.py [-k PART_OF_A_NAME] [GROUP]...
"""
import atexit
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import kernels_cover
from creating import all_read, created, early, either, fed, not_again, one_pi
from harness import Wrong, expect, expect_end, main, program, run
from run import APART, KINDS, MODELS, ONE_HEAP, SCOPED, delta, regions
from run import PROTOCOLS as ALL

HOSTS = 'abc'
PROTOCOLS = [name for name in ALL if name not in ONE_HEAP]
ORDERED = [name for name in PROTOCOLS if name not in SCOPED]
BESIDE = [name for name in ORDERED if name not in APART]
PREFIX = f'roam-{os.getpid()}-'
SIGNALLED = 128
LOST_MAX = 8.0   # seconds: a host that is cut off is noticed


# ------------------------------------------------------------------------------------- the hosts

def ip(*words):
    subprocess.run(['ip', *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE)


def host(letter):
    return PREFIX + letter


def pids(letter):
    found = subprocess.run(['ip', 'netns', 'pids', host(letter)], check=False, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [int(word) for word in found.stdout.split()]


DAEMONS = set()  # pids that stay


def remove():
    for letter in HOSTS + '0':
        for pid in pids(letter):
            os.kill(pid, signal.SIGKILL)
        subprocess.run(['ip', 'netns', 'del', host(letter)], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make():
    """The launcher's host 0 has a bridge, to which the others are joined."""
    for letter in '0' + HOSTS:
        ip('netns', 'add', host(letter))
        ip('-n', host(letter), 'link', 'set', 'lo', 'up')
    ip('-n', host('0'), 'link', 'add', 'aa0', 'type', 'bridge')
    ip('-n', host('0'), 'addr', 'add', '10.76.0.1/24', 'dev', 'aa0')
    ip('-n', host('0'), 'link', 'set', 'aa0', 'up')
    ip('-n', host('0'), 'link', 'add', 'br0', 'type', 'bridge')
    ip('-n', host('0'), 'addr', 'add', '10.77.0.254/24', 'dev', 'br0')
    ip('-n', host('0'), 'link', 'set', 'br0', 'up')
    for number, letter in enumerate(HOSTS, 1):
        ip('-n', host('0'), 'link', 'add', f'v{letter}', 'type', 'veth', 'peer', 'name', 'eth0',
           'netns', host(letter))
        ip('-n', host('0'), 'link', 'set', f'v{letter}', 'master', 'br0', 'up')
        ip('-n', host(letter), 'addr', 'add', f'10.77.0.{number}/24', 'dev', 'eth0')
        ip('-n', host(letter), 'link', 'set', 'eth0', 'up')


def hosts_or_skip():
    """Makes the hosts; where that is not permitted the whole program is skipped."""
    reason = None
    if os.geteuid() != 0:
        reason = 'network namespaces are for root'
    elif shutil.which('ip') is None:
        reason = 'no command ip'
    else:
        atexit.register(remove)
        try:
            make()
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors='replace').strip().replace('\n', ' ')
    if reason is not None:
        print(f'skip: hosts: {reason}')
        sys.exit(77)


# -------------------------------------------------------------------------------------- commands

def on(letters):
    return ','.join(host(letter) for letter in letters)


def with_own(nodes, letters, *command):
    """As launched, with nodes on the launcher's host too, which has an address that leads nowhere."""
    words = launched(nodes, letters, *command)
    words[words.index('-H') + 1] += ',localhost'
    return words


def launched(nodes, letters, *command):
    return ['ip', 'netns', 'exec', host('0'), program('roam'), 'run', '-n', str(nodes), '-H',
            on(letters), *(str(word) for word in command)]


def env_of(env=None):
    return {'ROAM_RSH': 'ip netns exec', **(env or {})}


@contextlib.contextmanager
def reached_by(text):
    """A ROAM_RSH, a script in which {where} is a directory of its own and $1 the host; "$@" is
    what reaches it by."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, 'rsh')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\n{text.replace("{where}", where)}\nexec ip netns exec "$@"\n')
        os.chmod(path, 0o700)
        yield {'ROAM_RSH': path}, where


def nothing_left():
    end = time.monotonic() + 3
    while True:
        left = {pid: name_of(pid) for letter in HOSTS + '0' for pid in pids(letter)
                if pid not in DAEMONS}
        if not left:
            return
        if time.monotonic() > end:
            raise Wrong(f'left processes: {left}')
        time.sleep(0.01)


def well(command, out, env=None, **how):
    result = expect(command, 0, '', out, env=env_of(env), **how)
    nothing_left()
    return result


def wrong(command, status, err, env=None, seconds=5.0, **how):
    result = expect(command, status, err, env=env_of(env), **how)
    if result.seconds > seconds:
        raise Wrong(f'took {result.seconds:.1f} s')
    nothing_left()


def unreachable(command, err, env=None):
    """What ROAM_RSH says comes before our line."""
    result = run(command, env=env_of(env))
    last = result.err.splitlines()[-1] if result.err else ''
    if result.status != 1 or re.search(err, last) is None or result.seconds > 5:
        raise Wrong(f'status {result.status}, stderr {result.err!r}')
    nothing_left()


def badly(command, nodes, status, err, act=None, seconds=None):
    """Ends badly once all nodes are ready; in `seconds`, or as on one host."""
    how = {'env': env_of(), 'act': act}
    if seconds is None:
        expect_end(command, nodes, status, err, **how)
    else:
        result = expect(command, status, err, wanted=nodes, **how)
        if result.after is None or result.after > seconds:
            raise Wrong(f'ended after {result.after}')
    nothing_left()


def by_host(letter, here, elsewhere):
    """A script that does one thing on one host, and another on the others."""
    return ['sh', '-c', f'case $(ip netns identify) in {host(letter)}) {here};; '
                        f'*) {elsewhere};; esac']


# ------------------------------------------------------------------------------------------ runs

def lines_of(nodes, letters, tag):
    command = launched(nodes, letters, program('hello'))
    if tag:
        command.insert(command.index('-H'), '--tag')
    result = well(command, 'hello')
    for node in range(nodes):
        mark = rf'\[{node}\] ' if tag else ''
        if re.search(rf'^{mark}hello from node {node} of {nodes}$', result.out, re.M) is None:
            raise Wrong(f'no line of node {node}: {result.out!r}')


def input_of_all(nodes, letters):
    all_read(launched(nodes, letters, 'cksum'), nodes, lambda command: well(command, None))


def spools(pid):
    """Bytes that have come to an agent as standard input, and those that it keeps."""
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            if 'roam-input' in os.readlink(f'/proc/{pid}/fd/{fd}'):
                status = os.stat(f'/proc/{pid}/fd/{fd}')
                yield status.st_size, status.st_blocks * 512
        except FileNotFoundError:
            continue


def input_as_wanted(kept_max, *readers):
    """Of an input without end no more is read than nodes read, nor kept when all have had it."""
    read_max, more = 20 << 20, 1 << 20
    script = 'head -c $1 > /dev/null; echo ready $2 $$; until [ -e $3 ]; do sleep 0.05; done'

    def act(_first, _pids):
        time.sleep(0.3)  # for what comes too much
        found = [spool for letter in 'ab' for pid in pids(letter) if name_of(pid) == 'roam'
                 for spool in spools(pid)]
        with open(looked, 'w', encoding='utf-8'):
            pass
        if len(found) != 2 or any(size > read_max + more or kept > kept_max
                                  for size, kept in found):
            raise Wrong(f'came, kept: {found}')

    with tempfile.TemporaryDirectory() as where:
        looked = os.path.join(where, 'looked')
        command = launched(2, 'ab', *by_host('a', *(
            f"sh -c '{script}' sh {read_max if reads else 0} {node} {looked}"
            for node, reads in enumerate(readers))))
        expect(['sh', '-c', 'yes | exec "$0" "$@"', *command], wanted=2, act=act, env=env_of())
    nothing_left()


def counted(name, command, env=None):
    """A counter of each node."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, 'stats.json')
        well(command, None, {**(env or {}), 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            return json.load(file)['counters'][name]


def stats(nodes, letters):
    barriers = counted('barriers', launched(nodes, letters, program('hello')))
    if [count > 0 for count in barriers] != [True] * nodes:
        raise Wrong(f'barriers of {nodes} nodes: {barriers}')


def with_words(command, *words):
    at = command.index('-n')
    return [*command[:at], *words, *command[at:]]


def bindings(nodes, letters):
    result = run(with_words(launched(nodes, letters, program('hello')), '--report-bindings'),
                 env=env_of())
    hosts = sorted(re.findall(r'^roam: node \d+ on host (\S+) \(pid \d+\): CPUs [\d,-]+$',
                              result.err, re.M))
    if result.status != 0 or hosts != sorted(host(letters[node * len(letters) // nodes])
                                             for node in range(nodes)):
        raise Wrong(f'status {result.status}, {result.err!r}')
    nothing_left()


def hostfile(text, check):
    """The hosts from a file instead; {a} and {b} in it are two of ours."""
    with tempfile.NamedTemporaryFile(mode='w', prefix='hosts-') as file:
        file.write(text.format(a=host('a'), b=host('b')))
        file.flush()
        words = launched(4, '', program('hello'))
        at = words.index('-H')
        check([*words[:at], '-f', file.name, *words[at + 2:]])


def hostfile_read(command):
    result = run(with_words(command, '--report-bindings'), env=env_of())
    found = sorted(re.findall(r'^roam: node (\d) on host \S+-(\w) ', result.err, re.M))
    if result.status != 0 or found != [('0', 'a'), ('1', 'b'), ('2', 'b'), ('3', 'b')]:
        raise Wrong(f'status {result.status}, {result.err!r}')
    nothing_left()


def under_gdb(nodes, letters):
    well(with_words(launched(nodes, letters, program('hello')), '--gdb', str(nodes - 1)),
         r'Inferior 1 .* exited normally')


def counters(command, env=None):
    """All counters, summed up over the nodes."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, 'stats.json')
        well(command, 'verified ok', {**(env or {}), 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            return {name: sum(each) for name, each in json.load(file)['counters'].items()}


def two_ways(nodes, letters, near, datagrams, env):
    """Nodes of one host reach each other's memory, those of others by datagrams only."""
    counts = counters(launched(nodes, letters, program('fft'), f'-p{nodes}', '-m12', '-t'), env)
    if (counts['bytes_fetched'] > 0, counts['datagrams_sent'] > 0) != (near, datagrams):
        raise Wrong(f'{counts["bytes_fetched"]} bytes fetched, {counts["datagrams_sent"]} '
                    'datagrams sent')


def sealed(seal, yes):
    """Only a sealed datagram that comes twice is refused as such."""
    env = {'ROAM_FAULTY': 'repeat=50%,seed=1', **({'ROAM_SEAL': seal} if seal else {})}
    twice = counted('datagrams_replayed', launched(3, 'ab', program('hello')), env)
    if (sum(twice) > 0) != yes:
        raise Wrong(f'replayed datagrams: {twice}')


def cipher(without, seal, name):
    """AES where the CPUs of all hosts have it; `without` has none."""
    script = f'[ "$1" = "{without}" ] && export LD_PRELOAD={program("no_aes")}'
    with reached_by(script) as (env, _):
        result = run(launched(3, 'ab', program('hello')),
                     env=env_of({**env, 'ROAM_LOG': 'info', 'ROAM_SEAL': seal}))
    said = ['roam: info: 3 nodes on 2 hosts, by roam run -H, over udp, on each over shm',
            f'roam: info: datagrams are sealed by {name}']
    if result.status != 0 or result.err.splitlines() != said:
        raise Wrong(f'status {result.status}, {result.err!r}')
    nothing_left()


def other_clocks():
    """Host b has been up for another time, and believes another year: clocks are not compared."""
    script = f'[ "$1" = {host("b")} ] && export LD_PRELOAD={program("wall")}'
    if os.path.exists('/proc/self/ns/time'):
        script += ' && set -- "$1" unshare --time --monotonic 5000000 --boottime 5000000 ' \
            '$(shift; echo "$@")'
    with reached_by(script) as (env, _):
        result = well(launched(4, 'ab', 'sh', '-c', f'echo "up $(cut -d. -f1 /proc/uptime) in '
                               f'$(date +%Y)"; exec {program("hello")}'), 'the sum of 1 to 4 is 10',
                      env)
        well(launched(4, 'ab', program('fft'), '-p4', '-m12', '-t'), 'verified ok', env)
    clocks = re.findall(r'^up (\d+) in (\d+)$', result.out, re.M)
    ups, years = ({int(clock[which]) for clock in clocks} for which in (0, 1))
    if max(years) - min(years) < 9 or \
            (os.path.exists('/proc/self/ns/time') and max(ups) - min(ups) < 4e6):
        raise Wrong(f'the clocks do not differ: {clocks}')


def aes_here():
    with open('/proc/cpuinfo', encoding='utf-8') as info:
        flags = re.search('^flags.*', info.read(), re.M)
    return flags is not None and {'aes', 'pclmulqdq', 'avx'} <= set(flags.group().split())


def cipher_cases():
    aes = 'AES-256-GCM' if aes_here() else 'ChaCha20-Poly1305'
    for seal in ('auth', 'encrypt'):
        yield (f'{seal}, AES everywhere', cipher, '', seal, aes)
        yield (f'{seal}, one host has no AES', cipher, host('b'), seal, 'ChaCha20-Poly1305')
    yield ('not sealed', cipher, '', 'off', 'nothing')


def creates(way, nodes, letters, env=None):
    created(well(fed(launched(nodes, letters, program('create'), way, nodes)), None, env), nodes)


def second_round():
    not_again(run(fed(launched(2, 'ab', program('create'), 'again', 2)), env=env_of()))
    nothing_left()


def ported(nodes, threads, env=None):
    """The program of docs/porting.md says on two hosts what it said before it was ported."""
    command = launched(nodes, 'ab', program('porting_after'), nodes * threads)
    if threads > 1:
        command = with_words(command, '--threads', str(threads))
    wanted, said = run([program('porting_before'), '4']).out, well(command, None, env).out
    if said != wanted or not wanted:
        raise Wrong(f'{said!r}, before {wanted!r}')


def quick_cases():
    yield ('hello on 2 hosts', lines_of, 4, 'ab', False)
    yield ('hello on 3 hosts, marked', lines_of, 5, 'abc', True)
    yield ('CREATE of all', creates, 'all', 4, 'ab')
    yield ('CREATE one by one', creates, 'each', 3, 'abc')
    yield ('CREATE that nothing announced', creates, 'late', 4, 'ab')
    yield ('CREATE too late', lambda: early(run(
        fed(launched(2, 'ab', program('create'), 'early', 2)), env=env_of())))
    yield ('the first program', lambda: one_pi(run(launched(4, 'ab', program('example')),
                                                   env=env_of())))
    yield ('CREATE after roam_start', well, launched(3, 'ab', program('either'), 3, 'create'),
           r'\Athe sum is 303\n\Z')
    for nodes, threads in ((4, 1), (2, 2)):
        yield (f'a ported program, {nodes} nodes of {threads} threads', ported, nodes, threads)
    yield ('no CREATE follows', lambda: either(run(launched(3, 'ab', program('either'), 3),
                                                   env=env_of()), 3))
    yield ('the launcher\'s host, too', well, with_own(4, 'a', program('hello')), 'is 10')
    yield ('input', input_of_all, 3, 'ab')
    yield ('input without end', input_as_wanted, 3 << 20, True, True)
    yield ('input without end, one reads it', input_as_wanted, 22 << 20, True, False)
    yield ('counters', stats, 3, 'abc')
    for seal, yes in ((None, True), ('encrypt', True), ('off', False)):
        yield (f'sealed, ROAM_SEAL={seal}', sealed, seal, yes)
    yield from cipher_cases()
    yield ('other clocks on a host', other_clocks)
    yield ('status', wrong, launched(3, 'ab', 'sh', '-c', 'exit 3'), 3,
           rf'^roam: node [0-2] on host {PREFIX}[ab] \(pid \d+\) exited with status 3$')
    yield ('unknown host', unreachable, launched(2, 'ax', program('hello')),
           rf'^roam: run: cannot start on host {host("x")}: `ip netns exec` exited with status')
    yield ('other -p', wrong, launched(8, 'ab', program('lu'), '-p4', '-n64'), 1,
           '^roam: the program asks for 4 nodes, the launcher started 8$')
    yield ('lu', well, launched(4, 'ab', program('lu'), '-p4', '-n128', '-t'), 'verified ok')
    yield ('copies at the end', well, launched(2, 'ab', program('copies'), 2), 'all as it was written')
    yield (f'a region under {KINDS["one writer"]}', spread_regions, 'once', KINDS['default'],
           [KINDS['one writer']])
    yield ('a region with a delta', delta, launched(2, 'ab', program('delta'), 'run', 2), env_of())
    yield ('two on each host', two_ways, 4, 'ab', True, True, {})
    yield ('one on each host', two_ways, 2, 'ab', False, True, {})
    yield ('all on one host', two_ways, 4, 'a', True, False, {})
    for how in ('all', 'loop', 'unequal'):
        for nodes, letters in ((2, 'ab'), (4, 'ab')):
            yield (f'{nodes} nodes of two threads, {how}', well,
                   with_words(launched(nodes, letters, program('team'), how, 2 * nodes, 2, 1),
                              '--threads', '2'), f'{2 * nodes} processes right')
    yield ('two on each host, all by udp', two_ways, 4, 'ab', False, True,
           {'ROAM_TRANSPORT': 'udp'})
    yield ('two on each host, by messages', two_ways, 4, 'ab', False, True,
           {'ROAM_ONESIDED': '0'})
    yield ('two on each host wake each other', well, launched(4, 'ab', program('wake'), 4),
           'woken at once')
    yield ('bindings', bindings, 4, 'ab')
    yield ('hostfile', hostfile, '# ours\n{a} slots=1\n\n{b}:2 # and\n{b}\n', hostfile_read)
    yield ('hostfile with garbage', hostfile, '# ours\n{a} slots=1\n{b} slots=many\n',
           lambda command: wrong(command, 2, r'^roam: run: -f: /\S+:3: a number of nodes is missing'))
    yield ('hostfile with too little room', hostfile, '{a} slots=1\n{b}:2\n',
           lambda command: wrong(command, 2, r'^roam: run: the hosts have room for 3 nodes, -n '
                                 'asks for 4$'))
    if shutil.which('gdb') is not None:
        yield ('gdb', under_gdb, 3, 'ab')
    yield ('another heap by a script', well,
           launched(4, 'ab', 'sh', '-c', f'ROAM_HEAP=32M exec {program("hello")}'), 'is 10')


def spread_regions(start, protocol, others):
    regions(launched(3, 'abc', program('regions'), start, 3, *others), protocol,
            env_of({'ROAM_HEAP': '48M'}))
    nothing_left()


def run_cases():
    for protocol in PROTOCOLS:
        env = {'ROAM_PROTOCOL': protocol}
        yield (f'lu {protocol}', well,
               launched(3, 'abc', program('lu'), '-p3', '-n96', '-t'), 'verified ok', env)
        yield (f'fft {protocol}', well,
               launched(4, 'ab', program('fft'), '-p4', '-m12', '-t'), 'verified ok', env)
        yield (f'CREATE {protocol}', creates, 'all', 3, 'abc', env)
        yield (f'copies at the end {protocol}', well, launched(3, 'abc', program('copies'), 3),
               'all as it was written', env)
        if MODELS[protocol] != 'SC':  # there each take from the queue moves pages
            for nodes, threads in ((4, 1), (2, 2)):
                yield (f'a ported program {protocol}, {nodes} nodes of {threads} threads', ported,
                       nodes, threads, env)
    for program_, words in (('radix', ['-p4', '-n20000', '-t']), ('jump-sor', ['-p4', '-n128', '-t'])):
        yield (program_, well, launched(4, 'ab', program(program_), *words), 'ok')
    for at, (name, words) in enumerate(kernels_cover.PROGRAMS.items()):
        fit = [protocol for protocol in PROTOCOLS if kernels_cover.suits(name, protocol)]
        protocol = fit[at % len(fit)]
        yield (f'{name} {protocol}', well, launched(4, 'ab', program(name), '-p4', *words),
               'verified ok', {'ROAM_PROTOCOL': protocol})
    lossy = {'ROAM_FAULTY': 'drop=5%,reorder=2%,repeat=1%,seed=7'}
    yield ('lu, 5 % lost', well, launched(4, 'ab', program('lu'), '-p4', '-n128', '-t'),
           'verified ok', lossy)
    yield ('threads', well, launched(3, 'abc', program('threads'), 'run', 3, 2, 10, 'settled'),
           'counted right')
    yield ('one heap', well, launched(2, 'ab', program('heap'), 'run', 2, 16 << 20), 'one heap',
           {'ROAM_HEAP': str(16 << 20), 'ROAM_LOG': 'error'})
    for start in ('once', 'run'):
        for protocol in ORDERED:
            yield (f'regions of all beside {protocol}, {start}', spread_regions, start, protocol,
                   [protocol] if protocol in APART else BESIDE)
    yield ('idle', well, launched(4, 'ab', program('idle'), 4), 'node 3: ')
    yield ('locks', well, launched(3, 'abc', program('locks'), 'run', 3, 2000),
           '2000 locks right')


def random_cases():
    """Random race-free programs, every read checked (random_run.py has them on one host)."""
    lossy = {'ROAM_FAULTY': 'drop=5%,reorder=2%,repeat=1%,delay=1%:2ms,seed='}
    for seed in range(1, 7):
        for at, protocol in enumerate(PROTOCOLS):
            other = protocol if protocol in APART else BESIDE[(at + seed) % len(BESIDE)]
            scoped = protocol not in ORDERED
            env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': ('uffd', 'sigsegv')[seed % 2]}
            if seed % 4 == 0:
                env['ROAM_FAULTY'] = lossy['ROAM_FAULTY'] + str(seed)
            if seed % 3 == 0:
                env.update(({'ROAM_TRANSPORT': 'udp'}, {'ROAM_ONESIDED': '0'})[seed % 2])
            nodes = 2 + seed % 4
            rest = ['--scoped', '1'] if scoped else ['--region', other] if seed % 2 else []
            rest += ['--team', '2'] if seed % 3 == 1 else []
            yield (f'random {seed} {protocol}', well,
                   ['ip', 'netns', 'exec', host('0'), program('random'), '--seed', str(seed),
                    '--nodes', str(nodes), '--threads', str(1 + seed % 3), '--roam',
                    program('roam'), '--hosts', on('abc'[:2 + seed % 2]), *rest],
                   '^right', env)


# --------------------------------------------------------------------------------------- failures

def killed_in(letter, number):
    def act(_first, _pids):
        victims = [pid for pid in pids(letter) if name_of(pid) == 'multi_deaths']
        os.kill(victims[0], number)
    return act


def name_of(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
            return file.read().strip()
    except OSError:
        return ''


def agent_killed(_first, _pids):
    for pid in pids('b'):
        if name_of(pid) == 'roam':
            os.kill(pid, signal.SIGKILL)


def launcher_killed(first, _pids):
    os.kill(first, signal.SIGKILL)


def cut_off(_first, _pids):
    ip('-n', host('b'), 'link', 'set', 'eth0', 'down')


def cut(command):
    """Host b goes: the line comes in time; and the agent there sees it too, and ends its nodes."""
    try:
        badly_cut(command)
    finally:
        ip('-n', host('b'), 'link', 'set', 'eth0', 'up')


def badly_cut(command):
    # Launcher and nodes have the same deadline: one of them is first.
    result = expect(command, 1, rf'^roam: (run: host {host("b")} is lost|'
                    r'node \d on host \S+: node \d on \S+ has been silent)', wanted=3,
                    env=env_of(), act=cut_off)
    if result.after is None or result.after > LOST_MAX:
        raise Wrong(f'ended after {result.after}')
    end = time.monotonic() + LOST_MAX
    while pids('b'):
        if time.monotonic() > end:
            raise Wrong(f'left on the lost host: {pids("b")}')
        time.sleep(0.05)
    nothing_left()


def deaths(how, others):
    return launched(3, 'abc', program('deaths'), 'run', 3, 1, how, others)


def other_build(words):
    """One host has another file at the same name."""
    with tempfile.TemporaryDirectory() as where:
        copy = os.path.join(where, 'hello')
        shutil.copy(program('hello'), copy)
        with open(copy, 'ab') as file:
            file.write(b'another build')
        wrong(launched(3, 'abc', *by_host('b', f'exec {copy}', f'exec {program("hello")}')), 1,
              words)


def stubborn(twice):
    def act(first, _pids):
        os.kill(first, signal.SIGTERM)
        if twice:
            time.sleep(0.3)
            os.kill(first, signal.SIGTERM)
    script = 'trap "" INT TERM; echo ready 0 $$; while :; do sleep 0.05; done'
    result = expect(launched(2, 'ab', 'sh', '-c', script), SIGNALLED + signal.SIGTERM, wanted=2,
                    act=act, env=env_of())
    least, most = (0, 2.5) if twice else (5, 7.5)
    if not least <= result.after <= most:
        raise Wrong(f'ended after {result.after:.1f} s')
    nothing_left()


def failure_cases():
    other = rf'node 1 on host {host("b")} \(pid \d+\)'
    yield ('node killed', badly, deaths('kill', 'barrier'), 3, SIGNALLED + 9,
           rf'^roam: {other} was killed by signal 9 \(Killed\); '
           + ', '.join(rf'node {node} waited at roam_barrier_all \(2 of 3 threads arrived\)'
                       for node in (0, 2)) + '$')
    yield ('node killed, others compute', badly, deaths('kill', 'compute'), 3, SIGNALLED + 9,
           rf'^roam: {other} was killed by signal 9 \(Killed\)$')
    yield ('node exits', badly, deaths('_exit0', 'barrier'), 3, 1,
           rf"^roam: {other} exited with status 0 before the job's end; node 0 waited")
    yield ('node ends', badly, deaths('exit0', 'partial'), 3, 1,
           r'^roam: node [02] on host \S+: threads wait at barrier 0x\w+ for node 1, which has '
           'ended')
    for how in ('exit0', 'finish', 'pthread'):
        yield (f'node ends early, {how}', well, launched(3, 'abc', program('deaths'), 'fork', 3, 1, how, 'slow'),
               '(?s)ready.*ready')
    yield ('node killed from outside', badly, deaths('never', 'lock'), 3, SIGNALLED + 9,
           rf'^roam: {other} was killed by signal 9', killed_in('b', signal.SIGKILL))
    yield ('agent killed', badly, deaths('never', 'barrier'), 3, 1,
           rf'^roam: run: host {host("b")} is lost', agent_killed)
    yield ('launcher killed', badly, deaths('never', 'barrier'), 3, -signal.SIGKILL, '',
           launcher_killed)
    yield ('host cut off', cut, deaths('never', 'barrier'))
    yield ('stubborn', stubborn, False)
    yield ('stubborn, asked twice', stubborn, True)
    yield ('timeout', wrong, with_words(deaths('never', 'barrier'), '--timeout', '1'), 124,
           r'^roam: run: the job has not ended within 1 s \(--timeout\); node 0 waited')
    yield ('node stopped for a second', stopped, 1)
    yield ('node stopped for good', stopped, None)
    yield ('node killed, one beside it', badly,
           launched(4, 'ab', program('deaths'), 'run', 4, 1, 'kill', 'barrier'), 4, SIGNALLED + 9,
           rf'^roam: node 1 on host {host("a")} \(pid \d+\) was killed by signal 9 \(Killed\); '
           + ', '.join(rf'node {node} waited at roam_barrier_all \(3 of 4 threads arrived\)'
                       for node in (0, 2, 3)) + '$')


def quit_first(first, _pids):
    os.kill(first, signal.SIGQUIT)
    return ''


def where_is(which):
    """By `roam where` of the launcher, or of a node; what that says."""
    def ask(first, pids_):
        return run([program('roam'), 'where', str(first if which is None else pids_[which])]).out
    return ask


def asked(words, ask, env):
    """One report has the nodes of both hosts, with what each waits for, or where it computes; the
    job goes on for longer than one that a signal is to end."""
    said = []

    def act(first, pids_):
        time.sleep(1)
        said.append(ask(first, pids_))
    result = run(words, env=env, wanted=4, act=act)
    who = [rf'roam: node {node} on host \S+ \(pid \d+\) ' for node in range(4)]
    lines = [who[0] + r'computes in 1 of 1 threads, at \S+\+0x[0-9a-f]+.*',
             *(each + r'waits at barrier 0x\w+ \(3 of 4 threads arrived\)' for each in who[1:])]
    told = [*said[0].splitlines(), *result.err.splitlines()]
    if result.status != 0 or 'went on' not in result.out or len(told) != 4 or \
            not all(map(re.fullmatch, lines, told)) or (said[0] == '') != (result.err != ''):
        raise Wrong(f'status {result.status}, {result.err!r}, {said!r}, {result.out[-200:]!r}')
    nothing_left()


def hang_cases():
    """What needs no other host is hang.py's."""
    judged = rf'^roam: node 0 on host {host("a")}: no thread of the job can go on; '
    for nodes, letters, env in ((4, 'ab', None), (3, 'abc', {'ROAM_TRANSPORT': 'udp'})):
        yield (f'wrong barrier count, {nodes} nodes on {letters}', wrong,
               launched(nodes, letters, program('hung'), 'run', nodes, 'barrier'), 1,
               judged + ', '.join(
                   rf'node {node} waited at barrier 0x\w+ \({nodes} of {nodes + 1} threads arrived\)'
                   for node in range(nodes)) + '$', env, 15.0)
    yield ('many threads', wrong, launched(2, 'ab', program('hung'), 'run', 2, 'many'), 1,
           judged + ', '.join(rf'node {node} waited in 101 threads at barrier 0x\w+ '
                              r'\(202 of 203 threads arrived\)' for node in (0, 1)), None, 25.0)
    yield ('locks in a circle', wrong, launched(2, 'ab', program('hung'), 'run', 2, 'locks'), 1,
           judged + r'node 0 waited in lock 0x\w+, node 1 waited in lock 0x\w+$', None, 15.0)
    yield ('a flag that nobody sets', wrong, launched(3, 'ab', program('hung'), 'run', 3, 'flag'),
           1, judged + r'node 0 waited at the end of the job \(1 of 3 threads arrived\), '
           'node 1 waited for flag', None, 15.0)
    compute = launched(4, 'ab', program('hung'), 'run', 4, 'compute')
    yield ('SIGQUIT', asked, [*compute, '7'], quit_first, env_of())
    yield ('ROAM_HANG', asked, compute, lambda *_: '', env_of({'ROAM_HANG': '1'}))
    yield ('roam where', asked, compute, where_is(None), env_of())
    yield ('roam where, a node of another host', asked, compute, where_is(3), env_of())


def stopped(seconds):
    """Less than the deadline is survived, more is not; `seconds` None: for good."""
    deadline = 2
    env = env_of({'ROAM_DEADLINE': str(deadline)})

    def act(_first, pids_):
        os.kill(pids_[1], signal.SIGSTOP)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pids_[1], signal.SIGCONT)

    if seconds is not None:
        expect(launched(3, 'abc', program('idle'), 3), out='node 2: ', wanted=3, act=act, env=env)
    else:
        result = expect(deaths('never', 'barrier'), 1, rf'^roam: node [02] on host \S+: node 1 on '
                        rf'{host("b")} has been silent for {deadline}\.\d s, longer than '
                        'ROAM_DEADLINE', wanted=3, act=act, env=env)
        if not deadline - 0.7 <= result.after <= LOST_MAX:
            raise Wrong(f'ended after {result.after}')
    nothing_left()


def narrow():
    ip('-n', host('b'), 'link', 'set', 'eth0', 'mtu', '500')
    try:
        wrong(launched(2, 'ab', program('hello')), 1,
              rf'^roam: node 1 on host {host("b")}: cannot start the node: .*MTU')
    finally:
        ip('-n', host('b'), 'link', 'set', 'eth0', 'mtu', '1500')


def other_library():
    """One host has another libroam."""
    with reached_by(f'[ "$1" = {host("b")} ] && export LD_LIBRARY_PATH={{where}}') as (env, where):
        copy = os.path.join(where, 'libroam.so.0')
        shutil.copy(program('libroam'), copy)
        with open(copy, 'ab') as file:
            file.write(b'another build')
        wrong(['env', '-u', 'LD_LIBRARY_PATH', *launched(3, 'abc', program('shared'))], 1,
              rf'^roam: run: node 1 on host {host("b")} uses another libroam than node 0 on host '
              rf'{host("a")}: install one version on all hosts$', env)


MAGIC, KEY = 0, 8  # where they are in what an agent reads first


def meddle(at, command):
    """Runs an agent whose first input has another byte there."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as agent:
        card = bytearray(os.read(0, 4096))
        card[at] ^= 1
        os.write(agent.stdin.fileno(), card)
        return agent.wait()


def other_agent(at, fix):
    """One byte of what the launcher tells the agent on host b arrives as another."""
    with reached_by(f'[ "$1" = {host("b")} ] && exec {sys.executable} {__file__} --meddle {at} '
                    'ip netns exec "$@"') as (env, _):
        wrong(launched(2, 'ab', program('hello')), 1,
              rf'^roam: run: cannot start on host {host("b")}: `\S+` exited with status \d '
              rf'\({fix}', env)


JOIN, BOOT, FAIL = 1, 2, 5  # frames of src/launch/control.h


def other_boot():
    """What a node's agent answers is as long as in another version."""
    agent, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    agent.settimeout(10)
    with agent, its, subprocess.Popen(
            [program('hello')], pass_fds=[its.fileno()],
            env={**os.environ, 'ROAM_BOOT': f'far:{its.fileno()}'}) as node:
        joined = agent.recv(65536)
        agent.send(struct.pack('<4I', BOOT, 0, 8, 0) + bytes(8))
        said = agent.recv(65536)
        status = node.wait(10)
    if (joined[0], said[0], status == 0) != (JOIN, FAIL, False) or \
            b'different versions of roam: install one version' not in said:
        raise Wrong(f'{joined!r}, {said!r}, status {status}')


@contextlib.contextmanager
def ports_taken(letter, kind):
    """On a host no port is free."""
    setting = '/proc/sys/net/ipv4/ip_local_port_range'
    first, last = 40000, 40003
    code = ('import socket, sys\n'
            f'open("{setting}", "w").write("{first} {last}")\n'
            f'held = [socket.socket(type=socket.{kind}) for _ in range({last - first + 1})]\n'
            f'for place, held_ in enumerate(held): held_.bind(("", {first} + place))\n'
            'print(flush=True); sys.stdin.read()\n'
            f'open("{setting}", "w").write("32768 60999")\n')
    with subprocess.Popen(['ip', 'netns', 'exec', host(letter), sys.executable, '-c', code],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        DAEMONS.add(holder.pid)
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()
            holder.wait()
            DAEMONS.discard(holder.pid)


def no_port(letter, kind, err):
    with ports_taken(letter, kind):
        wrong(launched(2, 'ab', program('hello')), 1, err)


def refusal_cases():
    yield ('ROAM_RSH fails', wrong, launched(2, 'ab', program('hello')), 1,
           r'^roam: run: cannot start on host \S+: `false` exited with status 1',
           {'ROAM_RSH': 'false'})
    yield ('ROAM_RSH is not there', unreachable, launched(2, 'a', program('hello')),
           r'cannot start on host \S+: `/nonexistent/rsh` exited with status 127',
           {'ROAM_RSH': '/nonexistent/rsh'})
    yield ('nothing to run', wrong, launched(2, 'a', '/nonexistent/program'), 127,
           rf'^roam: node 0 on host {host("a")}: cannot run /nonexistent/program: No such file')
    yield ('another program on a host', other_build,
           rf'^roam: run: node 1 on host {host("b")} runs another program than node 0 on host '
           rf'{host("a")}: copy it to all hosts$')
    yield ('another libroam on a host', other_library)
    yield ('another roam on a host', other_agent, MAGIC,
           'does that host have another version of roam\\? install the same on all hosts\\)$')
    yield ('another key on a host', other_agent, KEY,
           'its agent has another key than was sent to it')
    yield ('an agent of another version', other_boot)
    yield ('no UDP port', no_port, 'b', 'SOCK_DGRAM',
           rf'^roam: node 1 on host {host("b")}: cannot start the node: Address already in use '
           r'\(no UDP port is free')
    yield ('no TCP port', no_port, '0', 'SOCK_STREAM',
           r'^roam: run: cannot listen for the agents on this host: Address already in use '
           r'\(no TCP port is free')
    yield ('another option on a host', wrong,
           launched(3, 'abc', *by_host('c', f'ROAM_HOT=0 exec {program("hello")}',
                                       f'exec {program("hello")}')), 1,
           rf'^roam: run: node 2 on host {host("c")} has another ROAM_HOT than node 0 on host')
    yield ('joined twice', wrong,
           launched(2, 'ab', 'sh', '-c', f'{program("hello")}; exec {program("hello")}'), 1,
           'joined twice: a script that starts the program twice')
    yield ('a node that never joins', wrong,
           launched(3, 'abc', *by_host('c', 'sleep 0.5; exit 0', f'exec {program("hello")}')), 1,
           rf'^roam: node 2 on host {host("c")} \(pid \d+\) exited with status 0 and never called '
           'roam_start')
    yield ('other allocations', wrong,
           fed(launched(3, 'abc', program('create'), 'uneven', 3)), 1,
           rf'^roam: run: node [12] on host {PREFIX}[bc] has allocated other blocks before CREATE '
           'than node 0')
    yield ('other -p, more CREATEs', wrong,
           fed(launched(2, 'ab', program('create'), 'each', 4)), 1,
           '^roam: the program asks for 4 nodes, the launcher started 2$')
    yield ('other -p, fewer CREATEs', wrong,
           fed(launched(4, 'ab', program('create'), 'each', 2)), 1,
           '^roam: the program asks for 2 nodes, the launcher started 4$')
    yield ('a second round', second_round)
    yield ('other -p, fewer', wrong, launched(2, 'ab', program('fft'), '-p4', '-m10'), 1,
           '^roam: the program asks for 4 nodes, the launcher started 2$')
    yield ('no CREATE at all', wrong, launched(2, 'ab', program('fft'), '-p1', '-m10'), 1,
           '^roam: the program asks for 1 nodes, the launcher started 2$')
    yield ('ROAM_MTU too small', wrong, launched(2, 'ab', program('hello')), 2,
           '^roam: ROAM_MTU=100: must be 0, or at least 576$', {'ROAM_MTU': '100'})
    yield ('a network with a small MTU', narrow)
    yield ('a transport of one host', wrong, launched(2, 'ab', program('hello')), 2,
           '^roam: run: ROAM_TRANSPORT=shm: it does not reach other hosts; udp or packet does$',
           {'ROAM_TRANSPORT': 'shm'})


# ---------------------------------------------------------------------------------------- garbage

HELLO = b'roamtcp1' + bytes(24)


def garbage(port, seed):
    """What strangers may send to the launcher: run in its namespace."""
    rng = random.Random(seed)
    kept = []
    for turn in range(60):
        there = socket.create_connection(('127.0.0.1', port), timeout=2)
        kinds = [b'', rng.randbytes(rng.randrange(1, 200)), HELLO, HELLO[:rng.randrange(1, 32)],
                 HELLO + rng.randbytes(400), HELLO + struct.pack('<I', 0xffffffff) + bytes(100),
                 HELLO + struct.pack('<I', 40) + rng.randbytes(40),
                 HELLO + struct.pack('<I', 16000) + rng.randbytes(8000)]
        try:
            there.sendall(kinds[turn % len(kinds)])
        except OSError:
            pass
        if turn % 3 == 0:
            kept.append(there)  # stays open, silent
        else:
            there.close()


def listening(pid, name='roam'):
    """The port that a process's namespace listens at; None: none yet."""
    if name_of(pid) != name:  # not in its namespace yet
        return None
    with open(f'/proc/{pid}/net/tcp', encoding='utf-8') as table:
        for row in table.readlines()[1:]:
            fields = row.split()
            if fields[3] == '0A':
                return int(fields[1].split(':')[1], 16)
    return None


def strangers(seed):
    """The job comes about though strangers speak first, and agents come late."""
    with reached_by('sleep 1.5') as (slow, _):
        with subprocess.Popen(launched(3, 'ab', program('hello')), env={
                **os.environ, **slow}, stdin=subprocess.DEVNULL, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
            port, end = None, time.monotonic() + 1
            while port is None and time.monotonic() < end:
                port = listening(job.pid)
                time.sleep(0.01)
            subprocess.run(['ip', 'netns', 'exec', host('0'), sys.executable, __file__,
                            '--garbage', str(port), str(seed)], check=True)
            out, err = job.communicate(timeout=20)
    if job.returncode != 0 or err or 'the sum of 1 to 3 is 6' not in out:
        raise Wrong(f'status {job.returncode}, {out!r}, {err!r}')
    nothing_left()


# -------------------------------------------------------------------------------------------- ssh

SSHD = '/usr/sbin/sshd'


def key(where, name):
    path = os.path.join(where, name)
    subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', path], check=True)
    return path


def sshd_start(letter, where, number):
    """A daemon of our own on a host, with keys that are thrown away."""
    config = os.path.join(where, 'sshd_config')
    with open(config, 'w', encoding='utf-8') as file:
        file.write(f'Port 22\nHostKey {where}/host\nAuthorizedKeysFile {where}/user.pub\n'
                   'UsePAM no\nStrictModes no\nPasswordAuthentication no\nPidFile none\n'
                   f'PermitRootLogin prohibit-password\nSetEnv HOME={where}\n')
    command = ['ip', 'netns', 'exec', host(letter), SSHD, '-D', '-e', '-f', config]
    daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    DAEMONS.add(daemon.pid)
    end = time.monotonic() + 5
    while listening(daemon.pid, 'sshd') is None:
        if daemon.poll() is not None or time.monotonic() > end:
            raise Wrong(f'sshd on host {number} does not listen')
        time.sleep(0.01)
    return daemon


def over_ssh(check, nodes, numbers, command, *arguments):
    made = not os.path.isdir('/run/sshd')
    daemons = []
    with tempfile.TemporaryDirectory() as where:
        try:
            os.makedirs('/run/sshd', exist_ok=True)
            key(where, 'host')
            rsh = (f'ssh -F none -i {key(where, "user")} -o BatchMode=yes -o LogLevel=ERROR '
                   '-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null')
            for number, letter in enumerate('ab', 1):
                daemons.append(sshd_start(letter, where, number))
            words = launched(nodes, '', *command)
            words[words.index('-H') + 1] = ','.join(f'10.77.0.{number}' for number in numbers)
            check(words, *arguments, env={'ROAM_RSH': rsh})
        finally:
            for daemon in daemons:
                daemon.kill()
                daemon.wait()
                DAEMONS.discard(daemon.pid)
            if made:
                os.rmdir('/run/sshd')


def ssh_deaths(words, status, err, act, env):
    expect_end(words, 2, status, err, act=act, env=env)
    nothing_left()


def ssh_cases():
    if not os.path.exists(SSHD):
        print('skip: ssh: no sshd')
        yield ('ssh is not tested', lambda: None)
        return
    deaths_ = [program('deaths'), 'run', '2', '1', 'never', 'barrier']
    yield ('hello over ssh', over_ssh, well, 4, (1, 2), [program('hello')], 'the sum of 1 to 4')
    yield ('status over ssh', over_ssh, wrong, 2, (1, 2), ['sh', '-c', 'exit 5'], 5,
           r'^roam: node [01] on host 10.77.0.[12] \(pid \d+\) exited with status 5$')
    yield ('node killed over ssh', over_ssh, ssh_deaths, 2, (1, 2), deaths_, SIGNALLED + 9,
           r'^roam: node 1 on host 10.77.0.2 \(pid \d+\) was killed by signal 9',
           killed_in('b', signal.SIGKILL))
    yield ('launcher killed over ssh', over_ssh, ssh_deaths, 2, (1, 2), deaths_, -signal.SIGKILL,
           '', launcher_killed)
    yield ('roam where over ssh', over_ssh, asked, 4, (1, 2),
           [program('hung'), 'run', '4', 'compute'], where_is(None))
    yield ('ssh refused', over_ssh, unreachable, 2, (1, 3), [program('hello')],
           '^roam: run: cannot start on host 10.77.0.3: `ssh .*` exited with status 255')


def stranger_cases():
    for seed in (1, 2):
        yield (f'strangers at the port, seed {seed}', strangers, seed)


GROUPS = {
    'quick': lambda: list(quick_cases()),
    'runs': lambda: list(run_cases()),
    'random': lambda: list(random_cases()),
    'failures': lambda: list(failure_cases()),
    'hang': lambda: list(hang_cases()),
    'refusals': lambda: list(refusal_cases()),
    'ssh': lambda: list(ssh_cases()),
    'strangers': lambda: list(stranger_cases()),
}

if __name__ == '__main__':
    if sys.argv[1:2] == ['--garbage']:
        garbage(int(sys.argv[2]), int(sys.argv[3]))
        sys.exit(0)
    if sys.argv[1:2] == ['--meddle']:
        sys.exit(meddle(int(sys.argv[2]), sys.argv[3:]))
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it for what runs behind it
    hosts_or_skip()
    main(GROUPS)
