#!/usr/bin/env python3
"""Jobs over raw Ethernet frames: on one host, and on hosts (network namespaces) that are joined by a
bridge, as in netns.py, and by a cable, a pair of veth without any IP.  xdp.py runs the same jobs over
sockets of AF_XDP.

usage: packet.py [-k PART_OF_A_NAME] [GROUP]...
"""
import contextlib
import ctypes
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import kernels_cover
import netns
from harness import Wrong, expect, main, program, right, run
from netns import PROTOCOLS, env_of, host, ip, launched, nothing_left, well, wrong
from shapes import SCOPED

netns.HOSTS = 'abcd'
NAME = os.environ.get('MULTI_FRAMES', 'packet')  # the transport
PACKET = {'ROAM_TRANSPORT': NAME}


def option(name, value):
    return {f'ROAM_{NAME.upper()}_{name}': value}


CABLE = {**PACKET, **option('INTERFACE', 'dp0')}  # the cable between hosts a and b
TYPE = 0x88b5
TUPLES = ('pi', 'pingpong', 'producers', 'sor', 'sum', 'tsp')
TAKEN = r'roam: warning: node \d: xdp: \w+: [\w ]+: another program or node has it; this node\'s frames go by ' \
    r'sockets of AF_PACKET$'
LOSSY = 'drop=5%,reorder=2%,repeat=2%,corrupt=1%,seed='


def make_cable():
    ip('-n', host('a'), 'link', 'add', 'dp0', 'type', 'veth', 'peer', 'name', 'dp0', 'netns', host('b'))
    for letter in 'ab':
        ip('-n', host(letter), 'link', 'set', 'dp0', 'up')


def mtu(device, value, *letters):
    for letter in letters:
        ip('-n', host(letter), 'link', 'set', device, 'mtu', str(value))


@contextlib.contextmanager
def wide(value, switch=True):
    """Hosts whose links all take frames so long; the bridge between them may not."""
    mtu('eth0', value, *netns.HOSTS)
    for letter in netns.HOSTS if switch else '':
        ip('-n', host('0'), 'link', 'set', f'v{letter}', 'mtu', str(value))
    try:
        yield
    finally:
        mtu('eth0', 1500, *netns.HOSTS)
        for letter in netns.HOSTS:
            ip('-n', host('0'), 'link', 'set', f'v{letter}', 'mtu', '1500')


def inside(letter, *command):
    return ['ip', 'netns', 'exec', host(letter), *command]


