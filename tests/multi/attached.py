#!/usr/bin/env python3
"""`roam past serve` and `roam past top`: programs that attach, leave, and are killed; a server that
is killed; strangers, and programs with another key.

usage: attached.py [-k PART_OF_A_NAME] [GROUP]...
"""
import errno
import itertools
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import netns
from harness import Wrong, clean_env, expect, main, program, ticks

EINVAL, EPROTO, EKEY, ELOST = 1, 13, 20, 21
LOST = 'the server, or a participant of an X-function, is gone or out of reach'
WAITERS = 4
HELLO = b'roamps04'


def must(holds, what):
    if not holds:
        raise Wrong(what)


class Server:
    """A server of elements for the time of a `with`, unless it was killed."""

    def __init__(self, address='./socket', key='key', env=None, keep=None, prefix=()):
        self.prefix = prefix
        self.place = tempfile.TemporaryDirectory(prefix='roam-attached-')
        self.key = os.path.join(self.place.name, key)
        self.env = {'ROAM_PS_KEY': self.key, **(env or {})}
        self.asked = address if ':' in address else os.path.join(self.place.name, address)
        self.keep = [] if keep is None else ['--keep', str(keep)]
        self.address = self.process = None

    def serve(self):
        """The command to run, where, and its standard input."""
        return [*self.prefix, program('roam'), 'past', 'serve', self.address or self.asked, '--functions',
                program('longest'), *self.keep], self.env, None

    def start(self):
        words, env, source = self.serve()
        self.process = subprocess.Popen(words, env=clean_env(env), stdin=source,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        match = re.fullmatch(r'serving at (\S+)\n', line)
        must(match, f'the server said {line!r}')
        self.address = match.group(1)
        return self

    def end(self, number):
        """Its status, after that signal."""
        self.process.send_signal(number)
        said = self.process.communicate(timeout=10)
        must(said == ('', ''), f'the server said {said}')
        return self.process.returncode

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            status = self.end(signal.SIGTERM)
            if kind is None:
                must(status == 0, f'the server ended with {status}')
                must(not os.path.exists(self.asked), 'the socket was left')
        self.place.cleanup()

    def command(self, *words):
        return [program('attached'), self.address, *(str(word) for word in words)]

    def expect(self, *words, **how):
        return expect(self.command(*words), env=self.env, **how)

    def begin(self, *words):
        return subprocess.Popen(self.command(*words), env=clean_env(self.env),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def top(self):
        result = expect([program('roam'), 'past', 'top', self.address, '--once', '--json',
                         '--every', '0.05'], env=self.env)
        return json.loads(result.out)


# ---------------------------------------------------------------------------------------- everyday

def everything(address):
    with Server(address) as server:
        server.expect('all')
        top = server.top()
        must(top['format'] == 'roam past top 1' and top['programs'] == 1, f'top says {top}')
        rows = {row['name']: row for row in top['elements']}
        must(rows['bag']['moves'] == rows['bag']['observes'] == rows['bag']['last'] == 408 and
             rows['bag']['delta'] == 5 and rows['u8[]']['delta'] is None and
             rows['longest']['function'] == 'longest' and rows['waits']['waiting'] == 0,
             f'top says {rows}')
        text = expect([program('roam'), 'past', 'top', server.address, '--once', '--every', '0.05'],
                      env=server.env).out
        must(re.search(r'^ +409 +408 +408 +3264 +5 +0 +0 +0  bag$', text, re.MULTILINE),
             f'top says {text}')


def many():
    """Programs come and go at once; each finds what the one before left."""
    with Server() as server:
        server.expect('delta', 1 << 40)
        programs = [server.begin('move', 200) for _ in range(6)]
        for process in programs:
            said = process.communicate(timeout=20)
            must(process.returncode == 0, f'{process.returncode}, {said}')
        server.expect('rest', out='^0 1200$')


# ------------------------------------------------------------------------------------------ killed

def killed(operation):
    """A program is killed in the middle of an operation: nothing acknowledged is lost."""
    with Server() as server:
        for _ in range(3):
            process = server.begin('loop', operation)
            first = process.stdout.read(8)
            time.sleep(random.uniform(0.001, 0.03))
            process.kill()
            done, err = process.communicate(timeout=10)
            must(process.returncode == -signal.SIGKILL, f'{process.returncode}: {err}')
            done = first + done
            done = done[:len(done) // 8 * 8]
            server.expect('check', operation, struct.unpack('<Q', done[-8:])[0])
            must(server.end(signal.SIGTERM) == 0, 'the server ended badly')
            server.start()


def killed_waiting(how):
    """A program is killed while it waits: its waiting operations go, and others are served."""
    with Server() as server:
        if how == 'move':
            server.expect('delta', 1)
            server.expect('move', 1)
        victim, other = (None, None)
        victim = server.begin('wait', how)
        server.expect('waiting', WAITERS)
        other = server.begin('wait', how)
        server.expect('waiting', 2 * WAITERS)
        victim.kill()
        victim.communicate()
        server.expect('waiting', WAITERS)
        if how == 'observe':
            server.expect('move', WAITERS)
        elif how == 'move':
            server.expect('delta', 100)
        out, err = other.communicate(timeout=10)
        must(other.returncode == 0 and out.decode().splitlines() == ['no error'] * WAITERS,
             f'{other.returncode}, {out}, {err}')
        server.expect('rest', out=f'^0 {0 if how == "observe" else 1 + WAITERS}$')


def killed_mob():
    """The program is killed in the mob's second half: what the first half moved stays."""
    with Server() as server:
        victim = server.begin('wait', 'mob')
        server.expect('waiting', WAITERS)
        victim.kill()
        victim.communicate()
        server.expect('waiting', 0)
        server.expect('rest', out=f'^0 {WAITERS}$')


def killed_participant():
    """No operation waits for ever for a tuple that a client was to move and that cannot come
    again."""
    with Server(keep=0.2) as server:
        victim = server.begin('wait', 'sum')
        server.expect('waiting-sum', 1)
        victim.kill()
        victim.communicate()
        server.expect('waiting-sum', 0)
        time.sleep(0.5)
        server.expect('wait', 'sum', out=f'^{re.escape(LOST)}$')


def killed_server(number, status):
    with Server() as server:
        programs = [server.begin('wait', 'observe') for _ in range(3)]
        server.expect('waiting', 3 * WAITERS)
        must(server.end(number) == status, 'another status')
        began = time.monotonic()
        for process in programs:
            out, _ = process.communicate(timeout=10)
            must(out.decode().splitlines() == [LOST] * WAITERS, f'a program said {out}')
        must(time.monotonic() - began < 1, 'the error came late')
        server.expect('attach', status=ELOST, err='^no server at ')
        server.start()
        server.expect('move', 1)
        server.expect('rest', out='^0 1$')


# --------------------------------------------------------------------------------------- strangers

def connect(server):
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(10)
    end.connect(server.address)
    return end


def dropped(server, said):
    """A connection on which this is sent is dropped."""
    with connect(server) as end:
        try:
            end.sendall(said)
            while end.recv(65536):
                pass
        except (ConnectionResetError, BrokenPipeError):
            pass


def strangers():
    """Nothing that strangers send reaches the elements; a program that works with the elements
    notices nothing."""
    with Server() as server:
        worker = server.begin('wait', 'observe')
        server.expect('waiting', WAITERS)
        silent = [connect(server) for _ in range(300)]
        for said in (b'GET / HTTP/1.1\r\n\r\n', bytes(100000), b'\xff' * 100, b'roamps00' + bytes(24),
                     HELLO + os.urandom(24) + struct.pack('<I', 100) + os.urandom(100),
                     HELLO + os.urandom(24) + struct.pack('<I', 0xffffffff) + os.urandom(100),
                     HELLO + os.urandom(24) + struct.pack('<I', 3) + os.urandom(100),
                     HELLO + os.urandom(24) + os.urandom(200000)):
            dropped(server, said)
        for end in silent:
            end.close()
        with connect(server) as good:
            good.sendall(HELLO + os.urandom(24))
            must(good.recv(8) == HELLO, 'strangers do not speak as clients do')
        with connect(server) as half:
            half.sendall(HELLO + b'half')
            began = time.monotonic()
            must(half.recv(1) == b'' and time.monotonic() - began < 8, 'a stranger may stay')
        top = server.top()
        must(top['programs'] == 2 and top['refused'] == 310, f'top says {top}')
        server.expect('move', WAITERS)
        out, _ = worker.communicate(timeout=10)
        must(out.decode().splitlines() == ['no error'] * WAITERS, f'the worker said {out}')


def no_room():
    """A server that has no descriptor for one more connection lets in a waiting client once it has
    one, though none of its own clients has ended."""
    with Server() as server:
        pid = server.process.pid
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f'/proc/{pid}/fd')), most))
        client = server.begin('attach')
        time.sleep(0.4)
        must(client.poll() is None, 'there was room')
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, most))
        out, err = client.communicate(timeout=8)
        must(client.returncode == 0, f'{client.returncode}: {out}, {err}')


