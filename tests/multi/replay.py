#!/usr/bin/env python3
"""Programs attached to `roam past serve` over connections that are cut, at any byte: each operation
is done once all the same (rule 11.4), until the server has forgotten the program.

usage: replay.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import random
import select
import socket
import subprocess
import threading
import time

from attached import LOST, Server, must
from harness import clean_env, expect, main, program

GONE = 'the tuple was truncated, or the server forgot this program'
SEED = int(os.environ.get('ROAM_TEST_SEED', time.time_ns() % 1000000))


class Cutter:
    """Passes bytes on between clients and a server, and cuts each connection after some bytes; the
    server hears of the cut at once, or only after the client has come again."""

    def __init__(self, server, mean):
        self.server = server
        self.mean = mean
        self.rng = random.Random(SEED)
        self.cuts = 0
        self.down = False
        self.links = []
        self.late = []
        self.inet = ':' in server.address
        if self.inet:
            self.listener = socket.create_server(('127.0.0.1', 0))
            self.address = f'127.0.0.1:{self.listener.getsockname()[1]}'
        else:
            self.address = os.path.join(server.place.name, 'cutter')
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.address)
            self.listener.listen()
        self.ends, self.wake = socket.socketpair()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.close()
        self.thread.join()
        for end in [self.listener, self.wake, *self.late, *(end for link in self.links
                                                            for end in link[:2])]:
            end.close()

    def accept(self):
        client, _ = self.listener.accept()
        if self.down:
            client.close()
            return
        server = socket.socket(socket.AF_INET if self.inet else socket.AF_UNIX)
        host, _, port = self.server.address.rpartition(':')
        server.connect((host, int(port)) if self.inet else self.server.address)
        self.links.append([client, server, self.rng.expovariate(1 / self.mean) if self.mean else
                           float('inf')])

    def cut(self, link):
        """The client's end first."""
        self.links.remove(link)
        link[0].close()
        if self.mean and self.rng.random() < 0.3:
            self.late.append(link[1])
        else:
            link[1].close()
        if len(self.late) > 3:
            self.late.pop(0).close()
        self.cuts += 1

    def pass_on(self, link, source):
        sink = link[1] if source is link[0] else link[0]
        try:
            data = source.recv(65536)
            sink.sendall(data[:int(min(len(data), link[2]))])
        except (ConnectionResetError, BrokenPipeError):
            data = b''
        link[2] -= len(data)
        if not data or link[2] <= 0:
            self.cut(link)

    def run(self):
        while True:
            ends = {end: link for link in self.links for end in link[:2]}
            ready, _, _ = select.select([self.wake, self.listener, *ends], [], [])
            if self.wake in ready:
                return
            if self.listener in ready:
                self.accept()
            for end in ready:
                if end in ends and ends[end] in self.links:
                    self.pass_on(ends[end], end)

    def cut_all(self, down=False):
        """Called by the test's thread while the clients are silent, except for the connections that
        it shuts: the other thread sees these end."""
        self.down = down
        for link in list(self.links):
            link[0].shutdown(socket.SHUT_RDWR)


def command(cutter, *words):
    return [program('storm'), cutter.address, *(str(word) for word in words)]


def storm(address, mean, *words):
    """Under load; each connection is cut after so many bytes on average."""
    with Server(address) as server, Cutter(server, mean) as cutter:
        print(f'seed {SEED}', end=' ')
        expect(command(cutter, *words), env=server.env)
        must(cutter.cuts > 10, f'only {cutter.cuts} cuts')
        print(f'{cutter.cuts} cuts', end=' ')
        must(server.top()['programs'] >= 1, 'the server was harmed')


