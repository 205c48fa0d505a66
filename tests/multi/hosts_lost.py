#!/usr/bin/env python3
"""Jobs across hosts (netns.py) that lose nodes, hosts or the launcher, hang, or are refused.

usage: hosts_lost.py [-k PART_OF_A_NAME] [GROUP]...
"""
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from creating import fed, not_again
from hang import quit_late
from harness import Wrong, expect, expect_end, main, program, run
from netns import (DAEMONS, PREFIX, asked, by_host, env_of, host, hosts_or_skip, ip,
                   killed_in, launched, launcher_killed, name_of, nothing_left, pids, reached_by,
                   unreachable, well, where_is, with_words, wrong)
from shapes import SIGNALLED

LOST_MAX = 8.0   # seconds in which the loss of a host is noticed


def badly(command, nodes, status, err, act=None, seconds=None):
    """The job ends badly once all nodes are ready; in `seconds`, or as fast as on one host."""
    how = {'env': env_of(), 'act': act}
    if seconds is None:
        expect_end(command, nodes, status, err, **how)
    else:
        result = expect(command, status, err, wanted=nodes, **how)
        if result.after is None or result.after > seconds:
            raise Wrong(f'ended after {result.after}')
    nothing_left()


def second_round():
    not_again(run(fed(launched(2, 'ab', program('create'), 'again', 2)), env=env_of()))
    nothing_left()


def all_killed(_first, nodes):
    for pid in nodes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def agent_killed(_first, _pids):
    for pid in pids('b'):
        if name_of(pid) == 'roam':
            os.kill(pid, signal.SIGKILL)


def cut_off(_first, _pids):
    ip('-n', host('b'), 'link', 'set', 'eth0', 'down')


def cut(command):
    """Host b is cut off: the line comes in time, and the agent there notices, too, and ends its
    nodes."""
    try:
        badly_cut(command)
    finally:
        ip('-n', host('b'), 'link', 'set', 'eth0', 'up')


def badly_cut(command):
    # Launcher and nodes have the same deadline, and either may be first.
    result = expect(command, 1, rf'^roam: (run: host {host("b")} is lost|'
                    r'node \d on host \S+: node \d on \S+ has been silent)', wanted=3,
                    env=env_of(), act=cut_off)
    if result.after is None or result.after > LOST_MAX:
        raise Wrong(f'ended after {result.after}')
    end = time.monotonic() + LOST_MAX
    while pids('b'):
        if time.monotonic() > end:
            raise Wrong(f'left on the lost host: {pids("b")}')
        time.sleep(0.05)
    nothing_left()


def deaths(how, others):
    return launched(3, 'abc', program('deaths'), 'run', 3, 1, how, others)


def other_build(words):
    """One host has another file under the same name."""
    with tempfile.TemporaryDirectory() as where:
        copy = os.path.join(where, 'hello')
        shutil.copy(program('hello'), copy)
        with open(copy, 'ab') as file:
            file.write(b'another build')
        wrong(launched(3, 'abc', *by_host('b', f'exec {copy}', f'exec {program("hello")}')), 1,
              words)


def stubborn(twice):
    def act(first, _pids):
        os.kill(first, signal.SIGTERM)
        if twice:
            time.sleep(0.3)
            os.kill(first, signal.SIGTERM)
    script = 'trap "" INT TERM; echo ready 0 $$; while :; do sleep 0.05; done'
    result = expect(launched(2, 'ab', 'sh', '-c', script), SIGNALLED + signal.SIGTERM, wanted=2,
                    act=act, env=env_of())
    least, most = (0, 2.5) if twice else (5, 7.5)
    if not least <= result.after <= most:
        raise Wrong(f'ended after {result.after:.1f} s')
    nothing_left()


