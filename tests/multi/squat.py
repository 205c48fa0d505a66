#!/usr/bin/env python3
"""Steps of srun without PMI, begun by hand, beside another user's program that sits wherever their nodes could
meet; and what killed nodes leave behind.  In a /tmp of its own, so for root alone.

usage: squat.py [-k PART_OF_A_NAME]
"""
import contextlib
import ctypes
import itertools
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time

from harness import Wrong, main, program
from launchers import begin, finish, slurm_env

NOBODY = 65534
NAMES = [f'/tmp/roam-0{end}' for end in ['', *(f'.{number}' for number in range(1, 64))]]
STEPS = itertools.count(100)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source, target, kind, flags):
    if LIBC.mount(source.encode(), target.encode(), kind, flags, b'mode=1777' if kind else None):
        raise OSError(ctypes.get_errno(), f'mount {source} at {target}')


def own_tmp():
    """A /tmp in which nobody else is, except for the path of the build."""
    if os.geteuid() != 0 or LIBC.unshare(CLONE_NEWNS) != 0:
        print('skip: squat: mount namespaces are for root')
        sys.exit(77)
    within = re.match('/tmp/[^/]+', program('hello'))
    kept = within and os.open(within.group(), os.O_PATH)
    mount('none', '/', None, MS_REC | MS_PRIVATE)
    mount('tmpfs', '/tmp', b'tmpfs', 0)
    if within:
        os.mkdir(within.group())
        mount(f'/proc/self/fd/{kept}', within.group(), None, MS_BIND | MS_REC)
    os.environ.pop('XDG_RUNTIME_DIR', None)


def step_name(step):
    return f'{os.getpid()}.{step}'


@contextlib.contextmanager
def user(uid):
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


def start(step, node, nodes=2, env=None):
    return begin({**slurm_env(node, nodes, step, count=1), 'ROAM_DEADLINE': '5', **(env or {})},
                 program('hello'))


def ends(process, status):
    """What a process prints that ends while others of its job wait."""
    _, err = process.communicate(timeout=20)
    if process.returncode != status:
        raise Wrong(f'{process.returncode}: {err!r}')
    return err.strip()


def together(*nodes):
    """Two processes run as a job of two nodes, and end in order."""
    out, err = finish(nodes)
    if 'the sum of 1 to 2 is 3' not in out or err:
        raise Wrong(f'{out!r}, {err!r}')


def runs(step, env=None):
    together(*(start(step, node, env=env) for node in (0, 1)))


def fails(step, err, env=None):
    """A step of two nodes ends, and node 0 says why."""
    _, told = finish([start(step, node, env=env) for node in (0, 1)], 1)
    if re.fullmatch(err, told.strip()) is None:
        raise Wrong(f'{told!r}')


def holds(*names, where='/tmp'):
    found = sorted(name for name in os.listdir(where) if name.startswith(('roam', 'claims', 'slurm')))
    if found != sorted(names):
        raise Wrong(f'in {where} are {found}')


def clean():
    for name in NAMES:
        if os.path.islink(name) or os.path.isfile(name):
            os.unlink(name)
        elif os.path.isdir(name):
            for entry in os.listdir(name):
                os.unlink(f'{name}/{entry}')
            os.rmdir(name)


def fresh(check, *arguments):
    try:
        check(*arguments)
    finally:
        clean()


# ------------------------------------------------------------------------------------ another user

@contextlib.contextmanager
def squatter(step, directories):
    """Takes, as another user: directories, a socket for the step in each, and the names without a
    file that roam once used.  A node that connects to one of them would tell it where its memory
    is."""
    name, sockets = step_name(step), []
    with user(NOBODY), contextlib.ExitStack() as held:
        for path in directories:
            os.mkdir(path)
            os.chmod(path, 0o777)
        for path in [*(f'{path}/slurm-{name}' for path in directories),
                     *(f'\0roam-0-slurm-{name}.{node}' for node in range(2))]:
            sockets.append(held.enter_context(socket.socket(socket.AF_UNIX)))
            sockets[-1].bind(path)
            sockets[-1].listen()
            sockets[-1].setblocking(False)
            if path[0] == '/':
                os.chmod(path, 0o777)
        held = held.pop_all()
    with held:
        yield
        for listener in sockets:
            with contextlib.suppress(BlockingIOError):
                listener.accept()
                raise Wrong(f'{listener.getsockname()!r} was connected to')


def squatted(taken):
    """Whatever the other user has taken, the job runs, in a directory of its own."""
    step = next(STEPS)
    with squatter(step, NAMES[:taken]):
        runs(step)
        holds('claims', where=NAMES[taken])
        # After a name is given back, it is not used while another one is.
        if taken > 0:
            os.unlink(f'{NAMES[0]}/slurm-{step_name(step)}')
            os.rmdir(NAMES[0])
            runs(next(STEPS))
            holds(*(f'{os.path.basename(name)}' for name in NAMES[1:taken + 1]))


def all_taken():
    with squatter(next(STEPS), NAMES):
        fails(next(STEPS), rf'roam: {NAMES[-1]}: it belongs to user {NOBODY}')


def stranger_listens():
    """A process that has got into the directory itself, and takes node 0's place."""
    step = next(STEPS)
    os.mkdir(NAMES[0], 0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f'{NAMES[0]}/slurm-{step_name(step)}')
        with user(NOBODY):
            listener.listen()
        err = ends(start(step, 1), 86)
    if err != f"roam: process {os.getpid()} of user {NOBODY} listens in node 0's place":
        raise Wrong(repr(err))


