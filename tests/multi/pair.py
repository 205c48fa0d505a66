#!/usr/bin/env python3
"""Two programs that meet at an address and exchange messages without a job: over each transport that
can, sealed, with losses, on two hosts; with strangers at the address.

usage: pair.py [-k PART_OF_A_NAME] [GROUP]...
"""
import contextlib
import os
import random
import socket
import subprocess
import tempfile
import time

import netns
import packet
from harness import Wrong, main, program

CASES = ['talk', 'dies', 'full', 'state', 'again']
OWN = {name: value for name, value in os.environ.items() if not name.startswith('ROAM_')}
SILENT = ('dies', 'full')  # the one that listens is gone before it could say anything
PORT = 7077
PATIENCE = 30  # seconds until a file is there
MEET = 10  # what program `pair` adds to the error of a meeting
EUNSUPPORTED, EKEY, EMISMATCH = 8, 20, 18


def own_address():
    """An address of this host that nobody else has; a free port of 127.0.0.1 could be taken meanwhile."""
    return '.'.join(['127', *(str(random.randint(1, 254)) for _ in range(3))]) + f':{PORT}'


@contextlib.contextmanager
def place(kind):
    """An address, and a directory for keys."""
    with tempfile.TemporaryDirectory() as where:
        yield (os.path.join(where, 'socket') if kind == 'path' else own_address()), where


def make_key(path, key):
    with open(path, 'w', encoding='ascii', opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(key.hex() + '\n')


def begin(how, address, key, case, env, inside=()):
    return subprocess.Popen([*inside, program('pair'), how, address, key, case], text=True,
                            env={**OWN, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def await_file(path, process):
    end = time.monotonic() + PATIENCE
    while not os.path.exists(path):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise Wrong(f'{path} does not come: {process.communicate()}')
        time.sleep(0.01)


def wanted(how, case):
    return '' if how == 'listen' and case in SILENT else 'right\n'


def ends(process, statuses, out='right\n'):
    """Checks the status; the output is `out` if that is 0."""
    try:
        said, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Wrong(f'a program hangs: {process.communicate()}') from None
    if process.returncode not in statuses or (process.returncode == 0 and said != out):
        raise Wrong(f'status {process.returncode}: {said!r} {err!r}')
    return err


def meets(case, kind, env, connects_first=False):
    with place(kind) as (address, where):
        key = os.path.join(where, 'key')
        make_key(key, os.urandom(32))
        order = ('connect', 'listen') if connects_first else ('listen', 'connect')
        both = [begin(how, address, key, case, env) for how in order]
        for how, process in zip(order, both):
            ends(process, [0], wanted(how, case))
        if kind == 'path' and os.path.exists(address):
            raise Wrong('the socket is still there')


def differ():
    with place('path') as (address, where):
        key = os.path.join(where, 'key')
        first = begin('listen', address, key, 'talk', {'ROAM_TRANSPORT': 'udp'})
        await_file(address, first)
        second = begin('connect', address, key, 'talk', {'ROAM_TRANSPORT': 'packet'})
        for process in (first, second):
            if 'the other program uses transport' not in ends(process, [MEET + EMISMATCH]):
                raise Wrong('it does not say why')


def refused():
    with place('path') as (address, where):
        process = begin('listen', address, os.path.join(where, 'key'), 'talk', {'ROAM_TRANSPORT': 'shm'})
        if 'ROAM_TRANSPORT=shm does not reach another program' not in ends(process, [MEET + EUNSUPPORTED]):
            raise Wrong('it does not say why')


def strangers():
    """Those that say nothing, something else, or have another key, do not keep the right one out: each
    is given 3 s, but all at once, and when there are too many the first ones are dropped."""
    with place('port') as (address, where):
        key, other = os.path.join(where, 'key'), os.path.join(where, 'other')
        first = begin('listen', address, key, 'talk', {})
        host, port = address.split(':')
        said = (*[b''] * 40, b'ro', b'GET / HTTP/1.0\r\n\r\n' + bytes(100), b'roamdp01' + bytes(24),
                b'roamdp01' + os.urandom(24) + bytes.fromhex('ffffffff') + os.urandom(400))
        with contextlib.ExitStack() as stack:
            for text in said:
                for _ in range(500):
                    with contextlib.suppress(ConnectionRefusedError):
                        stranger = stack.enter_context(socket.create_connection((host, int(port))))
                        break
                    time.sleep(0.01)
                with contextlib.suppress(OSError):  # it may have been dropped already
                    stranger.sendall(text)
                    if text:
                        stranger.shutdown(socket.SHUT_WR)
            make_key(other, bytes(32))
            err = ends(begin('connect', address, other, 'talk', {}), [MEET + EKEY, MEET + 21])
            if 'no pair at' not in err:
                raise Wrong(f'another key: {err!r}')
            begun = time.monotonic()
            second = begin('connect', address, key, 'talk', {})
            ends(second, [0])
            ends(first, [0])
            if time.monotonic() - begun > 10:
                raise Wrong(f'the right one had to wait: {time.monotonic() - begun} s')


def on_hosts(case, env):
    with tempfile.TemporaryDirectory() as where:
        key = os.path.join(where, 'key')
        first = begin('listen', '10.77.0.1:7000', key, case, env, packet.inside('a'))
        await_file(key, first)
        second = begin('connect', '10.77.0.1:7000', key, case, env, packet.inside('b'))
        ends(first, [0], wanted('listen', case))
        ends(second, [0], wanted('connect', case))
        netns.nothing_left()


def quick_cases():
    for case in CASES:
        yield (f'{case}, path', meets, case, 'path', {})
        yield (f'{case}, port', meets, case, 'port', {}, True)
        yield (f'{case}, losses', meets, case, 'port', {'ROAM_FAULTY': 'drop=5%,repeat=2%,seed=7'})
    yield ('encrypted', meets, 'talk', 'path', {'ROAM_SEAL': 'encrypt'})
    yield ('not sealed', meets, 'talk', 'path', {'ROAM_SEAL': 'off'})
    yield ('two transports', differ)
    yield ('shm', refused)
    yield ('strangers', strangers)


def host_cases():
    netns.hosts_or_skip()
    packet.make_cable()
    for case in CASES:
        yield (f'{case}, udp', on_hosts, case, {'ROAM_TRANSPORT': 'udp'})
        yield (f'{case}, packet', on_hosts, case, packet.PACKET)


GROUPS = {'pair': lambda: list(quick_cases()), 'pair_hosts': lambda: list(host_cases())}

if __name__ == '__main__':
    main(GROUPS)