def failure_cases():
    other = rf'node 1 on host {host("b")} \(pid \d+\)'
    yield ('node killed', badly, deaths('kill', 'barrier'), 3, SIGNALLED + 9,
           rf'^roam: {other} was killed by signal 9 \(Killed\); '
           + ', '.join(rf'node {node} waited at roam_barrier_all \(2 of 3 threads arrived\)'
                       for node in (0, 2)) + '$')
    yield ('node killed, others compute', badly, deaths('kill', 'compute'), 3, SIGNALLED + 9,
           rf'^roam: {other} was killed by signal 9 \(Killed\)$')
    yield ('node exits', badly, deaths('_exit0', 'barrier'), 3, 1,
           rf"^roam: {other} exited with status 0 before the job's end; node 0 waited")
    yield ('node ends', badly, deaths('exit0', 'partial'), 3, 1,
           r'^roam: node [02] on host \S+: threads wait at barrier 0x\w+ for node 1, which has '
           'ended')
    for how in ('exit0', 'finish', 'pthread'):
        yield (f'node ends early, {how}', well, launched(3, 'abc', program('deaths'), 'fork', 3, 1, how, 'slow'),
               '(?s)ready.*ready')
    yield ('node killed from outside', badly, deaths('never', 'lock'), 3, SIGNALLED + 9,
           rf'^roam: {other} was killed by signal 9', killed_in('b', signal.SIGKILL))
    yield ('all nodes killed', badly, deaths('never', 'compute'), 3, SIGNALLED + 9,
           r'^roam: node \d on host \S+ \(pid \d+\) was killed by signal 9', all_killed)
    yield ('agent killed', badly, deaths('never', 'barrier'), 3, 1,
           rf'^roam: run: host {host("b")} is lost', agent_killed)
    yield ('launcher killed', badly, deaths('never', 'barrier'), 3, -signal.SIGKILL, '',
           launcher_killed)
    yield ('host cut off', cut, deaths('never', 'barrier'))
    yield ('stubborn', stubborn, False)
    yield ('stubborn, asked twice', stubborn, True)
    yield ('timeout', wrong, with_words(deaths('never', 'barrier'), '--timeout', '1'), 124,
           r'^roam: run: the job has not ended within 1 s \(--timeout\); node 0 waited')
    yield ('node stopped for a second', stopped, 1)
    yield ('node stopped for good', stopped, None)
    yield ('node killed, one beside it', badly,
           launched(4, 'ab', program('deaths'), 'run', 4, 1, 'kill', 'barrier'), 4, SIGNALLED + 9,
           rf'^roam: node 1 on host {host("a")} \(pid \d+\) was killed by signal 9 \(Killed\); '
           + ', '.join(rf'node {node} waited at roam_barrier_all \(3 of 4 threads arrived\)'
                       for node in (0, 2, 3)) + '$')


def quit_first(first, _pids=None):
    os.kill(first, signal.SIGQUIT)
    return ''


def quit_late_first(first, pids_):
    quit_late(first, pids_, quit_first)
    return ''


def hang_cases():
    """hang.py has the cases that need no other host."""
    judged = rf'^roam: node 0 on host {host("a")}: no thread of the job can go on; '
    for nodes, letters, env in ((4, 'ab', None), (3, 'abc', {'ROAM_TRANSPORT': 'udp'})):
        yield (f'wrong barrier count, {nodes} nodes on {letters}', wrong,
               launched(nodes, letters, program('hung'), 'run', nodes, 'barrier'), 1,
               judged + ', '.join(
                   rf'node {node} waited at barrier 0x\w+ \({nodes} of {nodes + 1} threads arrived\)'
                   for node in range(nodes)) + r'; 0x\w+ is multi_hung\+0x\w+$', env, 15.0)
    yield ('many threads', wrong, launched(2, 'ab', program('hung'), 'run', 2, 'many'), 1,
           judged + ', '.join(rf'node {node} waited in 101 threads at barrier 0x\w+ '
                              r'\(202 of 203 threads arrived\)' for node in (0, 1)), None, 25.0)
    yield ('locks in a circle', wrong, launched(2, 'ab', program('hung'), 'run', 2, 'locks'), 1,
           judged + r'node 0 waited in lock 0x\w+, node 1 waited in lock 0x\w+(; |$)', None, 15.0)
    yield ('a flag that nobody sets', wrong, launched(3, 'ab', program('hung'), 'run', 3, 'flag'),
           1, judged + r'node 0 waited at the end of the job \(1 of 3 threads arrived\), '
           'node 1 waited for flag', None, 15.0)
    compute = launched(4, 'ab', program('hung'), 'run', 4, 'compute')
    yield ('SIGQUIT', asked, [*compute, '7'], quit_first, env_of())
    yield ('SIGQUIT, late at a node', asked, [*compute, '9'], quit_late_first, env_of(),
           'does not answer')
    yield ('ROAM_HANG', asked, compute, lambda *_: '', env_of({'ROAM_HANG': '1'}))
    yield ('roam where', asked, compute, where_is(None), env_of())
    yield ('roam where, a node of another host', asked, compute, where_is(3), env_of())


