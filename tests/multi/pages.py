#!/usr/bin/env python3
"""`roam pages`: a server of committed pages that is killed at random points, meets a full disk, damaged and
missing files, strangers and other jobs.  Nothing acknowledged is lost, and what is recovered is a prefix of
what was received, with no commit torn.

usage: pages.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import random
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time

from harness import Wrong, clean_env, expect, main, program, ticks

CLIENTS = 3
# What a client says that came when the server was gone, or that had not begun when it was killed.
LATE = 'no server at|does not answer|no page server of this version|nothing could be loaded'


def must(holds, what):
    if not holds:
        raise Wrong(what)


class Server:
    """A page server in a directory of its own; it may be killed and started again."""

    def __init__(self, *options, file_bytes=None, descriptors=None, env=None):
        self.place = tempfile.TemporaryDirectory(prefix='roam-pages-')
        self.directory = os.path.join(self.place.name, 'store')
        self.key = os.path.join(self.place.name, 'key')
        self.address = os.path.join(self.place.name, 'socket')
        self.options = options
        self.file_bytes = file_bytes
        self.descriptors = descriptors
        self.env = env
        self.process = None

    def command(self):
        return [program('roam'), 'pages', 'serve', self.directory, self.address, '--key', self.key, *self.options]

    def limit(self):
        if self.file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_bytes, resource.RLIM_INFINITY))
        if self.descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.descriptors, self.descriptors))

    def start(self):
        self.process = subprocess.Popen(self.command(), env=clean_env(self.env), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, preexec_fn=self.limit)
        line = self.process.stdout.readline()
        if not re.fullmatch(r'serving at \S+\n', line):
            raise Wrong(f'the server said {line!r}, {self.process.communicate()}')
        return self

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            ended = self.end()
            if kind is None:
                must(ended == (0, '', ''), f'the server ended with {ended}')
        self.place.cleanup()

    def client(self, *words, key=None):
        return [program('pages_client'), self.address, key or self.key, *(str(word) for word in words)]

    def show(self):
        """The serial number of the last commit, and the last commit of each client, all verified."""
        serial, durable, *last = (int(word) for word in expect(self.client('show')).out.split())
        must(serial == durable, f'{durable} of {serial} are durable in a server that just began')
        return serial, last

    def check(self, **how):
        return expect([program('roam'), 'pages', 'check', self.directory], **how)


class Journal:
    """What the clients have heard."""

    def __init__(self):
        self.receipts, self.durable = {}, 0

    def note(self, client, said):
        for line in said.splitlines(keepends=True):
            words = line.split()
            if not line.endswith('\n'):
                continue
            if words[0] == 'r':
                self.receipts[client, int(words[1])] = int(words[2])
            else:
                self.durable = max(self.durable, int(words[1]))

    def compare(self, serial, last):
        must(serial >= self.durable, f'{self.durable} commits were durable, {serial} are there')
        must(serial == sum(last), f'{serial} commits, of the clients: {last}')
        for (client, number), got in self.receipts.items():
            must((number <= last[client]) == (got <= serial),
                 f'commit {number} of client {client} had number {got}; there are {serial}: {last}')
        # What was lost will be done again, under other numbers.
        self.receipts = {at: got for at, got in self.receipts.items() if got <= serial}


def commit(server, job, count):
    return [subprocess.Popen(server.client('commit', job, client, count), env=clean_env({}),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for client in range(CLIENTS)]


def collect(journal, clients):
    statuses = []
    for client, process in enumerate(clients):
        out, err = process.communicate(timeout=30)
        late = re.search(LATE, err) is not None
        must(err == '' or late, f'client {client}: {err}')
        journal.note(client, out)
        statuses.append(3 if late else process.returncode)
    return statuses


# ------------------------------------------------------------------------------------------ crash

def killed(seed):
    """The server is killed again and again, whatever it is doing: writing, making snapshots, trimming."""
    dice = random.Random(seed)
    options = ['--log', '0.03', '--snapshot', '0.1'] + (['--no-uring'] if seed % 2 else [])
    server, journal = Server(*options), Journal()
    with server:
        for turn in range(5):
            clients = commit(server, turn, 100000)
            time.sleep(dice.uniform(0.02, 0.35))
            server.end(signal.SIGKILL)
            must(collect(journal, clients) == [3] * CLIENTS, 'a client did not notice')
            match = re.match(r'(\d+) commits, ', server.check().out) if journal.receipts else None
            server.start()
            serial, last = server.show()
            must(match is None or int(match.group(1)) == serial, f'check said {match}, there are {serial}')
            journal.compare(serial, last)
        must(journal.durable > 10, 'nothing was durable')


def ended():
    """Clients of one job commit all they have; then the server ends in order, and has all of it."""
    server, journal = Server('--log', '0.05', '--snapshot', '0.2'), Journal()
    with server:
        must(collect(journal, commit(server, 1, 60)) == [0] * CLIENTS, 'a client failed')
        must(server.end() == (0, '', ''), 'the server did not end in order')
        server.start()
        must(server.show() == (60 * CLIENTS, [60] * CLIENTS), 'not all is there')
        journal.compare(*server.show())


def full(uring):
    """Files may not grow any more: the server says so in one line, and loses nothing acknowledged."""
    server, journal = Server(*uring, file_bytes=300000), Journal()
    with server:
        clients = commit(server, 1, 100000)
        out, err = server.process.communicate(timeout=30)
        must(out == '' and server.process.returncode == 1 and re.fullmatch(
            r'roam: pages serve: log\.\w+ cannot be written: File too large; what was acknowledged as durable is kept\n',
            err), f'{server.process.returncode}: {err!r}')
        collect(journal, clients)
        must(journal.durable > 10, 'nothing was durable')
        server.file_bytes = None
        server.start()
        journal.compare(*server.show())


def room_again():
    """A server that begins on a full disk serves what it has, refuses commits, and takes them when there is room."""
    server, journal = Server(file_bytes=300000), Journal()
    with server:
        clients = commit(server, 1, 100000)
        must(server.process.wait(timeout=30) == 1, 'the disk was not full')
        server.process.communicate()
        collect(journal, clients)
        server.file_bytes = 40
        server.start()
        line = server.process.stderr.readline()
        must(re.fullmatch(r'roam: pages serve: log\.\w+ cannot be made: File too large; commits are refused until '
                          r'there is room\n', line), line)
        shown = [int(word) for word in expect(server.client('show')).out.split()]
        journal.compare(shown[0], shown[2:])
        must(shown[1] < shown[0], f'{shown}: what no record vouches for is durable')
        expect(server.client('commit', 1, 0, 5), status=3,
               err=r'commits are refused until there is room on the disk: log\.\w+ cannot be made: File too large$')
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        line = server.process.stderr.readline()
        must(line == 'roam: pages serve: there is room again: commits are taken\n', line)
        must(collect(journal, commit(server, 1, 20)) == [0] * CLIENTS, 'a client failed')
        server.end()
        server.file_bytes = None
        server.start()
        journal.compare(*server.show())


def no_store_yet():
    """The disk is full before the first client comes, which is refused; the next one has a store."""
    server = Server(file_bytes=70)  # a key is shorter, the head of a log longer
    with server:
        expect(server.client('commit', 1, 0, 5), status=1, err='commits are refused until there is room on the disk: ')
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        must('there is room again' in server.process.stderr.readline(), 'no line')
        expect(server.client('commit', 1, 0, 5))


def bad_disk(how, line):
    """A write or a sync fails: the server ends with a line, and has all that it acknowledged, and no commit torn."""
    server = Server('--no-uring', env={'LD_PRELOAD': program('bad_disk'), 'BAD_DISK': how})
    journal = Journal()
    with server:
        clients = commit(server, 1, 100000)
        out, err = server.process.communicate(timeout=30)
        must(out == '' and server.process.returncode == 1 and re.fullmatch(
            rf'roam: pages serve: log\.\w+ {line}; what was acknowledged as durable is kept\n', err),
             f'{server.process.returncode}: {err!r}')
        collect(journal, clients)
        must(journal.durable > 10, 'nothing was durable')
        server.env = None
        server.start()
        journal.compare(*server.show())


def short_writes():
    """Writes that take a part only go on with the rest."""
    server = Server('--no-uring', '--log', '0.05', env={'LD_PRELOAD': program('bad_disk'), 'BAD_DISK': 'short'})
    with server:
        must(collect(Journal(), commit(server, 1, 40)) == [0] * CLIENTS, 'a client failed')
        must(server.end() == (0, '', ''), 'the server did not end in order')
        server.start()
        must(server.show() == (40 * CLIENTS, [40] * CLIENTS), 'not all is there')


# ------------------------------------------------------------------------------------------ refused

def rights():
    """With the key to read with a client gets all there is, of one moment while others commit, and commits nothing."""
    with tempfile.TemporaryDirectory(prefix='roam-pages-') as place:
        read_key = os.path.join(place, 'key')
        with Server('--read-key', read_key) as server:
            must(collect(Journal(), commit(server, 1, 5)) == [0] * CLIENTS, 'a client failed')
            expect(server.client('commit', 1, 0, 1, key=read_key), status=3,
                   err='^pages_client: commits are refused: the key gives the right to read only$')
            clients = commit(server, 2, 400)
            before = 0
            while any(client.poll() is None for client in clients):
                serial, _, *last = (int(word) for word in expect(server.client('show', key=read_key)).out.split())
                must(serial == sum(last) and serial >= before, f'{serial} after {before}: {last}')
                before = serial
            must(collect(Journal(), clients) == [0] * CLIENTS, 'a client failed')
            must(server.show() == (405 * CLIENTS, [405] * CLIENTS), 'not all is there')
            server.options = ['--read-key', server.key]
            refuses(server, 'the key to read with is the key to commit with, too')


def refuses(server, line):
    expect(server.command(), status=1, err=f'^roam: pages serve: {line}$')


def files():
    """Of damaged, missing and strange files each leads to one line, and nothing is served."""
    server = Server()
    with server:
        collect(Journal(), commit(server, 1, 10))
        refuses(server, 'another server has .*/store')
        server.check(status=1, err='another server has')
        server.end()
        log = os.path.join(server.directory, 'log.0000000000000001')
        with open(log, 'r+b') as file:
            file.seek(200)
            byte = file.read(1)[0]
            file.seek(200)
            file.write(bytes([byte ^ 4]))
        refuses(server, r'log\.0000000000000001 is damaged at byte \d+')
        server.check(status=1, err=r'log\.0000000000000001 is damaged at byte \d+')
        with open(log, 'r+b') as file:
            file.seek(200)
            file.write(bytes([byte]))
            file.seek(7)
            file.write(b'9')
        refuses(server, r'log\.0000000000000001 is of another version of roam.*')
        with open(log, 'r+b') as file:
            file.seek(7)
            file.write(b'1')
        server.start()
        must(server.show()[0] == 10 * CLIENTS, 'not all is there')
        server.end()
        os.rename(log, log + '.away')
        refuses(server, 'commits 1 to 30 are missing before log.*')
        os.rename(log + '.away', log)
        os.chmod(server.directory, 0o750)
        refuses(server, r'.*/store is not safe: others may use it \(chmod 700\)')
        os.chmod(server.directory, 0o700)
        server.start()


def strangers():
    """A second job, another heap, another key, no server: one clear line each."""
    server = Server()
    with server:
        first = subprocess.Popen(server.client('open', 48, 1), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env=clean_env({}))
        must(first.stdout.readline() == b'open\n', 'the first client was refused')
        expect(server.client('open', 48, 2), status=1, err='another job uses it')
        expect(server.client('open', 49, 1), status=1,
               err='it keeps a heap of 193536 bytes, the program has one of 197568: take the ROAM_HEAP with which it was made')
        first.communicate(b'x', timeout=10)
        expect(server.client('open', 48, 2))
        other = os.path.join(server.place.name, 'other')
        with open(os.open(other, os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as file:
            file.write('1' * 64)
        expect([program('pages_client'), server.address, other, 'show'], status=1, err='has another key')
    expect([program('pages_client'), server.address, other, 'show'], status=1, err='ADDRESS KEY_FILE')


def crowd():
    """Connections take all descriptors of the server but a few: its log and snapshots go on, it does
    not spin, and others are let in when there is room again."""
    server = Server('--log', '0.03', '--snapshot', '0.1', descriptors=40)
    with server:
        clients = commit(server, 1, 600)
        must(all(client.stdout.readline() for client in clients), 'a client was not let in')
        others = [socket.socket(socket.AF_UNIX) for _ in range(60)]
        for other in others:
            other.connect(server.address)
        for client in clients:
            client.stdout.read()
            must(client.wait() == 0, client.stderr.read())
        before = ticks(server.process.pid)
        time.sleep(0.6)
        must(ticks(server.process.pid) - before < 20, 'the server spins')
        for other in others:
            other.close()
        must(server.show()[0] == 600 * CLIENTS, 'not all is there')


GROUPS = {
    'kill': lambda: [(f'killed, seed {seed}', killed, seed)
                     for seed in range(int(os.environ.get('ROAM_SEEDS', '10')))],
    'refuse': lambda: [('ended', ended), ('full', full, []), ('full without io_uring', full, ['--no-uring']),
                       ('room again', room_again), ('full before it begins', no_store_yet),
                       ('a sync fails', bad_disk, 'sync 30', 'cannot be written: Input/output error'),
                       ('a write fails', bad_disk, 'write 40', 'cannot be written: Input/output error'),
                       ('short writes', short_writes), ('files', files), ('clients', strangers),
                       ('rights', rights), ('crowd', crowd)],
}

if __name__ == '__main__':
    main(GROUPS)
