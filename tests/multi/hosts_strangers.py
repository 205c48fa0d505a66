#!/usr/bin/env python3
"""Jobs across hosts (netns.py) beside strangers at their ports, and over ssh.

usage: hosts_strangers.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from harness import Wrong, expect_end, main, program
from netns import (DAEMONS, asked, host, hosts_or_skip, killed_in, launched,
                   launcher_killed, name_of, nothing_left, reached_by, unreachable, well, where_is,
                   wrong)
from shapes import SIGNALLED

HELLO = b'roamtcp1' + bytes(24)


def garbage(port, seed):
    """What strangers may send to the launcher; runs in the launcher's namespace."""
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
    """The port at which a process listens in its namespace; None: none yet."""
    if name_of(pid) != name:  # not in its namespace yet
        return None
    with open(f'/proc/{pid}/net/tcp', encoding='utf-8') as table:
        for row in table.readlines()[1:]:
            fields = row.split()
            if fields[3] == '0A':
                return int(fields[1].split(':')[1], 16)
    return None


def strangers(seed):
    """The job starts though strangers speak first and agents come late."""
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
    'ssh': lambda: list(ssh_cases()),
    'strangers': lambda: list(stranger_cases()),
}

if __name__ == '__main__':
    if sys.argv[1:2] == ['--garbage']:
        garbage(int(sys.argv[2]), int(sys.argv[3]))
        sys.exit(0)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it in background jobs
    hosts_or_skip()
    main(GROUPS)
