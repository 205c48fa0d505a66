#!/usr/bin/env python3
"""Pages that outlive the job (stored.c): nodes, whole jobs and the page server are killed at random moments; the
next job, of the same or another number of nodes, finds a state that was between two transfers, with all that was
acknowledged as durable.  A server that is stopped or gone, or whose store does not fit, is one clear line.

usage: stored.py [-k PART_OF_A_NAME] [quick | more]
"""
import contextlib
import os
import random
import re
import signal
import subprocess
import tempfile
import time

from harness import (Later, Wrong, clean_env, default_protocol, end_session, expect, few, launched, main, program, rest,
                     session_pids, those)

LONG = 1000000  # transfers: until it is killed
LIMIT = 20.0    # seconds for what should take one or two
DONE = r'done\n\Z'
LOST = r'\Aroam: node \d: the page server at \S+: it had not been stopped in order: .* is lost\n\Z'
GONE = r'\Aroam: node \d: the page server at \S+: the connection is lost, and could not be made again in 8 s\n\Z'


class Server:
    """A page server with a directory of its own."""

    def __init__(self, place):
        self.address = f'{place}/socket'
        self.key = f'{place}/key'
        self.command = [program('roam'), 'pages', 'serve', f'{place}/store', self.address, '--key', self.key]
        self.process = None

    def start(self):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(self.command, env=clean_env(None), stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith('serving at '):
            raise Wrong(f'the server says {line!r}')

    def end(self, how=signal.SIGKILL):
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(how)
        status = self.process.wait(LIMIT)
        self.process.stdout.close()
        if how == signal.SIGTERM and status != 0:
            raise Wrong(f'the server ended with status {status}')

    def run(self, words, **env):
        """What a program says on stderr."""
        return subprocess.run(words, env=clean_env(self.env(**env)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, timeout=LIMIT, check=False).stderr

    def env(self, **more):
        return {'ROAM_PROTOCOL': those('transactions')[0], 'ROAM_STORE': self.address, 'ROAM_STORE_KEY': self.key,
                **more}


@contextlib.contextmanager
def serving():
    with tempfile.TemporaryDirectory(prefix='roam-stored-') as place:
        server = Server(place)
        server.start()
        try:
            yield server
        finally:
            if server.process.poll() is None:
                server.end()


def command(nodes, transfers, alone=0, start='fork'):
    """start: fork; run: by roam_start under roam run; create: by CREATE there; late: by roam_start, later."""
    words = [program('stored'), str(nodes), str(transfers), start if start in ('run', 'late') else str(alone)]
    return words if start == 'fork' else launched(nodes, *words)


class Acknowledged:
    """What jobs have said so far of the transfers of each node."""

    def __init__(self):
        self.counts = [0] * 8

    def hear(self, out):
        """A job's output: it has found no less than was acknowledged before."""
        lines = out.splitlines()
        found = [line.split()[1:] for line in lines if line.startswith('found ')]
        if (found or any(self.counts)) and len(found) != 1 and 'durable' in out:
            raise Wrong(f'found {found}, acknowledged {self.counts}')
        for counts in found:
            if any(int(count) < known for count, known in zip(counts, self.counts)):
                raise Wrong(f'found {counts}, acknowledged {self.counts}')
        for line in re.findall(r'^durable \d+ \d+$', out, re.MULTILINE):
            node, count = (int(word) for word in line.split()[1:])
            self.counts[node] = max(self.counts[node], count)


def transfers(out):
    """Waits until a job has said something: its nodes have found the server."""
    end = time.monotonic() + LIMIT
    while os.fstat(out.fileno()).st_size == 0 and time.monotonic() < end:
        time.sleep(.01)


def killed(server, picks, nodes, start, env):
    """A job that is killed, or whose server is, or is stopped and begins again; what it has said on stdout and
    stderr."""
    victim = picks.choice(['job', 'node', 'server', 'restart'])
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        with subprocess.Popen(command(nodes, LONG, picks.choice([0, 3]), start), env=clean_env(server.env(**env)),
                              stdout=out, stderr=err, start_new_session=True) as job:
            time.sleep(picks.uniform(.1, .6))
            if victim in ('server', 'restart'):
                transfers(out)
                server.end(signal.SIGKILL if victim == 'server' else signal.SIGTERM)
                server.start()
                time.sleep(picks.uniform(.1, .4))
            pids = session_pids(job.pid)
            if victim == 'restart' and job.poll() is not None:
                raise Wrong(f'a job has not waited for its server: status {job.returncode}')
            if victim == 'server':
                pass
            elif victim != 'node' or not pids:
                end_session(job.pid)
            else:
                os.kill(picks.choice(sorted(pids)), signal.SIGKILL)
            try:
                job.wait(LIMIT)
            except subprocess.TimeoutExpired:
                end_session(job.pid)
                raise Wrong(f'a job of {nodes} nodes goes on without its {victim}') from None
            end_session(job.pid)
        out.seek(0)
        err.seek(0)
        said = out.read(), err.read()
    if victim == 'server':
        if job.returncode == 0 or not re.fullmatch(LOST, said[1]):
            raise Wrong(f'{victim}: status {job.returncode}: {said[1]!r}')
    elif re.search('(?m)^line |server at', said[1]):
        raise Wrong(f'{victim}: {said[1]!r}')
    return said


def crashes(seed, env):
    picks = random.Random(seed)
    start = ('create', 'fork', 'run', 'fork')[seed % 4]
    acknowledged = Acknowledged()
    with serving() as server:
        for _ in range(5):
            acknowledged.hear(killed(server, picks, picks.choice([1, 2, 2, 4]), start, env)[0])
        for nodes, start in ((1, 'fork'), (2, 'run'), (4, 'create'), (1, 'run'), (2, 'fork'), (1, 'create')):
            result = expect(command(nodes, 8, 0, start), out=DONE, env=server.env(**env), timeout=60)
            acknowledged.hear(result.out)
        server.end(signal.SIGTERM)


def restarted(nodes, start, env):
    """A server that is stopped and begins again, several times, loses nothing and ends no job."""
    with serving() as server, tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        with subprocess.Popen(command(nodes, 1500, 0, start), env=clean_env(server.env(**env)), stdout=out, stderr=err,
                              start_new_session=True) as job:
            transfers(out)
            for turn in range(6):
                time.sleep(.2)
                server.end(signal.SIGTERM)
                time.sleep(.05 * turn)
                server.start()
            try:
                job.wait(60)
            finally:
                end_session(job.pid)
        err.seek(0)
        out.seek(0)
        if job.returncode != 0 or not re.search(DONE, out.read()):
            raise Wrong(f'status {job.returncode}: {err.read()!r}')
        expect(command(1, 1), out='^found' + ' 1500' * nodes + ' 0' * (8 - nodes) + '\n', env=server.env())


def gone(nodes):
    """A server that does not come back ends the job with a line."""
    with serving() as server:
        with subprocess.Popen(command(nodes, LONG), env=clean_env(server.env()), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, start_new_session=True) as job:
            time.sleep(.4)
            server.end()
            _, err = job.communicate(timeout=LIMIT)
            end_session(job.pid)
        if job.returncode == 0 or not re.fullmatch(GONE, err):
            raise Wrong(f'status {job.returncode}: {err!r}')


def each_waits():
    """With ROAM_STORE_SYNC=each what is committed is there without any call."""
    with serving() as server:
        expect(command(2, 30), out=DONE, env=server.env(ROAM_STORE_SYNC='each'))
        expect(command(1, 1), out=r'found 30 30 ', env=server.env())


def many():
    """Jobs one after the other find the blocks of all before, and hand out other memory."""
    with serving() as server:
        before = 0
        for nodes, alone, start in ((2, 5, 'fork'), (2, 3, 'create'), (1, 0, 'fork'), (4, 0, 'create'), (1, 3, 'fork'),
                                    (4, 0, 'fork'), (2, 0, 'run')):
            result = expect(command(nodes, 40, alone, start), out=DONE, env=server.env(ROAM_HEAP='64M'), timeout=60)
            found = re.search(r'^found (\d+) ', result.out, re.MULTILINE)
            if before and (found is None or int(found.group(1)) != before):
                raise Wrong(f'{result.out[:200]!r}, not {before}')
            before += 40


def churned(env):
    """What a job has freed is free for the next one, small blocks and large ones, in whatever way it is started."""
    with serving() as server:
        words = [program('stored'), '0', '3', 'churn']
        for turn in range(16):
            nodes = (0, 1, 2, 4)[turn % 4]
            words[1] = str(nodes)
            expect(launched(nodes, *words) if turn % 3 == 1 and nodes else words, out=DONE,
                   env=server.env(ROAM_HEAP='64M', **env), timeout=60)


def late(env):
    """What processes have stored alike before it was known that they are nodes is there once."""
    with serving() as server:
        expect(command(1, 2), out=DONE, env=server.env())
        for turn in range(1, 4):
            expect(command((2, 4, 1)[turn % 3], 5, 0, 'late'), out=rf'late {turn}\n(.*\n)*{DONE}', env=server.env(**env))


def owed(nodes, env):
    """Functions of roam_tx_on_commit are called in their order, and later than roam_tx returns, or all before that."""
    with serving() as server:
        words = [program('stored'), str(nodes), '200', 'calls']
        expect(words, out=rf'owed 1\n{DONE}', env=server.env(**env))
        expect(words, out=rf'owed 0\n{DONE}', env=server.env(ROAM_STORE_SYNC='each', **env))


def points():
    """A heap with a pointer to code is for a program that is the same, and loaded at the same address."""
    words = [program('stored'), '1', '0', 'points']
    with serving() as server:
        if server.run(words) != '' or server.run(['setarch', '-R', *words], ROAM_TRUST_POINTERS='1') != '':
            raise Wrong('a program that trusts pointers, or finds none')
        if server.run(['setarch', '-R', *words]) != '':
            raise Wrong('the same program at the same address')
        if not re.search(r'\Aroam: ROAM_STORE=\S+: the heap has a pointer to code or variables, at 0x2\w+, of a program '
                         r'that was built or loaded differently;.*ROAM_TRUST_POINTERS=1', server.run(words)):
            raise Wrong('the same program at another address')


def beside():
    """A commit of a process that is alone loses nothing that a thread stores of which roam does not know."""
    with serving() as server:
        before = 0
        for _ in range(3):
            result = expect([program('stored'), '1', '300', 'beside'], out=DONE, env=server.env())
            start, end = (int(word) for word in re.search(r'from (\d+) to (\d+)', result.out).groups())
            if start != before or end == start:
                raise Wrong(f'{start} to {end}, not from {before}')
            before = end


def with_child():
    """A child that a program has forked, and that lives longer, does not keep the store from the next job."""
    with serving() as server:
        result = subprocess.run([program('stored'), '1', '3', 'fork'], env=clean_env(server.env()), check=True,
                                stdout=subprocess.PIPE, text=True, timeout=LIMIT)
        try:
            expect(command(1, 3), out=DONE, env=server.env())
        finally:
            os.kill(int(re.search(r'^child (\d+)$', result.stdout, re.MULTILINE).group(1)), signal.SIGKILL)


def filled():
    """A process that is alone may store to more between two transactions than one commit can have."""
    with serving() as server:
        for turn in range(2):
            expect([program('stored'), '1', '1', 'fill'], out=rf'filled {turn}\n{DONE}', env=server.env())


def stopped():
    """Commits wait for a server that is stopped, and a report says so."""
    with serving() as server, tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        with subprocess.Popen(command(2, 20000), env=clean_env(server.env(ROAM_HANG='1')), stdout=out, stderr=err,
                              start_new_session=True) as job:
            time.sleep(.3)
            server.process.send_signal(signal.SIGSTOP)
            end = time.monotonic() + LIMIT
            said = ''
            while 'for the page server' not in said and time.monotonic() < end and job.poll() is None:
                time.sleep(.1)
                err.seek(0)
                said = err.read()
            alive = job.poll() is None
            end_session(job.pid)
        if not alive or 'for the page server' not in said:
            raise Wrong(f'{alive}: {said!r}')


def refused(text, protocol=None, words=None, **env):
    with serving() as server:
        expect(command(1, 1), out=DONE, env=server.env(ROAM_HEAP='64M'))
        own = server.env(**{'ROAM_HEAP': '64M', **env})
        if protocol is not None:
            own['ROAM_PROTOCOL'] = protocol
        one_line(words or command(2, 1), text, own)


def one_line(words, text, env):
    """The program's own line, that roam_start_main failed, is behind ours, and the launcher's."""
    result = subprocess.run(words, env=clean_env(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=LIMIT, check=False)
    lines = [line for line in result.stderr.splitlines()
             if not re.match(r'line |roam: node \d \(pid \d+\) exited', line)]
    if result.returncode == 0 or len(lines) != 1 or not re.search(text, lines[0]):
        raise Wrong(f'status {result.returncode}: {result.stderr!r}')


def no_server():
    with tempfile.TemporaryDirectory(prefix='roam-stored-') as place:
        key = f'{place}/key'
        with open(key, 'w', encoding='ascii') as file:
            file.write('0' * 64 + '\n')
        os.chmod(key, 0o600)
        env = {'ROAM_PROTOCOL': those('transactions')[0], 'ROAM_STORE': f'{place}/none', 'ROAM_STORE_KEY': key}
        one_line(command(1, 1), r'^roam: ROAM_STORE=\S+/none: ', env)


def other_key():
    with serving() as server, tempfile.NamedTemporaryFile('w', suffix='.key') as key:
        key.write('12' * 32 + '\n')
        key.flush()
        one_line(command(1, 1), r'^roam: ROAM_STORE=\S+: .*another key', server.env(ROAM_STORE_KEY=key.name))


WAYS = [{}, {'ROAM_TX_COMMIT': 'pages'}, {'ROAM_TRANSPORT': 'udp', 'ROAM_TX_COMMIT': 'pages'},
        {'ROAM_TRANSPORT': 'udp'},
        {'ROAM_ONESIDED': '0', 'ROAM_STORE_SYNC': 'each'}, {'ROAM_FAULT': 'sigsegv', 'ROAM_TX_COMMIT': 'pages'},
        {'ROAM_ALLOC': 'own', 'ROAM_TX_READS': 'exact'}, {'ROAM_TX_VALIDATE': 'backward'}]


def cases():
    for seed, way in enumerate(WAYS, 1):
        words = ' '.join(f'{key}={value}' for key, value in way.items())
        case = (f'crashes {seed} {words}', crashes, seed, way)
        yield case if seed == 1 else Later(case)
    yield Later(('each waits', each_waits))
    yield Later(('many jobs', many))
    for number, way in enumerate(WAYS[:4], 1):
        words = ' '.join(f'{key}={value}' for key, value in way.items())
        case = (f'blocks {number} {words}', churned, way)
        yield case if number == 1 else Later(case)
        yield Later((f'late {number} {words}', late, way))
        yield Later((f'on_commit {number} {words}', owed, (1, 2, 4)[number % 3], way))
    yield ('on_commit', owed, 2, {})
    yield ('pointers to code', points)
    yield ('a server that begins again', restarted, 2, 'fork', {})
    for number, way in enumerate(WAYS[1:4]):
        words = ' '.join(f'{key}={value}' for key, value in way.items())
        yield Later((f'a server that begins again {words}', restarted, (1, 4, 2)[number], ('fork', 'run', 'create')[number],
                     way))
    yield Later(('a server that is gone', gone, 2))
    yield ('late', late, {})
    yield ('beside a thread that is not held', beside)
    yield ('a child that lives longer', with_child)
    yield Later(('more than a commit between transactions', filled))
    yield Later(('a server that is stopped', stopped))
    yield ('no transactions', refused, r'^roam: ROAM_STORE=\S+: pages go there with transactions, which '
           rf'ROAM_PROTOCOL={default_protocol()} does not have; take', default_protocol())
    yield Later(('no key', lambda: refused(r'^roam: ROAM_STORE=\S+: ROAM_STORE_KEY does not name', ROAM_STORE_KEY='')))
    yield Later(('another heap', lambda: refused(r'^roam: ROAM_STORE=\S+: .*heap.*take the ROAM_HEAP', ROAM_HEAP='128M')))
    yield Later(('no server', no_server))
    yield Later(('another key', other_key))


GROUPS = {'quick': lambda: few(cases()), 'more': lambda: rest(cases())}

if __name__ == '__main__':
    main(GROUPS)