def refused_by_kernel(number, address):
    """A server whose kernel accepts no connection, whatever it lacks, does not spin, and lets in a
    waiting client soon after it can."""
    with tempfile.TemporaryDirectory(prefix='roam-stingy-') as place:
        path = os.path.join(place, 'error')
        with Server(address, env={'LD_PRELOAD': program('stingy'), 'STINGY': path}) as server:
            del server.env['LD_PRELOAD']
            with open(path, 'w', encoding='ascii') as file:
                file.write(str(number))
            before = ticks(server.process.pid)
            client = server.begin('attach')
            time.sleep(0.6)
            must(client.poll() is None, 'it was let in')
            must(ticks(server.process.pid) - before < 20, 'the server spins')
            os.unlink(path)
            out, err = client.communicate(timeout=8)
            must(client.returncode == 0, f'{client.returncode}: {out}, {err}')


# The memory that a server may have besides what nobody uses: ROAM_PS_MEMORY, what belongs to
# clients, as much again that the C library has not given back, and some.
HOSTILE_MIB = 1 + 2 * 16 + 8


def resident(pid):
    """MiB."""
    with open(f'/proc/{pid}/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * 4096 / 2 ** 20


def hostile(how, errors):
    """Whatever a program makes, the server's memory is bounded, and others go on."""
    with Server(env={'ROAM_PS_MEMORY': '1M'}) as server:
        server.expect('move', 1)
        before = resident(server.process.pid)
        said = [subprocess.Popen([program('hostile'), server.address, how],
                                 env=clean_env(server.env), text=True, stdout=subprocess.PIPE)
                for _ in range(2)]
        most = before
        while any(process.poll() is None for process in said):
            most = max(most, resident(server.process.pid))
            time.sleep(0.01)
        for process in said:
            out = process.communicate()[0]
            must(process.returncode == 0 and out.split()[1] in errors, f'it said {out!r}')
        must(most - before < HOSTILE_MIB, f'{most:.1f} MiB of memory, {before:.1f} before')
        server.expect('rest', out='^0 1$')


def keys():
    """Another key, and files that are no key."""
    with Server() as server, Server() as other:
        for key, mode, status, err in (
                (other.key, 0o600, EKEY, 'has another key$'),
                (server.key, 0o640, EINVAL, 'is not safe: others may read it'),
                (server.key + '-none', None, EINVAL, 'no key in .*: No such file'),
                (server.place.name, None, EINVAL, '64 hexadecimal digits')):
            if mode is not None:
                os.chmod(key, mode)
            expect(server.command('attach'), status=status, err=err, env={'ROAM_PS_KEY': key})
        os.chmod(server.key, 0o600)
        short = server.key + '-short'
        with open(os.open(short, os.O_CREAT | os.O_WRONLY, 0o600), 'w', encoding='ascii') as file:
            file.write('12' * 31)
        expect(server.command('attach'), status=EINVAL, err='64 hexadecimal digits',
               env={'ROAM_PS_KEY': short})
        expect(server.command('attach'), status=EINVAL, err='set ROAM_PS_KEY')
        must(os.stat(server.key).st_mode & 0o777 == 0o600, 'the key made is not safe')
        server.expect('move', 1)
        must(server.top()['refused'] == 1, 'the refusal was not counted')


def not_ours():
    """Something else answers, or nothing."""
    with Server() as server, socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        listener.listen()
        address = f'127.0.0.1:{listener.getsockname()[1]}'

        def answer():
            end, _ = listener.accept()
            end.sendall(b'220 mail.example.org ESMTP and more of it\r\n')
            end.recv(100)
            end.close()

        thread = threading.Thread(target=answer)
        thread.start()
        expect([program('attached'), address, 'attach'], status=EPROTO, env=server.env,
               err='is no server of elements')
        thread.join()
        listener.close()
        for wrong, status, err in ((address, ELOST, 'no server at .*refused'),
                                   ('nowhere', EINVAL, 'an address is HOST:PORT'),
                                   ('/' + 'x' * 200, EINVAL, 'a socket has at most'),
                                   ('127.0.0.1:99999', EINVAL, 'an address is HOST:PORT')):
            expect([program('attached'), wrong, 'attach'], status=status, env=server.env, err=err)


# --------------------------------------------------------------------------------- out of reach

LATE_MS = 300 + 3000  # a limit of time, and what pastset.h grants beyond it
SLOW_MS = 1500        # this machine may be busy


def stuck(address, large, stop, go_on, prefix=()):
    """While the server does not answer, every operation ends when its time is up or it is
    cancelled; afterwards each was done once or not at all, and operations without a limit have
    waited."""
    with Server(address, prefix=prefix[0] if prefix else ()) as server:
        with subprocess.Popen([*(prefix[1] if prefix else ()), program('stuck'), server.address,
                               str(large)], env=clean_env(server.env), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            try:
                must(client.stdout.readline() == 'ready\n', 'the program is not ready')
                stop(server)
                client.stdin.write('\n')
                client.stdin.flush()
                # A program that would wait for ever is killed here, so that reading its lines ends.
                timer = threading.Timer((LATE_MS + SLOW_MS) / 1000 + 1, client.kill)
                timer.start()
                rows = [line.split() for line in itertools.takewhile(
                    lambda line: line != 'over\n', client.stdout)]
            finally:
                timer.cancel()
                go_on(server)
            must(len(rows) == 9 + large, f'only {rows} ended')
            for name, err, ms in rows:
                known = {'detach': {'0'}, 'enter': {'16'}, 'peek': {'16'}, 'state': {'16'},
                         'cancelled': {'17', '21'}}.get(name, {'16', '21'})
                must(err in known, f'{name} returned {err}')
                must(int(ms) < (1000 if name == 'detach' else LATE_MS + SLOW_MS),
                     f'{name} took {ms} ms')
            said, _ = client.communicate('\n', timeout=20)
            must(client.returncode == 0, f'{client.returncode}: {said}')


def stopped(address):
    stuck(address, 150, lambda server: server.process.send_signal(signal.SIGSTOP),
          lambda server: server.process.send_signal(signal.SIGCONT))


def cable():
    """The server's host is cut off, but the port stays open."""
    netns.hosts_or_skip()

    def set_link(state):
        return lambda _server: netns.ip('-n', netns.host('0'), 'link', 'set', 'va', state)

    on = [['ip', 'netns', 'exec', netns.host(letter)] for letter in 'ab']
    stuck('10.77.0.1:0', 150, set_link('down'), set_link('up'), on)


def usage():
    roam = program('roam')
    for words, status, err in (
            (['past'], 2, 'past what'), (['past', 'serve'], 2, 'one address'),
            (['past', 'serve', './x'], 2, 'no key'), (['past', 'top', '--every', '0', 'x'], 2, 'what'),
            (['past', 'serve', '--once', './x'], 2, 'what'),
            (['past', 'serve', '--keep', '0', './x'], 2, 'what'),
            (['past', 'top', '--keep', '9', './x'], 2, 'what'),
            (['past', 'top', '--keep-memory', '9', './x'], 2, 'what'),
            (['past', 'serve', '--keep-memory', '0', './x'], 2, 'what'),
            (['past', 'serve', './x', '--key', '/nowhere/key'], 1, 'no key in /nowhere/key'),
            (['past', 'top', './nobody', '--key', '/nowhere/key'], 1, 'no key in')):
        expect([roam, *words], status=status, err=err)
    expect([roam, 'past', '--help'], out='usage: roam past serve')
    with Server() as server:
        expect([roam, 'past', 'serve', server.address], status=1, err='another server listens at',
               env=server.env)
        expect([roam, 'past', 'serve', '127.0.0.1:0', '--functions', '/nowhere.so'], status=1,
               err='no X-functions: /nowhere.so', env=server.env)
        must(server.top()['programs'] == 1, 'the server was harmed')
    others_place()


def others_place():
    """A server removes no other file where it is to listen; another user's socket is named."""
    with tempfile.TemporaryDirectory() as where:
        key, path = f'{where}/key', f'{where}/place'
        serve = [program('roam'), 'past', 'serve', path, '--key', key]
        with open(path, 'w', encoding='utf-8') as file:
            file.write('mine')
        expect(serve, 1, f'cannot serve at {path}: a file of user {os.geteuid()} is there$')
        must(os.path.getsize(path) == 4, 'the file is lost')
        if os.geteuid() != 0:
            return
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            os.seteuid(65534)
            other.listen()
            os.seteuid(0)
            line = f'process {os.getpid()} of user 65534 listens at {path}$'
            expect(serve, 1, line)
            other.accept()[0].close()
            threading.Thread(target=lambda: other.accept()[0].close()).start()
            expect([program('roam'), 'past', 'top', path, '--key', key, '--once'], 1, line)


GROUPS = {
    'stuck': lambda: [('stopped unix', stopped, './socket'), ('stopped tcp', stopped, '127.0.0.1:0')],
    'hostile': lambda: [(f'hostile {how}', hostile, how, errors) for how, errors in (
        ('failed', ('0', )), ('names', ('14', )), ('functions', ('14', )), ('tuples', ('14', )),
        ('clients', ('21', )), ('waits', ('0', )), ('answers', ('0', )))],
    'cable': lambda: [('cable', cable)],
    'use': lambda: [('all unix', everything, './socket'), ('all tcp', everything, '127.0.0.1:0'),
                    ('many', many), ('usage', usage), ('no room', no_room),
                    *((f'no room, {errno.errorcode[number]}', refused_by_kernel, number, address)
                      for number, address in ((errno.ENFILE, './socket'), (errno.ENOMEM, './socket'),
                                              (errno.ENOBUFS, '127.0.0.1:0'), (errno.EPERM, '127.0.0.1:0'))),
                    ('keys', keys),
                    ('not ours', not_ours)],
    'kill': lambda: [(f'killed {how}', killed, how)
                     for how in ('move', 'observe', 'mob', 'delta', 'truncate', 'state', 'cancel',
                                 'enter')] +
                    [(f'killed waiting {how}', killed_waiting, how) for how in ('observe', 'move')] +
                    [('killed mob', killed_mob), ('killed participant', killed_participant),
                     ('server killed', killed_server, signal.SIGKILL, -signal.SIGKILL),
                     ('server ended', killed_server, signal.SIGTERM, 0),
                     ('strangers', strangers)],
}

if __name__ == '__main__':
    main(GROUPS)