def begin(server, cutter, *words):
    process = subprocess.Popen(command(cutter, *words), env=clean_env(server.env), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    return process, process.stdout.readline()


def ended(process, said, lines=None):
    out, err = process.communicate(lines, timeout=20)
    must((process.returncode, out, err) == (0, said and said + '\n', ''),
         f'{process.returncode}, {out!r}, {err!r}, not {said!r}')


def paused(seconds, said, keep=None, again=False):
    """Nothing is under way while the connections are cut, for so long; or another server has
    started."""
    with Server('127.0.0.1:0', keep=keep) as server, Cutter(server, None) as cutter:
        process, line = begin(server, cutter, 'pause')
        must(line == 'moved\n', line)
        cutter.cut_all()
        time.sleep(seconds)
        if again:
            server.end(15)
            server.start()
        ended(process, said, '\n')


def waits(seconds, down, said, keep=None):
    """An operation waits while no client can reach the server, for so long."""
    with Server(keep=keep) as server, Cutter(server, None) as cutter:
        process, line = begin(server, cutter, 'wait')
        must(line == 'waiting\n', line)
        server.expect('waiting-alone', 1)
        cutter.cut_all(down)
        time.sleep(seconds)
        cutter.down = False
        if said == LOST:
            ended(process, said)
        server.expect('waiting-alone', 0 if said == LOST else 1)
        if said != LOST:
            server.expect('move-alone', 1)
            ended(process, said)


def timed():
    """Operations with a limit of time, and cancelled ones, while no client can reach the server: an
    operation that the server may have got says so; afterwards everything is as before."""
    with Server() as server, Cutter(server, None) as cutter:
        process, line = begin(server, cutter, 'timed')
        must(line == 'waiting\n', line)
        server.expect('waiting-alone', 1)
        began = time.monotonic()
        cutter.cut_all(down=True)
        process.stdin.write('\n')
        process.stdin.flush()
        said = [process.stdout.readline() for _ in range(3)]
        must(said == [LOST + '\n', 'not done within the time given\n', 'cancelled\n'], f'it said {said}')
        must(1 <= time.monotonic() - began < 10, 'it waited for the server')
        cutter.down = False
        ended(process, 'no error\nnot done within the time given', '\n')
        server.expect('waiting-alone', 0)


def participant():
    """The operation of an X-function's participant runs out of time, too; asked again it is done
    once."""
    with Server() as server, Cutter(server, None) as cutter:
        process, line = begin(server, cutter, 'participant')
        must(line == 'waiting\n', line)
        server.expect('waiting-sum', 1)
        began = time.monotonic()
        cutter.cut_all(down=True)
        said = [process.stdout.readline() for _ in range(2)]
        must(said == [LOST + '\n'] * 2, f'it said {said}')
        must(1 <= time.monotonic() - began < 5, 'it waited for the server')
        cutter.down = False
        ended(process, '', '\n')


def outages(address, mean, least, *words):
    """Operations that run out of time again and again, while the server cannot be reached at
    times."""
    with Server(address) as server, Cutter(server, mean) as cutter:
        print(f'seed {SEED}', end=' ')
        process = subprocess.Popen(command(cutter, *words), env=clean_env(server.env),
                                   text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4):
            time.sleep(cutter.rng.uniform(0, 0.1))
            cutter.down = True
            time.sleep(1.4)
            cutter.down = False
            if process.poll() is not None:
                break
        out, err = process.communicate(timeout=40)
        must((process.returncode, err) == (0, ''), f'{process.returncode}, {out}, {err!r}')
        must(int(out) >= least, 'nobody was ever unsure')
        print(f'{cutter.cuts} cuts, {int(out)} unsure', end=' ')


GROUPS = {
    'storm': lambda: [
        ('histories unix', storm, './socket', 3000, 'histories', SEED, 150),
        ('histories tcp', storm, '127.0.0.1:0', 1500, 'histories', SEED + 1, 100),
        ('flood small', storm, './socket', 5000, 'flood', 64, 300),
        ('flood large', storm, '127.0.0.1:0', 1000000, 'flood', 61184, 60),
        ('rounds', storm, './socket', 3000, 'rounds', 150)],
    'away': lambda: [
        ('paused', paused, 0.2, 'no error'), ('paused too long', paused, 1.5, GONE, 0.3),
        ('timed', timed), ('participant', participant),
        ('outages unix', outages, './socket', 3000, 1, 'timed-rounds', 400),
        ('outages tcp', outages, '127.0.0.1:0', 1500, 1, 'timed-rounds', 200),
        ('outages histories', outages, './socket', 3000, 0, 'histories', SEED, 500),
        ('another server', paused, 0.1, GONE, None, True),
        ('waits', waits, 0.3, True, 'no error'), ('waits too long', waits, 1, True, LOST, 0.5)],
}

if __name__ == '__main__':
    main(GROUPS)
