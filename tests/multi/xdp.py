#!/usr/bin/env python3
"""Jobs whose frames go by sockets of AF_XDP: all that packet.py has, and what only these can meet.

usage: xdp.py [-k PART_OF_A_NAME] [GROUP]...
"""
import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

os.environ['MULTI_FRAMES'] = 'xdp'
# pylint: disable=wrong-import-position
import packet  # noqa: E402
from harness import Wrong, expect, main, program, run  # noqa: E402
from netns import env_of, host, hosts_or_skip, ip, launched, nothing_left, well, wrong  # noqa: E402
from packet import CABLE, LOSSY, PACKET, TAKEN, inside, option  # noqa: E402


def attached(letter, device='dp0'):
    """The mode of the XDP program at an interface; ''. none."""
    shown = subprocess.run(['ip', '-n', host(letter), 'link', 'show', device], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    found = re.search(r' (xdp\w*)', shown)
    return found.group(1) if found else ''


def stays(env, mode, words=('idle', 2)):
    """While a job runs the program is attached, and not longer."""
    seen = []

    def look(_first, _pids):
        seen.append((attached('a'), attached('b')))

    expect(launched(2, 'ab', program(words[0]), *words[1:]), out='node 1: ', wanted=2, act=look,
           env=env_of({**CABLE, **env}))
    if seen != [(mode, mode)]:
        raise Wrong(f'attached: {seen}')
    gone()


def unseen(env, size):
    """Frames go past the stack: a socket for all frames of the interface sees hardly any."""
    over, seen = threading.Event(), []

    def listen():
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as raw:
            raw.bind(('dp0', 3))
            raw.settimeout(.1)
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    if struct.unpack_from('>H', raw.recv(65536), 12)[0] == packet.TYPE:
                        seen.append(1)

    packet.mtu('dp0', size, 'a', 'b')
    listener = threading.Thread(target=packet.in_namespace, args=('a', listen))
    listener.start()
    try:
        counts = packet.counters(launched(2, 'ab', program('fft'), '-p2', '-m14', '-t'), {**CABLE, **env},
                                 'verified ok')
    finally:
        over.set()
        listener.join()
        packet.mtu('dp0', 1500, 'a', 'b')
    sent = sum(counts['datagrams_sent'])
    if len(seen) > sent // 10:
        raise Wrong(f'{len(seen)} frames were seen, {sent} datagrams')


def unpolled():
    """Where a card cannot be polled each node says so, though it has its socket."""
    result = run(launched(2, 'ab', program('fft'), '-p2', '-m12', '-t'),
                 env=env_of({**CABLE, **option('MODE', 'generic'), **option('BUSY_POLL', '20')}))
    lines = sorted(result.err.splitlines())
    wanted = [f'roam: warning: node {node}: xdp: dp0: ROAM_XDP_BUSY_POLL has no effect here' for node in (0, 1)]
    if result.status != 0 or lines != wanted:
        raise Wrong(f'status {result.status}, {result.err!r}')


def gone():
    left = {letter: attached(letter) for letter in 'ab'}
    if any(left.values()):
        raise Wrong(f'still attached: {left}')
    nothing_left()


def killed(env):
    """Nothing stays attached of nodes that are killed, and the next job has its sockets at once."""
    seen = []

    def kill(_first, pids):
        seen.append(attached('a'))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    expect(launched(2, 'ab', program('deaths'), 'run', 2, 1, 'never', 'barrier'), 137, 'was killed by signal 9',
           wanted=2, act=kill, env=env_of({**CABLE, **env}))
    if seen == ['']:
        raise Wrong('was not attached')
    gone()
    well(launched(2, 'ab', program('fft'), '-p2', '-m10', '-t'), 'verified ok', {**CABLE, **env})
    gone()


def foreign(env):
    """A program of somebody else stays; a line says so, once, and the job goes on without ours."""
    with subprocess.Popen([sys.executable, os.path.abspath(__file__), '--attach', host('a'), 'dp0'],
                          stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as other:
        if other.stdout.readline() != 'attached\n':
            raise Wrong('cannot attach a program')
        result = run(launched(2, 'ab', program('fft'), '-p2', '-m12', '-t'), env=env_of({**CABLE, **env}))
        mode = attached('a')
        other.communicate('')
    lines = result.err.splitlines()
    if result.status != 0 or 'verified ok' not in result.out or len(lines) != 1 or \
            re.match(TAKEN, lines[0]) is None or not mode:
        raise Wrong(f'status {result.status}, {result.err!r}, attached {mode!r}')
    gone()


def attach(namespace, device):
    """Attaches a program that lets all frames pass, until its standard input ends."""
    with open(f'/run/netns/{namespace}', encoding='utf-8') as file:
        packet.setns(file.fileno())
    libc = ctypes.CDLL(None, use_errno=True)

    def bpf(what, attributes):
        data = ctypes.create_string_buffer(attributes.ljust(128, b'\0'), 128)
        made = libc.syscall(321, what, data, 128)
        if made < 0:
            raise OSError(ctypes.get_errno(), f'bpf {what}')
        return made

    lines = ctypes.create_string_buffer(struct.pack('<BBhiBBhi', 0xb7, 0, 0, 2, 0x95, 0, 0, 0))
    license_ = ctypes.create_string_buffer(b'BSD')
    made = bpf(5, struct.pack('<IIQQ', 6, 2, ctypes.addressof(lines), ctypes.addressof(license_)))
    bpf(28, struct.pack('<IIII', made, socket.if_nametoindex(device), 37, 2))
    print('attached', flush=True)
    sys.stdin.read()


def lacking(capability, line, limit=()):
    """Without a right, or with too little locked memory, a line says so, and so does `roam info`."""
    bare = [*limit, 'setpriv', f'--bounding-set=-{capability}', f'--inh-caps=-{capability}']
    expect([*bare, program('example')], 1, f'^roam: ROAM_TRANSPORT=xdp: {line}$', env=PACKET)
    out = run([*bare, program('roam'), 'info', 'transports']).out
    if re.search(f'xdp +missing: {line}', re.sub(r'\s+', ' ', out)) is None:
        raise Wrong(out)


MODES = {'generic': 'xdpgeneric', 'native': 'xdp'}


def mode_cases():
    for mode, shown in MODES.items():
        env = option('MODE', mode)
        yield (f'attached {mode}', stays, env, shown)
        yield (f'{mode}, 5 % lost', well, launched(2, 'ab', program('lu'), '-p2', '-n96', '-t'), 'verified ok',
               {**CABLE, **env, 'ROAM_FAULTY': LOSSY + '3'})
        yield (f'{mode}, past the stack', unseen, env, 1500)
        yield (f'{mode} killed', killed, env)
        yield (f'{mode}, a stranger\'s program', foreign, env)
    yield ('long frames past the stack', unseen, {}, 9000)
    yield ('a veth is generic', stays, {}, 'xdpgeneric')
    yield ('no busy poll', unpolled)
    yield ('busy poll', stays, {**option('MODE', 'native'), **option('BUSY_POLL', '20')}, 'xdp')
    yield ('few slots', well, launched(2, 'ab', program('radix'), '-p2', '-n20000', '-t'), 'ok',
           {**CABLE, **option('IN', '16'), **option('OUT', '16')})
    start = r'^roam: node [01] on host \S+: cannot start the node: .*'
    hello = launched(2, 'ab', program('hello'))
    yield ('no zero copy', wrong, hello, 1, rf'{start}\(dp0: binding a socket of AF_XDP: [\w ]+\)$',
           {**CABLE, **option('MODE', 'zero-copy')})
    yield ('no such queue', wrong, hello, 1, rf'{start}\(dp0: binding a socket of AF_XDP: [\w ]+\)$',
           {**CABLE, **option('MODE', 'generic'), **option('QUEUE', '7')})
    yield ('no CAP_BPF', lacking, 'bpf,-sys_admin', r'a map of sockets: Operation not permitted \(it needs '
           r'CAP_BPF and CAP_NET_ADMIN\)')
    yield ('no CAP_NET_RAW', lacking, 'net_raw', r'a socket of AF_PACKET: Operation not permitted \(raw '
           r'frames need CAP_NET_RAW\)')
    yield ('little memory', lacking, 'ipc_lock', r'memory to share with the kernel: No buffer space available '
           r'\(RLIMIT_MEMLOCK is 64 KiB, and \d+ KiB are needed\)', ['prlimit', '--memlock=65536'])


def may_or_skip():
    """Skipped where sockets of AF_XDP are not permitted, or the kernel lacks them."""
    said = json.loads(run([program('roam'), 'info', 'transports', '--json']).out)['transports']
    own = next(each for each in said if each['name'] == 'xdp')
    if not own['works']:
        print(f'skip: xdp: {own["why"]}')
        sys.exit(77)


GROUPS = {**packet.GROUPS, 'modes': lambda: list(mode_cases())}

if __name__ == '__main__':
    if sys.argv[1:2] == ['--attach']:
        attach(*sys.argv[2:])
        sys.exit()
    may_or_skip()
    hosts_or_skip()
    packet.make_cable()
    main(GROUPS)