def counters(command, env, out=None):
    """Counters of a job, with a number for each node."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, 'stats.json')
        well(command, out, {**env, 'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            return json.load(file)['counters']


# ------------------------------------------------------------------------------------------ runs

def said_over(command, env, words):
    result = run(command, env=env_of({**env, 'ROAM_LOG': 'info'}))
    if result.status != 0 or re.search(f'over {words}$', result.err, re.M) is None:
        raise Wrong(f'status {result.status}, {result.err!r}')


def only_frames(nodes, letters, env, device):
    """Nodes of different hosts talk by our frames: while the job runs no UDP datagram leaves a
    host."""
    def sent(letter):
        out = subprocess.run(inside(letter, 'cat', '/proc/net/snmp'), check=True, text=True,
                             stdout=subprocess.PIPE).stdout
        rows = [line.split() for line in out.splitlines() if line.startswith('Udp:')]
        return int(rows[1][rows[0].index('OutDatagrams')])

    def left(letter):
        out = subprocess.run(['ip', '-n', host(letter), '-s', '-j', 'link', 'show', device], check=True,
                             text=True, stdout=subprocess.PIPE).stdout
        return json.loads(out)[0]['stats64']['tx']['packets']

    udp, frames = [sent(letter) for letter in letters], [left(letter) for letter in letters]
    counts = counters(launched(nodes, letters, program('fft'), f'-p{nodes}', '-m12', '-t'), env, 'verified ok')
    if [sent(letter) for letter in letters] != udp:
        raise Wrong('datagrams of UDP were sent')
    for at, letter in enumerate(letters):
        own = counts['datagrams_sent'][at * nodes // len(letters)]
        if left(letter) - frames[at] < own // 2 or own == 0:
            raise Wrong(f'{left(letter) - frames[at]} frames left host {letter}, {own} datagrams')


def quick_cases():
    yield ('one host', right, [program('fft'), '-p3', '-m12', '-t'], 'verified ok', PACKET)
    yield ('its name', said_over, launched(4, 'ab', program('hello')), PACKET, NAME)
    yield ('four nodes on two hosts', well, launched(4, 'ab', program('radix'), '-p4', '-n20000', '-t'), 'ok',
           PACKET)
    yield ('a cable without IP', only_frames, 2, 'ab', CABLE, 'dp0')
    yield ('sealed, 5 % lost', well, launched(2, 'ab', program('lu'), '-p2', '-n96', '-t'), 'verified ok',
           {**CABLE, 'ROAM_FAULTY': LOSSY + '3'})


def beside(command, env):
    """Two jobs by one interface, of which xdp gives a socket of AF_XDP to one."""
    with subprocess.Popen(command, env={**os.environ, **env_of(env)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
        result = run(command, env=env_of(env))
        out, err = other.communicate(timeout=60)
    for status, said, errors in ((result.status, result.out, result.err), (other.returncode, out, err)):
        other = [line for line in errors.splitlines() if NAME != 'xdp' or re.match(TAKEN, line) is None]
        if status != 0 or other or 'verified ok' not in said:
            raise Wrong(f'status {status}, {errors!r}, {said[-200:]!r}')


def tuples_lossy(command, at):
    """PastSet where frames are lost, repeated, late and changed."""
    env = {'ROAM_FAULTY': LOSSY + str(at), 'ROAM_SEAL': ('auto', 'off', 'encrypt')[at % 3]}
    with wide((1500, 9000)[at % 2]):
        well(launched(4, 'abcd', command, '-p4', '-m', 'tuples'), 'verified ok', {**PACKET, **env})


def run_cases():
    for at, (name, words) in enumerate(kernels_cover.PROGRAMS.items()):
        fit = [protocol for protocol in PROTOCOLS if kernels_cover.suits(name, protocol)]
        yield (f'{name} {fit[at % len(fit)]}', well, launched(4, 'abcd', program(name), '-p4', *words),
               'verified ok', {**PACKET, 'ROAM_PROTOCOL': fit[at % len(fit)]})
    for protocol in PROTOCOLS:
        yield (f'lu {protocol}', well, launched(4, 'ab', program('lu'), '-p4', '-n96', '-t'), 'verified ok',
               {**PACKET, 'ROAM_PROTOCOL': protocol})
    for letters, env in (('a', PACKET), ('ab', CABLE), ('abcd', PACKET)):
        yield (f'tuples on {letters}', well, launched(4, letters, program('past'), 'run', 4, 5), 'tuples right', env)
    for at, name in enumerate(TUPLES):
        yield (f'{name}, 5 % lost', tuples_lossy, program(f'tuples-{name}'), at)
    yield ('tuples on ab, 5 % lost', well, launched(2, 'ab', program('past'), 'run', 2, 5), 'tuples right',
           {**CABLE, 'ROAM_FAULTY': 'drop=5%,seed=1'})
    yield ('idle', well, launched(4, 'ab', program('idle'), 4), 'node 3: ', PACKET)
    yield ('threads', well, launched(3, 'abc', program('threads'), 'run', 3, 2, 10, 'settled'),
           'counted right', PACKET)
    yield ('heard while computing', right, [program('heard')], 'heard', {**PACKET, 'ROAM_PREFETCH': '0'})
    yield ('locks', well, launched(3, 'abc', program('locks'), 'run', 3, 2000), '2000 locks right', PACKET)
    for number in ('0x6008', '0xffff'):
        yield (f'EtherType {number}', well, launched(2, 'ab', program('hello')), 'is 3',
               {**PACKET, **option('ETHERTYPE', number)})
    yield ('few slots', well, launched(4, 'abcd', program('radix'), '-p4', '-n20000', '-t'), 'ok',
           {**PACKET, **option('IN', '16'), **option('OUT', '16')})
    yield ('two jobs', beside, launched(4, 'ab', program('fft'), '-p4', '-m14', '-t'), PACKET)
    yield ('two jobs on one host', beside, [program('fft'), '-p3', '-m14', '-t'], PACKET)


def random_on(seed, nodes, letters, size, env, rest):
    command = inside('0', program('random'), '--seed', str(seed), '--nodes', str(nodes), '--threads',
                     str(1 + seed % 3), '--roam', program('roam'), '--hosts', netns.on(letters), *rest)
    if letters == 'ab':
        mtu('dp0', size, 'a', 'b')
        well(command, '^right', {**CABLE, **env})
    else:
        with wide(size):
            well(command, '^right', {**PACKET, **env})


def random_cases():
    """Random race-free programs, every read checked, by a cable and over a bridge."""
    for seed in range(1, 5):
        for at, protocol in enumerate(PROTOCOLS):
            env = {'ROAM_PROTOCOL': protocol, 'ROAM_FAULT': ('uffd', 'sigsegv')[seed % 2],
                   'ROAM_SEAL': ('auto', 'encrypt', 'off')[(seed + at) % 3]}
            if (seed + at) % 2 == 0:
                env['ROAM_FAULTY'] = LOSSY + str(seed)
            yield (f'random {seed} {protocol}', random_on, seed, 2 + (seed + at) % 3,
                   'abcd' if seed % 2 else 'ab', (1500, 3000, 9000)[(seed + at) % 3], env,
                   ['--scoped', '1'] if protocol in SCOPED else [])


# ------------------------------------------------------------------------------------ frames' size

def frames_between(size, switch, warned):
    """Long frames are sent where they arrive; where a switch drops them each node tells the user
    once of each such peer, and the job goes on."""
    with wide(size, switch):
        result = run(launched(2, 'ab', program('fft'), '-p2', '-m20', '-t'), env=env_of(PACKET))
        said = sorted(result.err.splitlines())
        line = r'roam: warning: node {}: {}: frames of {} bytes do not arrive at node {}, though eth0 ' \
            r'takes them: .*; frames of 1500 bytes are sent in their place'
        lines = [line.format(node, NAME, size, 1 - node) for node in (0, 1)] if warned else []
        told = [[each for each in said if re.fullmatch(wanted, each)] for wanted in lines]
        # A node that sends little may end before it can tell.
        if result.status != 0 or 'verified ok' not in result.out or sum(map(len, told)) != len(said) or \
                bool(said) != warned or any(len(each) > 1 for each in told):
            raise Wrong(f'status {result.status}, {result.err!r}')
    nothing_left()


def fewer(size, most):
    """With longer frames a page is one frame: compares the datagrams with those at 1500 bytes."""
    command = launched(2, 'ab', program('fft'), '-p2', '-m14', '-t')
    counts = []
    for each in (1500, size):
        mtu('dp0', each, 'a', 'b')
        counts.append(sum(counters(command, CABLE, 'verified ok')['datagrams_sent']))
    mtu('dp0', 1500, 'a', 'b')
    if counts[1] > most * counts[0]:
        raise Wrong(f'{counts} datagrams')


def size_cases():
    for size in (3000, 9000):
        yield (f'all take {size}', frames_between, size, True, False)
        yield (f'the switch does not take {size}', frames_between, size, False, True)
    yield ('a page in one frame', fewer, 9000, .8)
    yield ('ROAM_MTU is less', well, launched(2, 'ab', program('fft'), '-p2', '-m12', '-t'), 'verified ok',
           {**PACKET, 'ROAM_MTU': '600'})


# -------------------------------------------------------------------------------------- strangers

def seen(raw, wanted):
    """Frames of the job that a socket for all frames sees, one for each direction."""
    found, end = {}, time.monotonic() + 5
    while len(found) < wanted and time.monotonic() < end:
        frame = raw.recv(65536)
        if len(frame) >= 38 and struct.unpack_from('>H', frame, 12)[0] == TYPE:
            found[frame[:18]] = frame
    return list(found.values())


def in_namespace(letter, function, *arguments):
    """Calls a function in a thread in the namespace of a host."""
    result = []

    def body():
        with open(f'/run/netns/{host(letter)}', encoding='utf-8') as file:
            setns(file.fileno())
        result.append(function(*arguments))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(30)
    return result[0] if result else None


def setns(file):
    if ctypes.CDLL(None, use_errno=True).setns(file, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), 'setns')


def meddle(seed, device):
    """Sends strangers' frames to the nodes: unchanged, changed, cut, grown; returns how many."""
    rng = random.Random(seed)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
        raw.bind((device, 3))
        raw.settimeout(5)
        frames = seen(raw, 2)
        for turn in range(400):
            frame = bytearray(rng.choice(frames))
            kind = turn % 8
            if kind == 1:
                frame[rng.randrange(18, 38)] ^= 1 << rng.randrange(8)      # the head
            elif kind == 2:
                frame[rng.randrange(38, len(frame))] ^= 1 << rng.randrange(8)  # what is sealed
            elif kind == 3:
                frame = frame[:rng.randrange(18, len(frame))]
            elif kind == 4:
                frame += rng.randbytes(rng.randrange(1, 300))
            elif kind == 5:
                frame[18:] = rng.randbytes(len(frame) - 18)
            elif kind == 6:
                frame[26:38] = rng.randbytes(12)                         # bytes, kind, number, piece
            elif kind == 7:
                frame[6:12] = rng.randbytes(6)                           # the sender
            raw.send(bytes(frame[:1514]))
        return len(frames)