def await_socket(step, process, where=NAMES[0]):
    end = time.monotonic() + 10
    while not os.path.exists(f'{where}/slurm-{step_name(step)}'):
        if time.monotonic() > end or process.poll() is not None:
            raise Wrong('node 0 does not listen')
        time.sleep(0.005)


def connect(stranger, path):
    """The socket's file is there before node 0 listens, which nodes wait for, too."""
    end = time.monotonic() + 10
    while True:
        try:
            stranger.connect(path)
            return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def stranger_connects():
    """A stranger connects as node 1: it gets no answer, and the job runs."""
    step = next(STEPS)
    first = start(step, 0)
    await_socket(step, first)
    os.chmod(NAMES[0], 0o755)
    os.chmod(f'{NAMES[0]}/slurm-{step_name(step)}', 0o777)
    with socket.socket(socket.AF_UNIX) as stranger:
        with user(NOBODY):
            connect(stranger, f'{NAMES[0]}/slurm-{step_name(step)}')
        head = struct.pack('<8sQIIII', b'1buhmaor', 0, 1, 2, 0, 0)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stranger.sendall(head)
            said = stranger.recv(100)
            if said:
                raise Wrong(f'node 0 says {said!r}')
    os.chmod(NAMES[0], 0o700)
    together(first, start(step, 1))


# ------------------------------------------------------------------------------------ our directory

def wrong_directory(make, err):
    """The directory that exists is ours, but others may use it."""
    make(NAMES[0])
    fails(next(STEPS), err)


def runtime_directory():
    """$XDG_RUNTIME_DIR, longer than a socket's path can be; not another user's, nor one that does
    not exist."""
    with tempfile.TemporaryDirectory(prefix='r' * 120) as where:
        runs(next(STEPS), {'XDG_RUNTIME_DIR': where})
        holds('claims', where=f'{where}/roam')
        if os.path.exists(NAMES[0]):
            raise Wrong('/tmp is used, too')
        os.chown(where, NOBODY, -1)
        runs(next(STEPS), {'XDG_RUNTIME_DIR': where})
    runs(next(STEPS), {'XDG_RUNTIME_DIR': '/nowhere'})
    holds('claims', where=NAMES[0])


# ------------------------------------------------------------------------------------------- deaths

def killed(processes):
    for process in processes:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def node_0_killed():
    """The socket that a killed node has left does not keep its own step from beginning again, and
    is removed when another step begins."""
    for again in (True, False):
        step = next(STEPS)
        first = start(step, 0)
        await_socket(step, first)
        killed([first])
        runs(step if again else next(STEPS))
        holds('claims', where=NAMES[0])


def living_kept():
    """A job that begins leaves the sockets of other beginning jobs alone."""
    step = next(STEPS)
    first = start(step, 0)
    await_socket(step, first)
    other = next(STEPS)
    for err in [ends(process, 0) for process in [start(other, node) for node in (0, 1)]]:
        if err:
            raise Wrong(repr(err))
    together(first, start(step, 1))


def killed_at(turns):
    """Whenever nodes are killed, the same step can begin again at once, and nothing is left."""
    step = next(STEPS)
    for turn in range(turns):
        nodes = [start(step, node) for node in (0, 1)]
        time.sleep(0.001 * turn)
        killed(nodes if turn % 2 else nodes[::-1])
    runs(step)
    holds('claims', where=NAMES[0])


def await_claim(process):
    """Whether the process has locked a byte of the file `claims`."""
    end = time.monotonic() + 10
    while True:
        with open('/proc/locks', encoding='utf-8') as locks:
            if re.search(rf' WRITE {process.pid} ', locks.read()):
                return
        if time.monotonic() > end or process.poll() is not None:
            raise Wrong('node 1 does not claim its number')
        time.sleep(0.005)


def twice(node):
    """One process is the node; the other one says which process that is."""
    step = next(STEPS)
    if node == 0:
        first = start(step, 0)
        await_socket(step, first)
    else:
        first = start(step, 1)
        await_claim(first)
    err = ends(start(step, node), 1)
    if re.match(rf'roam: node {node} runs in two processes, {first.pid} and ', err) is None:
        raise Wrong(repr(err))
    together(first, start(step, 1 - node))


def cases():
    own_tmp()
    for taken in (0, 1, 3):
        yield (f'{taken} directories squatted', fresh, squatted, taken)
    yield ('all directories squatted', fresh, all_taken)
    yield ("a stranger in node 0's place", fresh, stranger_listens)
    yield ('a stranger connects', fresh, stranger_connects)
    for what, make, err in (
            ('others may enter', lambda path: (os.mkdir(path), os.chmod(path, 0o750)),
             'others may enter it (chmod 700)'),
            ('a file', lambda path: open(path, 'wb').close(), 'not a directory'),
            ('a link', lambda path: os.symlink('/root', path), 'not a directory')):
        yield (f'the directory: {what}', fresh, wrong_directory, make,
               re.escape(f'roam: {NAMES[0]}: {err}'))
    yield ('the runtime directory', fresh, runtime_directory)
    yield ('node 0 killed', fresh, node_0_killed)
    yield ('others live', fresh, living_kept)
    yield ('killed at any time', fresh, killed_at, 16)
    for node in (0, 1):
        yield (f'node {node} twice', fresh, twice, node)


if __name__ == '__main__':
    main({'squat': lambda: list(cases())})
