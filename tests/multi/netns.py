"""Network namespaces joined by veth, each as good as a host, reached by ROAM_RSH="ip netns exec"; and
programs on them.  The launcher runs in one of its own."""
import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import Wrong, expect, program, run
from shapes import PROTOCOLS as EVERY, ONE_HEAP, SCOPED

HOSTS = 'abc'
PROTOCOLS = [name for name in EVERY if name not in ONE_HEAP]
ORDERED = [name for name in PROTOCOLS if name not in SCOPED]
PREFIX = f'roam-{os.getpid()}-'


def ip(*words):
    subprocess.run(['ip', *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE)


def host(letter):
    return PREFIX + letter


def pids(letter):
    found = subprocess.run(['ip', 'netns', 'pids', host(letter)], check=False, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [int(word) for word in found.stdout.split()]


DAEMONS = set()  # pids that stay


def remove():
    for letter in HOSTS + '0':
        for pid in pids(letter):
            os.kill(pid, signal.SIGKILL)
        subprocess.run(['ip', 'netns', 'del', host(letter)], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make():
    """Host 0, the launcher's, has a bridge, which the other hosts are joined to."""
    for letter in '0' + HOSTS:
        ip('netns', 'add', host(letter))
        ip('-n', host(letter), 'link', 'set', 'lo', 'up')
    ip('-n', host('0'), 'link', 'add', 'aa0', 'type', 'bridge')
    ip('-n', host('0'), 'addr', 'add', '10.76.0.1/24', 'dev', 'aa0')
    ip('-n', host('0'), 'link', 'set', 'aa0', 'up')
    ip('-n', host('0'), 'link', 'add', 'br0', 'type', 'bridge')
    ip('-n', host('0'), 'addr', 'add', '10.77.0.254/24', 'dev', 'br0')
    ip('-n', host('0'), 'link', 'set', 'br0', 'up')
    for number, letter in enumerate(HOSTS, 1):
        ip('-n', host('0'), 'link', 'add', f'v{letter}', 'type', 'veth', 'peer', 'name', 'eth0',
           'netns', host(letter))
        ip('-n', host('0'), 'link', 'set', f'v{letter}', 'master', 'br0', 'up')
        ip('-n', host(letter), 'addr', 'add', f'10.77.0.{number}/24', 'dev', 'eth0')
        ip('-n', host(letter), 'link', 'set', 'eth0', 'up')


def hosts_or_skip():
    """Makes the hosts; where that is not permitted the whole program is skipped."""
    reason = None
    if os.geteuid() != 0:
        reason = 'network namespaces are for root'
    elif shutil.which('ip') is None:
        reason = 'no command ip'
    else:
        atexit.register(remove)
        try:
            make()
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors='replace').strip().replace('\n', ' ')
    if reason is not None:
        print(f'skip: hosts: {reason}')
        sys.exit(77)


def on(letters):
    return ','.join(host(letter) for letter in letters)


def launched(nodes, letters, *command):
    return ['ip', 'netns', 'exec', host('0'), program('roam'), 'run', '-n', str(nodes), '-H',
            on(letters), *(str(word) for word in command)]


def env_of(env=None):
    return {'ROAM_RSH': 'ip netns exec', **(env or {})}


@contextlib.contextmanager
def reached_by(text):
    """A ROAM_RSH: a script in which {where} is a directory of its own, $1 the host, and "$@" the
    words that reach the host."""
    with tempfile.TemporaryDirectory() as where:
        path = os.path.join(where, 'rsh')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(f'#!/bin/sh\n{text.replace("{where}", where)}\nexec ip netns exec "$@"\n')
        os.chmod(path, 0o700)
        yield {'ROAM_RSH': path}, where


def nothing_left():
    end = time.monotonic() + 3
    while True:
        left = {pid: name_of(pid) for letter in HOSTS + '0' for pid in pids(letter)
                if pid not in DAEMONS}
        if not left:
            return
        if time.monotonic() > end:
            raise Wrong(f'left processes: {left}')
        time.sleep(0.01)


def well(command, out, env=None, **how):
    result = expect(command, 0, '', out, env=env_of(env), **how)
    nothing_left()
    return result


def wrong(command, status, err, env=None, seconds=5.0, **how):
    result = expect(command, status, err, env=env_of(env), **how)
    if result.seconds > seconds:
        raise Wrong(f'took {result.seconds:.1f} s')
    nothing_left()


def unreachable(command, err, env=None):
    """The output of ROAM_RSH comes before our line."""
    result = run(command, env=env_of(env))
    last = result.err.splitlines()[-1] if result.err else ''
    if result.status != 1 or re.search(err, last) is None or result.seconds > 5:
        raise Wrong(f'status {result.status}, stderr {result.err!r}')
    nothing_left()


def by_host(letter, here, elsewhere):
    """A script that does one thing on one host, and another thing on the others."""
    return ['sh', '-c', f'case $(ip netns identify) in {host(letter)}) {here};; '
                        f'*) {elsewhere};; esac']


def with_words(command, *words):
    at = command.index('-n')
    return [*command[:at], *words, *command[at:]]


def aes_here():
    with open('/proc/cpuinfo', encoding='utf-8') as info:
        flags = re.search('^flags.*', info.read(), re.M)
    return flags is not None and {'aes', 'pclmulqdq', 'avx'} <= set(flags.group().split())


def killed_in(letter, number):
    def act(_first, _pids):
        victims = [pid for pid in pids(letter) if name_of(pid) == 'multi_deaths']
        os.kill(victims[0], number)
    return act


def name_of(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8') as file:
            return file.read().strip()
    except OSError:
        return ''


def launcher_killed(first, _pids):
    os.kill(first, signal.SIGKILL)


def where_is(which):
    """Runs `roam where` for the launcher, or for a node; returns what that says."""
    def ask(first, pids_):
        return run([program('roam'), 'where', str(first if which is None else pids_[which])]).out
    return ask


def asked(words, ask, env, last=r'\(pid \d+\) waits at barrier 0x\w+ .*'):
    """One report has the nodes of both hosts, with what each waits for, or where it computes, and
    what is said of the last one; the job goes on after it for longer than a job that a signal
    ends."""
    said = []

    def act(first, pids_):
        time.sleep(1)
        said.append(ask(first, pids_))
    result = run(words, env=env, wanted=4, act=act)
    who = [rf'roam: node {node} on host \S+ ' for node in range(4)]
    lines = [who[0] + r'\(pid \d+\) computes in 1 of 1 threads, at \S+\+0x[0-9a-f]+.*',
             *(each + r'\(pid \d+\) waits at barrier 0x\w+ \([23] of 4 threads arrived\)'
               for each in who[1:3]), who[3] + last]
    told = [*said[0].splitlines(), *result.err.splitlines()]
    if result.status != 0 or 'went on' not in result.out or len(told) != 4 or \
            not all(map(re.fullmatch, lines, told)) or (said[0] == '') != (result.err != ''):
        raise Wrong(f'status {result.status}, {result.err!r}, {said!r}, {result.out[-200:]!r}')
    nothing_left()