def strangers(env):
    """Strangers' frames at the nodes' interface, replayed, forged or malformed, are counted or
    dropped and change nothing; the job goes on."""
    # Sockets of the host do not see frames of AF_XDP; the switch does.
    where, device, way = ('0', 'va', PACKET) if NAME == 'xdp' else ('a', 'dp0', CABLE)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, 'stats.json')
        told = []

        def act(_first, _pids):
            told.append(in_namespace(where, meddle, 7, device))

        expect(launched(2, 'ab', program('idle'), 2), out='node 1: ', env=env_of({**way, **env,
               'ROAM_STATS': path}), wanted=2, act=act)
        with open(path, encoding='utf-8') as file:
            counts = json.load(file)['counters']
    if told != [2] or sum(counts['datagrams_strange']) < 50:
        raise Wrong(f'saw {told} directions, {counts["datagrams_strange"]} strange frames')
    if sum(counts['datagrams_replayed']) == 0 or sum(counts['datagrams_refused']) == 0:
        raise Wrong(f'replayed {counts["datagrams_replayed"]}, refused {counts["datagrams_refused"]}')
    nothing_left()


def foreign(seed):
    """Frames of another protocol with the same EtherType, of no job."""
    rng = random.Random(seed)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind(('dp0', 0))
        for _ in range(20000):
            size = rng.choice([0, 1, 4, 24, 200, 1400])
            raw.send(b'\xff' * 6 + rng.randbytes(6) + struct.pack('>H', TYPE) + rng.randbytes(size))


