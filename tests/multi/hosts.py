#!/usr/bin/env python3
"""Jobs across hosts (netns.py): programs, input, options, random programs.

usage: hosts.py [-k PART_OF_A_NAME] [GROUP]...
"""
import json
import os
import re
import shutil
import signal
import tempfile
import time

import kernels_cover
from creating import all_read, created, early, either, fed, one_pi
from harness import Later, Wrong, expect, few, main, program, rest, run, thin
from netns import (ORDERED, PREFIX, PROTOCOLS, aes_here, by_host, env_of, host, hosts_or_skip,
                   launched, name_of, nothing_left, on, pids, reached_by, unreachable, well,
                   with_words, wrong)
from regions import delta, regions
from shapes import APART, KINDS, MODELS

BESIDE = [name for name in ORDERED if name not in APART]


def with_own(nodes, letters, *command):
    """As launched by users, with nodes on the launcher's host too, which has an address that leads
    nowhere."""
    words = launched(nodes, letters, *command)
    words[words.index('-H') + 1] += ',localhost'
    return words


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
    """The bytes of standard input that an agent has received, and those that it keeps."""
    for fd in os.listdir(f'/proc/{pid}/fd'):
        try:
            if 'roam-input' in os.readlink(f'/proc/{pid}/fd/{fd}'):
                status = os.stat(f'/proc/{pid}/fd/{fd}')
                yield status.st_size, status.st_blocks * 512
        except FileNotFoundError:
            continue


def input_as_wanted(kept_max, *readers):
    """Of an endless input no more is read than nodes read, nor kept once all have read it."""
    read_max, more = 20 << 20, 1 << 20
    script = 'head -c $1 > /dev/null; echo ready $2 $$; until [ -e $3 ]; do sleep 0.05; done'

    def act(_first, _pids):
        time.sleep(0.3)  # allowance for what comes beyond that
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
    """The hosts come from a file; {a} and {b} in it are two of ours."""
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
    """Only a sealed datagram that comes twice is refused for that reason."""
    env = {'ROAM_FAULTY': 'repeat=50%,seed=1', **({'ROAM_SEAL': seal} if seal else {})}
    twice = counted('datagrams_replayed', launched(3, 'ab', program('hello')), env)
    if (sum(twice) > 0) != yes:
        raise Wrong(f'replayed datagrams: {twice}')


def cipher(without, seal, name):
    """AES is used where the CPUs of all hosts have it; the host `without` has none."""
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
    """Host b has another uptime, and another year in its clock: clocks are not compared."""
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


def cipher_cases():
    aes = 'AES-256-GCM' if aes_here() else 'ChaCha20-Poly1305'
    for seal in ('auth', 'encrypt'):
        yield (f'{seal}, AES everywhere', cipher, '', seal, aes)
        yield (f'{seal}, one host has no AES', cipher, host('b'), seal, 'ChaCha20-Poly1305')
    yield ('not sealed', cipher, '', 'off', 'nothing')


def creates(way, nodes, letters, env=None):
    created(well(fed(launched(nodes, letters, program('create'), way, nodes)), None, env), nodes)


def ported(nodes, threads, env=None):
    """The program of docs/porting.md prints on two hosts what it printed before it was ported."""
    command = launched(nodes, 'ab', program('porting_after'), nodes * threads)
    if threads > 1:
        command = with_words(command, '--threads', str(threads))
    wanted, said = run([program('porting_before'), '4']).out, well(command, None, env).out
    if said != wanted or not wanted:
        raise Wrong(f'{said!r}, before {wanted!r}')


def free_cases():
    for letters in ('abc', 'abb'):
        for heap in ('96M', '1G'):
            yield (f'frees on {letters}, {heap}', well, launched(3, letters, program('frees'), 'run', 3, 1),
                   '1 rounds of frees right', {'ROAM_HEAP': heap, 'ROAM_LOG': 'error'})


def team_cases():
    for how in ('all', 'loop', 'unequal'):
        for nodes, letters in ((2, 'ab'), (4, 'ab')):
            yield (f'{nodes} nodes of two threads, {how}', well,
                   with_words(launched(nodes, letters, program('team'), how, 2 * nodes, 2, 1),
                              '--threads', '2'), f'{2 * nodes} processes right')


def first_cases():
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
    yield from thin(3, free_cases())
    for how, last in (('threads', ': a thread done'), ('finished', ' ends')):
        yield (f'pthread_exit of main, {how}', well,
               launched(3, 'abb', program('last'), 'run', 'all', how), f'node 0{last}\n')
    for nodes, threads in ((4, 1), (2, 2)):
        yield Later((f'a ported program, {nodes} nodes of {threads} threads', ported, nodes, threads))
    yield ('no CREATE follows', lambda: either(run(launched(3, 'ab', program('either'), 3),
                                                   env=env_of()), 3))
    yield ('the launcher\'s host, too', well, with_own(4, 'a', program('hello')), 'is 10')
    yield ('input', input_of_all, 3, 'ab')
    yield Later(('input without end', input_as_wanted, 3 << 20, True, True))
    yield Later(('input without end, one reads it', input_as_wanted, 22 << 20, True, False))
    yield ('counters', stats, 3, 'abc')
    for seal, yes in ((None, True), ('encrypt', True), ('off', False)):
        yield (f'sealed, ROAM_SEAL={seal}', sealed, seal, yes)
    yield from thin(3, cipher_cases())
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
    yield from thin(3, team_cases())
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
        if MODELS[protocol] != 'SC':  # there each process's take from the queue moves pages
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


GROUPS = {
    'quick': lambda: few(first_cases()),
    'runs': lambda: [*rest(first_cases()), *run_cases()],
    'random': lambda: list(random_cases()),
}

if __name__ == '__main__':
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it in background jobs
    hosts_or_skip()
    main(GROUPS)