def stopped(seconds):
    """A cut shorter than the deadline is survived, a longer one is not; `seconds` None: for
    good."""
    deadline = 2
    env = env_of({'ROAM_DEADLINE': str(deadline)})

    def act(_first, pids_):
        os.kill(pids_[1], signal.SIGSTOP)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pids_[1], signal.SIGCONT)

    if seconds is not None:
        expect(launched(3, 'abc', program('idle'), 3), out='node 2: ', wanted=3, act=act, env=env)
    else:
        result = expect(deaths('never', 'barrier'), 1, rf'^roam: node [02] on host \S+: node 1 on '
                        rf'{host("b")} has been silent for {deadline}\.\d s, longer than '
                        'ROAM_DEADLINE', wanted=3, act=act, env=env)
        if not deadline - 0.7 <= result.after <= LOST_MAX:
            raise Wrong(f'ended after {result.after}')
    nothing_left()


def narrow():
    ip('-n', host('b'), 'link', 'set', 'eth0', 'mtu', '500')
    try:
        wrong(launched(2, 'ab', program('hello')), 1,
              rf'^roam: node 1 on host {host("b")}: cannot start the node: .*MTU')
    finally:
        ip('-n', host('b'), 'link', 'set', 'eth0', 'mtu', '1500')


def other_library():
    """One host has another libroam."""
    with reached_by(f'[ "$1" = {host("b")} ] && export LD_LIBRARY_PATH={{where}}') as (env, where):
        copy = os.path.join(where, 'libroam.so.0')
        shutil.copy(program('libroam'), copy)
        with open(copy, 'ab') as file:
            file.write(b'another build')
        wrong(['env', '-u', 'LD_LIBRARY_PATH', *launched(3, 'abc', program('shared'))], 1,
              rf'^roam: run: node 1 on host {host("b")} uses another libroam than node 0 on host '
              rf'{host("a")}: install one version on all hosts$', env)


MAGIC, KEY = 0, 8  # their offsets in what an agent reads first


def meddle(at, command):
    """Runs an agent that gets another byte at this place of its first input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as agent:
        card = bytearray(os.read(0, 4096))
        card[at] ^= 1
        os.write(agent.stdin.fileno(), card)
        return agent.wait()


def other_agent(at, fix):
    """One byte of what the launcher sends the agent on host b is changed on its way."""
    with reached_by(f'[ "$1" = {host("b")} ] && exec {sys.executable} {__file__} --meddle {at} '
                    'ip netns exec "$@"') as (env, _):
        wrong(launched(2, 'ab', program('hello')), 1,
              rf'^roam: run: cannot start on host {host("b")}: `\S+` exited with status \d '
              rf'\({fix}', env)


JOIN, BOOT, FAIL = 1, 2, 5  # frames of src/launch/control.h


def other_boot():
    """A node's agent answers with the length of another version."""
    agent, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    agent.settimeout(10)
    with agent, its, subprocess.Popen(
            [program('hello')], pass_fds=[its.fileno()],
            env={**os.environ, 'ROAM_BOOT': f'far:{its.fileno()}'}) as node:
        joined = agent.recv(65536)
        agent.send(struct.pack('<4I', BOOT, 0, 8, 0) + bytes(8))
        said = agent.recv(65536)
        status = node.wait(10)
    if (joined[0], said[0], status == 0) != (JOIN, FAIL, False) or \
            b'different versions of roam: install one version' not in said:
        raise Wrong(f'{joined!r}, {said!r}, status {status}')