def flooded():
    """The kernel keeps frames that are for no endpoint of a node out of the node's ring."""
    noise = threading.Thread(target=in_namespace, args=('a', foreign, 3))
    noise.start()
    try:
        counts = counters(launched(2, 'ab', program('fft'), '-p2', '-m16', '-t'), CABLE, 'verified ok')
    finally:
        noise.join()
    if sum(counts['datagrams_strange']) > 0:
        raise Wrong(f'{counts["datagrams_strange"]} foreign frames came into a ring')


def stranger_cases():
    yield ('strangers', strangers, {})
    yield ('strangers, encrypted', strangers, {'ROAM_SEAL': 'encrypt'})
    yield ('foreign frames', flooded)


# ---------------------------------------------------------------------------------------- trouble

def down_and_up(seconds):
    """The cable is pulled out and put back: the job goes on."""
    def act(_first, _pids):
        ip('-n', host('b'), 'link', 'set', 'dp0', 'down')
        time.sleep(seconds)
        ip('-n', host('b'), 'link', 'set', 'dp0', 'up')

    expect(launched(2, 'ab', program('idle'), 2), out='node 1: ', wanted=2, act=act, env=env_of(CABLE))
    nothing_left()


def down_while(seconds):
    """The same, while both nodes send."""
    def pull():
        for letter in 'ab':
            time.sleep(.3)
            ip('-n', host(letter), 'link', 'set', 'dp0', 'down')
            time.sleep(seconds)
            ip('-n', host(letter), 'link', 'set', 'dp0', 'up')

    puller = threading.Thread(target=pull)
    puller.start()
    try:
        well(launched(2, 'ab', program('locks'), 'run', 2, 20000), '20000 locks right', CABLE)
    finally:
        puller.join()