@contextlib.contextmanager
def ports_taken(letter, kind):
    """On one host no port is free."""
    setting = '/proc/sys/net/ipv4/ip_local_port_range'
    first, last = 40000, 40003
    code = ('import socket, sys\n'
            f'open("{setting}", "w").write("{first} {last}")\n'
            f'held = [socket.socket(type=socket.{kind}) for _ in range({last - first + 1})]\n'
            f'for place, held_ in enumerate(held): held_.bind(("", {first} + place))\n'
            'print(flush=True); sys.stdin.read()\n'
            f'open("{setting}", "w").write("32768 60999")\n')
    with subprocess.Popen(['ip', 'netns', 'exec', host(letter), sys.executable, '-c', code],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        DAEMONS.add(holder.pid)
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()
            holder.wait()
            DAEMONS.discard(holder.pid)


def no_port(letter, kind, err):
    with ports_taken(letter, kind):
        wrong(launched(2, 'ab', program('hello')), 1, err)


def refusal_cases():
    yield ('ROAM_RSH fails', wrong, launched(2, 'ab', program('hello')), 1,
           r'^roam: run: cannot start on host \S+: `false` exited with status 1',
           {'ROAM_RSH': 'false'})
    yield ('ROAM_RSH is not there', unreachable, launched(2, 'a', program('hello')),
           r'cannot start on host \S+: `/nonexistent/rsh` exited with status 127',
           {'ROAM_RSH': '/nonexistent/rsh'})
    yield ('nothing to run', wrong, launched(2, 'a', '/nonexistent/program'), 127,
           rf'^roam: node 0 on host {host("a")}: cannot run /nonexistent/program: No such file')
    yield ('another program on a host', other_build,
           rf'^roam: run: node 1 on host {host("b")} runs another program than node 0 on host '
           rf'{host("a")}: copy it to all hosts$')
    yield ('another libroam on a host', other_library)
    yield ('another roam on a host', other_agent, MAGIC,
           'does that host have another version of roam\\? install the same on all hosts\\)$')
    yield ('another key on a host', other_agent, KEY,
           'its agent has another key than was sent to it')
    yield ('an agent of another version', other_boot)
    yield ('no UDP port', no_port, 'b', 'SOCK_DGRAM',
           rf'^roam: node 1 on host {host("b")}: cannot start the node: Address already in use '
           r'\(no UDP port is free')
    yield ('no TCP port', no_port, '0', 'SOCK_STREAM',
           r'^roam: run: cannot listen for the agents on this host: Address already in use '
           r'\(no TCP port is free')
    yield ('another option on a host', wrong,
           launched(3, 'abc', *by_host('c', f'ROAM_HOT=0 exec {program("hello")}',
                                       f'exec {program("hello")}')), 1,
           rf'^roam: run: node 2 on host {host("c")} has another ROAM_HOT than node 0 on host')
    yield ('joined twice', wrong,
           launched(2, 'ab', 'sh', '-c', f'{program("hello")}; exec {program("hello")}'), 1,
           'joined twice: a script that starts the program twice')
    yield ('a node that never joins', wrong,
           launched(3, 'abc', *by_host('c', 'sleep 0.5; exit 0', f'exec {program("hello")}')), 1,
           rf'^roam: node 2 on host {host("c")} \(pid \d+\) exited with status 0 and never called '
           'roam_start')
    yield ('other allocations', wrong,
           fed(launched(3, 'abc', program('create'), 'uneven', 3)), 1,
           rf'^roam: run: node [12] on host {PREFIX}[bc] has allocated other blocks before CREATE '
           'than node 0')
    yield ('other -p, more CREATEs', wrong,
           fed(launched(2, 'ab', program('create'), 'each', 4)), 1,
           '^roam: the program asks for 4 nodes, the launcher started 2$')
    yield ('other -p, fewer CREATEs', wrong,
           fed(launched(4, 'ab', program('create'), 'each', 2)), 1,
           '^roam: the program asks for 2 nodes, the launcher started 4$')
    yield ('a second round', second_round)
    yield ('other -p, fewer', wrong, launched(2, 'ab', program('fft'), '-p4', '-m10'), 1,
           '^roam: the program asks for 4 nodes, the launcher started 2$')
    yield ('no CREATE at all', wrong, launched(2, 'ab', program('fft'), '-p1', '-m10'), 1,
           '^roam: the program asks for 1 nodes, the launcher started 2$')
    yield ('no CREATE at all, with threads', wrong,
           with_words(launched(2, 'ab', program('fft'), '-p2', '-m10'), '--threads', '2'), 1,
           r'^roam: the program asks for 1 nodes of 2 threads \(ROAM_THREADS\), the launcher started 2$')
    yield ('ROAM_MTU too small', wrong, launched(2, 'ab', program('hello')), 2,
           '^roam: ROAM_MTU=100: must be 0, or at least 576$', {'ROAM_MTU': '100'})
    yield ('a network with a small MTU', narrow)
    yield ('a transport of one host', wrong, launched(2, 'ab', program('hello')), 2,
           r'^roam: run: ROAM_TRANSPORT=shm: it does not reach other hosts; udp[\w, ]* does$',
           {'ROAM_TRANSPORT': 'shm'})


GROUPS = {
    'failures': lambda: list(failure_cases()),
    'hang': lambda: list(hang_cases()),
    'refusals': lambda: list(refusal_cases()),
}

if __name__ == '__main__':
    if sys.argv[1:2] == ['--meddle']:
        sys.exit(meddle(int(sys.argv[2]), sys.argv[3:]))
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it in background jobs
    hosts_or_skip()
    main(GROUPS)