def gone(act, deadline=2):
    """The cable stays out, or is gone: the job ends, and says so."""
    env = env_of({**CABLE, 'ROAM_DEADLINE': str(deadline)})
    try:
        result = expect(launched(2, 'ab', program('deaths'), 'run', 2, 1, 'never', 'barrier'), 1,
                        r'^roam: node \d on host \S+: node \d on \S+ has been silent for', wanted=2, env=env,
                        act=act)
        if result.after > deadline + 3:
            raise Wrong(f'ended after {result.after}')
    finally:
        subprocess.run(['ip', '-n', host('b'), 'link', 'del', 'dp0'], check=False, stderr=subprocess.DEVNULL)
        make_cable()
    nothing_left()


def silent(seconds):
    """A node that is stopped for less than the deadline is survived."""
    def act(_first, pids):
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pids[1], signal.SIGCONT)

    expect(launched(2, 'ab', program('idle'), 2), out='node 1: ', wanted=2, act=act,
           env=env_of({**CABLE, 'ROAM_DEADLINE': '3'}))
    nothing_left()


def no_right():
    """Without the right to send raw frames a line says so, and so does `roam info`."""
    bare = ['setpriv', '--bounding-set=-net_raw', '--inh-caps=-net_raw']
    expect([*bare, program('example')], 1, rf'^roam: ROAM_TRANSPORT={NAME}: a socket of AF_PACKET: Operation '
           r'not permitted \(raw frames need CAP_NET_RAW\)$', env=PACKET)
    expect([*bare, program('roam'), 'info', 'transports'], out=rf'{NAME} +missing: a socket of AF_PACKET')


def trouble_cases():
    yield ('interface down and up', down_and_up, 1)
    yield ('interfaces down and up while nodes send', down_while, .3)
    yield ('interface stays down', gone, lambda *_: ip('-n', host('b'), 'link', 'set', 'dp0', 'down'))
    yield ('interface removed', gone, lambda *_: ip('-n', host('b'), 'link', 'del', 'dp0'))
    yield ('a node is stopped for a second', silent, 1)
    yield ('no CAP_NET_RAW', no_right)
    start = r'^roam: node [01] on host \S+: cannot start the node: .*'
    hello = launched(2, 'ab', program('hello'))
    for name, wanted in (('dp7', 'dp7: there is no such interface'), ('lo', 'lo: the interface is no Ethernet')):
        yield (f'interface {name}', wrong, hello, 1, rf'{start}\({wanted}\)$',
               {**PACKET, **option('INTERFACE', name)})
    yield ('interface down at the start', down_at_start, hello, rf'{start}\(dp0: the interface is down\)$')
    yield ('shown by roam info', shown)
    yield ('another protocol\'s EtherType', wrong, hello, 1,
           rf'{start}\(ROAM_{NAME.upper()}_ETHERTYPE=0x0800 is another protocol\'s\)$',
           {**PACKET, **option('ETHERTYPE', '0x800')})
    yield ('no EtherType', wrong, hello, 2, f'^roam: ROAM_{NAME.upper()}_ETHERTYPE=12: must be a number from 1536 to '
           '65535$', {**PACKET, **option('ETHERTYPE', '12')})
    yield ('node killed', wrong, launched(3, 'abc', program('deaths'), 'run', 3, 1, 'kill', 'barrier'), 137,
           r'^roam: node 1 on host \S+ \(pid \d+\) was killed by signal 9', PACKET)


def down_at_start(command, err):
    ip('-n', host('a'), 'link', 'set', 'dp0', 'down')
    try:
        wrong(command, 1, err, CABLE)
    finally:
        ip('-n', host('a'), 'link', 'set', 'dp0', 'up')


def shown():
    for name, wanted in (('dp0', 'works'), ('dp7', 'missing: dp7: there is no such interface')):
        expect(inside('a', program('roam'), 'info', 'transports'), out=f'{NAME} +{wanted}',
               env=option('INTERFACE', name))


GROUPS = {
    'quick': lambda: list(quick_cases()),
    'runs': lambda: list(run_cases()),
    'random': lambda: list(random_cases()),
    'sizes': lambda: list(size_cases()),
    'strangers': lambda: list(stranger_cases()),
    'trouble': lambda: list(trouble_cases()),
}


def may_or_skip():
    """Skipped where raw frames are not permitted."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0):
            pass
    except OSError as error:
        print(f'skip: packet: {error.strerror}')
        sys.exit(77)


if __name__ == '__main__':
    may_or_skip()
    netns.hosts_or_skip()
    make_cable()
    main(GROUPS)
