#!/usr/bin/env python3
"""Jobs of other launchers than roam run: Open MPI's mpirun, MPICH's hydra, a Slurm of one node that
this program starts on loopback, and their interfaces, used by hand.

usage: launchers.py [-k PART_OF_A_NAME] [GROUP]...
"""
import atexit
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import types

import harness
import netns
from creating import created, either, fed, fed_for_ever, fed_much, not_again, one_pi
from harness import Wrong, main, program, run
from stored import serving

RANK = '${PMIX_RANK:-${PMI_RANK:-$SLURM_PROCID}}'
ALLOW = {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
MARK = f'LAUNCH_TEST_{os.getpid()}'  # in the environment of every process of a job
END_S = 8.0
HANG_S = 20.0  # launchers take their time to start on a busy machine
STARTED = time.time()
LAUNCHERS = {
    'mpirun': ('mpirun', '--oversubscribe', '-n'),
    'hydra': ('mpiexec.hydra', '-n'),
    'hydra at a port': ('mpiexec.hydra', '-pmi-port', '-n'),
    'srun pmix': ('srun', '-Q', '--mpi=pmix', '-n'),
    'srun pmi2': ('srun', '-Q', '--mpi=pmi2', '-n'),
    'srun': ('srun', '-Q', '--mpi=none', '-n'),
}
CLEANING = {'hydra': (1, 9), 'hydra at a port': (1, 9)}  # statuses of nodes that they kill
BINDING = {'mpirun': 'pmix', 'hydra': 'pmi1', 'hydra at a port': 'pmi1', 'srun pmix': 'pmix',
           'srun pmi2': 'pmi1', 'srun': 'slurm'}


def skip(what, why):
    print(f'skip: {what}: {why}')
    sys.exit(77)


def needs(what, command):
    if shutil.which(command) is None:
        skip(what, f'no command {command}')


# -------------------------------------------------------------------------------------- commands

def by(launcher, nodes, *command):
    return [*LAUNCHERS[launcher], str(nodes), *(str(word) for word in command)]


def shell(text):
    """A command that each process runs, in which {NAME} is the path of a program."""
    return ['sh', '-c', re.sub(r'\{(\w+)\}', lambda name: program(name.group(1)), text)]


def strict(launcher, nodes, *command):
    """The command of by, but with srun made to end the other nodes when one ends badly."""
    words = by(launcher, nodes, *command)
    return words[:1] + ['-K'] + words[1:] if words[0] == 'srun' else words


def ours():
    """Processes of a job of ours that are still there."""
    left = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/environ', 'rb') as environ:
                if MARK.encode() in environ.read():
                    left.append(int(pid))
        except OSError:
            continue
    return left


def nothing_left():
    end = time.monotonic() + 3
    while ours():
        if time.monotonic() > end:
            raise Wrong(f'left processes {ours()}')
        time.sleep(0.02)


def told(result):
    """The lines that roam prints; launchers print much besides."""
    return [line for line in result.err.splitlines() if 'roam: ' in line]


def job(command, env=None, **how):
    result = run(command, env={**ALLOW, MARK: '1', **(env or {})}, timeout=60, **how)
    nothing_left()
    return result


def well(command, out, err=(), env=None):
    result = job(command, env)
    lines = told(result)
    if result.status != 0 or re.search(out, result.out) is None:
        raise Wrong(f'status {result.status}, {result.out[-300:]!r}, {result.err[-900:]!r}')
    if len(lines) != len(err) or not all(map(re.search, err, lines)):
        raise Wrong(f'expected {err}: {lines}')
    return result


def wrong(command, err, env=None, seconds=END_S, silent=False):
    """The job ends in time, and with one line; `silent`: or without it, if the launcher was
    faster."""
    result = job(command, env)
    lines = told(result)
    if result.status == 0 and not silent:
        raise Wrong(f'status 0: {result.err[-900:]!r}')
    if not (silent and not lines) and (len(lines) != 1 or re.search(err, lines[0]) is None):
        raise Wrong(f'expected one line like {err!r}: {lines}; {result.err[-900:]!r}')
    if result.seconds > seconds:
        raise Wrong(f'took {result.seconds:.1f} s')


# ----------------------------------------------------------------------------------- each launcher

def alone(launcher):
    """ROAM_LAUNCHER=none."""
    result = job(by(launcher, 2, program('hello')), {'ROAM_LAUNCHER': 'none'})
    if result.out.count('hello from node 0 of 1') != 2:
        raise Wrong(f'{result.out!r}, {result.err!r}')


def twice(launcher):
    """What must not run in two processes is told so, or becomes two jobs, one after the other;
    never a wrong sum."""
    result = job(by(launcher, 2, *shell('{hello} & {hello}; wait')), {'ROAM_DEADLINE': '2'})
    if set(re.findall(r'the sum.*', result.out)) - {'the sum of 1 to 2 is 3'}:
        raise Wrong(f'{result.out!r}')
    if result.out.count('the sum') < 2 and \
            not any(re.search('two processes|twice', line) for line in told(result)):
        raise Wrong(f'{result.out!r}, {told(result)}')


def again(launcher):
    """A second process for a node that already runs is told so, and leaves the job alone."""
    result = job(by(launcher, 2, *shell('{hung} run 2 compute & sleep 1.5; {hello}; wait')))
    lines = told(result)
    if 'went on' not in result.out or 'the sum' in result.out or len(lines) != 2 or \
            not all(re.search(r'^roam: node \d runs in two processes, \d+ and \d+: ', line)
                    for line in lines):
        raise Wrong(f'{result.out!r}, {lines}')


def launcher_killed(launcher):
    """Its nodes notice."""
    result = job(by(launcher, 3, program('deaths'), 'fork', 3, 1, 'never', 'barrier'), wanted=3,
                 act=lambda pid, _: os.kill(pid, signal.SIGKILL))
    if result.status != -signal.SIGKILL:
        raise Wrong(f'status {result.status}')


def judged(nodes):
    """A barrier for one thread more than there are."""
    return '^roam: node 0: no thread of the job can go on; ' + ', '.join(
        rf'node {node} waited at barrier 0x\w+ \({nodes} of {nodes + 1} threads arrived\)'
        for node in range(nodes)) + r'; 0x\w+ is multi_hung\+0x\w+$'


def where_of(launcher):
    """`roam where`, given the launcher, finds its processes."""
    said = []

    def act(pid, _pids):
        time.sleep(1)
        said.append(run([program('roam'), 'where', str(pid)]).out)
    result = job(by(launcher, 2, program('hung'), 'run', 2, 'compute'), wanted=2, act=act)
    if result.status != 0 or re.fullmatch(
            r'roam: node 0 \(pid \d+\) computes .*\n'
            r'roam: node 1 \(pid \d+\) waits at barrier .*\n', ''.join(said)) is None:
        raise Wrong(f'status {result.status}, {said!r}, {result.err!r}')


def run_cases(launcher):
    info = rf'^roam: info: 4 nodes on 1 host, by {BINDING[launcher]} \(\w+\), over shm$'
    yield (f'{launcher}: hello', well, by(launcher, 4, program('hello')), 'the sum of 1 to 4 is 10',
           [info], {'ROAM_LOG': 'info'})
    yield (f'{launcher}: fft', well, by(launcher, 8, program('fft'), '-p8', '-m14', '-t'),
           'p 8 .* verified ok')
    yield (f'{launcher}: lu', well, by(launcher, 4, program('lu'), '-p4', '-n256', '-t'),
           'p 4 .* verified ok', (), {'ROAM_PROTOCOL': harness.kinds()['one writer']})
    yield (f'{launcher}: over udp', well, by(launcher, 3, program('fft'), '-p3', '-m12', '-t'),
           'verified ok', (), {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'encrypt'})
    for protocol, start in ((name, start) for name in harness.those('one_heap')
                            for start in ('run', 'once')):
        yield (f'{launcher}: {start} under {protocol}', well,
               by(launcher, 3, program('oneheap'), start, 3), 'all of one heap', (),
               {'ROAM_PROTOCOL': protocol})
    for how in ('all', 'loop'):
        yield (f'{launcher}: two threads a node, {how}', well,
               by(launcher, 3, program('team'), how, 6, 2, 1), '6 processes right', (),
               {'ROAM_THREADS': '2'})
    yield (f'{launcher}: 64 nodes', well, by(launcher, 64, program('hello')),
           'the sum of 1 to 64 is 2080')
    yield (f'{launcher}: the first program', lambda: one_pi(job(
        by(launcher, 4, program('example')))))
    yield (f'{launcher}: no CREATE follows', lambda: either(job(
        by(launcher, 3, program('either'), 3)), 3))
    for way in ('all', 'each', 'late'):
        yield (f'{launcher}: CREATE {way}, with input', lambda way_: created(job(
            fed(by(launcher, 3, program('create'), way_, 3))), 3), way)
    yield (f'{launcher}: CREATE again', lambda: not_again(job(
        fed(by(launcher, 3, program('create'), 'again', 3))), CLEANING.get(launcher, ())))
    yield (f'{launcher}: one node', well, by(launcher, 1, program('hello')),
           'the sum of 1 to 1 is 1')


def wrong_cases(launcher):
    yield (f'{launcher}: -p8 against 4', wrong, by(launcher, 4, program('fft'), '-p8', '-m12'),
           '^roam: the program asks for 8 nodes, the launcher started 4$')
    yield (f'{launcher}: -p2 against 4', wrong, by(launcher, 4, program('fft'), '-p2', '-m12'),
           '^roam: the program asks for 2 nodes, the launcher started 4$')
    yield (f'{launcher}: another program', wrong,
           by(launcher, 3, *shell(f'[ {RANK} = 1 ] && exec {{hello}}; exec {{fft}} -p3 -m12')),
           r'^roam: node 1 on host \S+ runs another program than node 0')
    yield (f'{launcher}: another option', wrong,
           by(launcher, 3, *shell(f'[ {RANK} = 2 ] && export ROAM_HOT=0; exec {{hello}}')),
           r'^roam: node 2 on host \S+ has another ROAM_HOT than node 0 .*: set it once')
    yield (f'{launcher}: too many nodes', wrong, by(launcher, 5, program('hello')),
           '^roam: the launcher started 5 nodes, at most 4 are allowed', {'ROAM_NODES_MAX': '4'})
    for rank in (0, 1):
        yield (f'{launcher}: node {rank} never comes', wrong,
               strict(launcher, 3,
                      *shell(f'[ {RANK} = {rank} ] && exec sleep 30; exec {{hello}}')),
               '^roam: (not all 3 nodes have come|node 1 of 3 has not come)',
               {'ROAM_DEADLINE': '2'})
    yield (f'{launcher}: a node ends early', wrong,
           strict(launcher, 3, *shell(f'[ {RANK} = 1 ] && exit 3; exec {{hello}}')),
           '^roam: (not all 3 nodes have come|node 1 of 3 has not come)',
           {'ROAM_DEADLINE': '2'}, END_S, True)  # the launcher may be faster
    for who in (0, 2):
        for how in ('kill', 'exit3', 'null'):
            yield (f'{launcher}: node {who}: {how}', wrong,
                   by(launcher, 4, program('deaths'), 'fork', 4, who, how, 'barrier'),
                   # These launchers end the others, and may be faster.
                   f'^roam: node {who if launcher.startswith("srun") else "[0-3]"} ', None, END_S,
                   not launcher.startswith('srun'))
    yield (f'{launcher}: no thread can go on', wrong,
           strict(launcher, 3, program('hung'), 'run', 3, 'barrier'), judged(3), None, HANG_S)
    yield (f'{launcher}: ROAM_HANG', well, by(launcher, 2, program('hung'), 'run', 2, 'compute'),
           'went on', [r'^roam: node 0 \(pid \d+\) computes in 1 of 1 threads, at \S+\+0x',
                       r'^roam: node 1 \(pid \d+\) waits at barrier 0x\w+ \(1 of 2 threads'],
           {'ROAM_HANG': '1'})
    if not launcher.startswith('srun'):
        yield (f'{launcher}: roam where', where_of, launcher)
        yield (f'{launcher}: killed', launcher_killed, launcher)
    yield (f'{launcher}: pages that outlive it', stored, launcher)
    yield (f'{launcher}: twice', twice, launcher)
    yield (f'{launcher}: again while it runs', again, launcher)
    yield (f'{launcher}: alone', alone, launcher)


def mpirun_cases():
    needs('mpirun', 'mpirun')
    return [*run_cases('mpirun'), *wrong_cases('mpirun')]


def hydra_cases():
    needs('hydra', 'mpiexec.hydra')
    return [*run_cases('hydra'), *wrong_cases('hydra'), *run_cases('hydra at a port')]


def stored(launcher):
    """Programs that create their nodes, that begin with roam_start, or that call it later."""
    with serving() as server:
        for way in ('3', 'run', 'late', '0'):
            well(by(launcher, 2, program('stored'), 2, 20, way), r'(?m)^done$', (), server.env())


# ------------------------------------------------------------------------------------------ Slurm

CONF = """
ClusterName=roam
SlurmctldHost={host}(127.0.0.1)
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={where}/munge.socket
SlurmUser=root
SlurmctldPort={ctld}
SlurmdPort={slurmd}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
MailProg=/bin/true
ReturnToService=2
MpiDefault=none
StateSaveLocation={where}/state
SlurmdSpoolDir={where}/spool
SlurmctldPidFile={where}/slurmctld.pid
SlurmdPidFile={where}/slurmd.pid
SlurmctldLogFile={where}/slurmctld.log
SlurmdLogFile={where}/slurmd.log
NodeName={host} NodeAddr=127.0.0.1 CPUs=64
PartitionName=all Nodes={host} Default=YES State=UP
"""


def free_port():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]


class Slurm:
    """One node on loopback: munged, slurmctld and slurmd in a directory of their own."""

    def __init__(self):
        self.where = tempfile.mkdtemp(prefix='roam-slurm-')
        self.daemons = []
        atexit.register(self.stop)

    def start(self):
        for name in ('state', 'spool'):
            os.mkdir(f'{self.where}/{name}')
        key = os.open(f'{self.where}/munge.key', os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(key, os.urandom(1024))
        os.close(key)
        with open(f'{self.where}/slurm.conf', 'w', encoding='utf-8') as conf:
            conf.write(CONF.format(where=self.where, host=socket.gethostname().split('.')[0],
                                   ctld=free_port(), slurmd=free_port()))
        os.environ['SLURM_CONF'] = f'{self.where}/slurm.conf'
        self.daemon('munged', '-F', '--force', f'--key-file={self.where}/munge.key',
                    f'--socket={self.where}/munge.socket', f'--pid-file={self.where}/munged.pid',
                    f'--log-file={self.where}/munged.log', f'--seed-file={self.where}/munge.seed')
        self.await_file('munge.socket')
        self.daemon('slurmctld', '-D', '-c')
        self.daemon('slurmd', '-D')
        end = time.monotonic() + 30
        while subprocess.run(['srun', '-Q', '-n', '1', '--immediate=2', 'true'], check=False,
                             stderr=subprocess.DEVNULL, timeout=40).returncode != 0:
            if time.monotonic() > end:
                raise Wrong('Slurm does not start: ' + self.logs())
            time.sleep(0.2)

    def logs(self):
        text = ''
        for name in ('munged', 'slurmctld', 'slurmd'):
            with open(f'{self.where}/{name}.log', errors='replace', encoding='utf-8') as log:
                text += log.read()[-400:]
        return text

    def await_file(self, name):
        end = time.monotonic() + 10
        while not os.path.exists(f'{self.where}/{name}'):
            if time.monotonic() > end:
                raise Wrong(f'no {name}')
            time.sleep(0.02)

    def daemon(self, *words):
        # pylint: disable-next=consider-using-with
        self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                             start_new_session=True))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []
        shutil.rmtree(self.where, ignore_errors=True)


def private_directory():
    """The socket of node 0 of a step without PMI belongs to no other user; the file of claims
    stays."""
    mode = os.stat(f'/tmp/roam-{os.geteuid()}').st_mode
    if stat.S_IMODE(mode) != 0o700:
        raise Wrong(f'mode {stat.S_IMODE(mode):o}')
    new = [name for name in os.listdir(f'/tmp/roam-{os.geteuid()}')
           if name != 'claims' and
           os.lstat(f'/tmp/roam-{os.geteuid()}/{name}').st_mtime >= STARTED]
    if new:
        raise Wrong(f'left: {new}')


def slurm_cases():
    if os.geteuid() != 0:
        skip('slurm', 'slurmd is for root')
    for command in ('srun', 'slurmctld', 'slurmd', 'munged'):
        needs('slurm', command)
    os.environ.pop('XDG_RUNTIME_DIR', None)  # so that it is in /tmp
    Slurm().start()
    cases = []
    for launcher in ('srun pmix', 'srun pmi2', 'srun'):
        cases += run_cases(launcher)
    cases.append(('nothing of it is left', private_directory))
    cases += wrong_cases('srun')
    cases += wrong_cases('srun pmi2')
    return cases


# ----------------------------------------------------------------------------------------- by hand

def slurm_env(node, nodes, step, hosts_='localhost', count=2):
    """Sets the environment as srun without PMI does."""
    return {'SLURM_JOB_ID': str(os.getpid()), 'SLURM_STEP_ID': str(step),
            'SLURM_PROCID': str(node), 'SLURM_STEP_NUM_TASKS': str(nodes),
            'SLURM_STEP_NUM_NODES': str(count), 'SLURM_STEP_NODELIST': hosts_,
            'ROAM_SEAL': 'off', MARK: '1'}


def ports(step):
    """The socket at which node 0 of such a step listens, as in src/launch/slurm.c."""
    number = 0xcbf29ce484222325
    for byte in f'{os.getpid()}.{step}'.encode():
        number = (number ^ byte) * 0x100000001b3 % 2 ** 64
    return [20000 + (number + place * 997) % 2 ** 64 % 12000 for place in range(4)]


def begin(env, *command, host=None):
    words = ['ip', 'netns', 'exec', netns.host(host)] if host else []
    return subprocess.Popen([*words, *command], env=harness.clean_env(env), text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def finish(processes, status=0):
    """What they have printed, when all have ended as they should; None if none has ended well."""
    out, err = '', ''
    for process in processes:
        try:
            more = process.communicate(timeout=20)
        except subprocess.TimeoutExpired as error:
            for other in processes:
                other.kill()
            raise Wrong('hung') from error
        out, err = out + more[0], err + more[1]
    if any(process.returncode != status if status is not None else process.returncode == 0
           for process in processes):
        raise Wrong(f'{[process.returncode for process in processes]}: {err!r}')
    nothing_left()
    return out, err


def connected(port, process):
    end = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection(('127.0.0.1', port))
        except ConnectionRefusedError as error:
            if time.monotonic() > end or process.poll() is not None:
                raise Wrong('node 0 does not listen') from error
            time.sleep(0.02)


def strangers(seed):
    """Sends garbage to the port of node 0, with half-open connections among it; then the job
    runs."""
    rng = random.Random(seed)
    env = {'ROAM_DEADLINE': '10'}
    first = begin({**slurm_env(0, 3, seed), **env}, program('hello'))
    held = []
    for _ in range(120):
        stranger = connected(ports(seed)[0], first)
        held.append(stranger)
        magic = b'1buhmaor' if rng.random() < 0.5 else b''
        stranger.sendall(magic + rng.randbytes(rng.choice((1, 7, 8, 24, 40, 5000))))
        if rng.random() < 0.5:
            stranger.close()
    others = [begin({**slurm_env(node, 3, seed), **env}, program('hello')) for node in (1, 2)]
    out, err = finish([first, *others])
    for stranger in held:
        stranger.close()
    if 'the sum of 1 to 3 is 6' not in out or err:
        raise Wrong(f'{out!r}, {err!r}')


def taken(free):
    """All ports but the last `free` are in use."""
    listeners = [socket.create_server(('', port)) for port in ports(7)[:4 - free]]
    try:
        env = {'ROAM_DEADLINE': '4'}
        nodes = [begin({**slurm_env(node, 2, 7), **env}, program('hello')) for node in (0, 1)]
        if free:
            out, err = finish(nodes)
            if 'the sum of 1 to 2 is 3' not in out or err:
                raise Wrong(f'{out!r}, {err!r}')
            return
        _, err = nodes[0].communicate(timeout=20)
        nodes[1].kill()
        nodes[1].communicate()
        nothing_left()
        if 'node 0 cannot listen for the others: Address already in use' not in err:
            raise Wrong(repr(err))
    finally:
        for listener in listeners:
            listener.close()


def not_listed(env, err):
    wrong([program('hello')], err, env)


def bindings_said():
    """Bindings in the order in which they are looked for, and the one that a job has used."""
    listed = run([program('roam'), 'info', 'launchers']).out
    if re.findall(r'^  (\w+) ', listed, re.M) != ['pmix', 'pmi1', 'slurm']:
        raise Wrong(listed)
    for how, *command in (('roam run', program('roam'), 'run', '-n', '2', program('hello')),
                          ('fork', program('lu'), '-p2', '-n64')):
        well(command, '', [f'^roam: info: 2 nodes on 1 host, by {how}, over shm$'],
             {'ROAM_LOG': 'info'})


def hand_cases():
    yield ('bindings are said', bindings_said)
    for seed in (1, 2, 3):
        yield (f'strangers at the port, seed {seed}', strangers, seed)
    yield ('one port is free', taken, 1)
    yield ('no port is free', taken, 0)
    yield ('a launcher without PMI', not_listed, {'PMI_SIZE': '4', 'PMI_RANK': '0'},
           '^roam: PMI_SIZE=4 says that a launcher started several nodes, but offers n')
    yield ('PMI_FD is closed', not_listed, {'PMI_SIZE': '4', 'PMI_RANK': '0', 'PMI_FD': '77'},
           '^roam: PMI_FD=77: not an open descriptor$')
    yield ('PMI_PORT is closed', not_listed, {'PMI_PORT': '127.0.0.1:1', 'PMI_ID': '0'},
           '^roam: PMI_PORT=127.0.0.1:1: cannot connect: Connection refused$')
    yield ('PMIx without a server', not_listed,
           {'PMIX_NAMESPACE': 'x', 'PMIX_RANK': '0', 'PMIX_SERVER_URI2': 'x;tcp4://127.0.0.1:1'},
           '^roam: PMIx: cannot reach the launcher: ')
    yield ('another library is asked for', not_listed,
           {'PMI_SIZE': '4', 'PMI_RANK': '0', 'PMI_FD': '77', 'ROAM_LAUNCHER': 'pmix'},
           '^roam: PMI_SIZE=4 says')


# ------------------------------------------------------------------------------------ across hosts

RSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
mkdir -p "${0%/*}/$host"
exec ip netns exec "$host" env TMPDIR="${0%/*}/$host" sh -c "$*"
"""


def with_rsh(check, words, *arguments):
    """{RSH} is a command like ssh that reaches the namespaces."""
    with tempfile.TemporaryDirectory(prefix='roam-rsh-') as where:
        path = f'{where}/rsh'
        with open(path, 'w', encoding='utf-8') as file:
            file.write(RSH)
        os.chmod(path, 0o700)
        check(['ip', 'netns', 'exec', netns.host('0'),
               *(str(word).replace('{RSH}', path) for word in words)], *arguments)
    netns.nothing_left()


def over(launcher, nodes, *command):
    a, b = netns.host('a'), netns.host('b')
    if launcher == 'hydra':
        return ['mpiexec.hydra', '-iface', 'br0', '-bootstrap', 'ssh', '-bootstrap-exec', '{RSH}',
                '-hosts', f'{a},{b}', '-ppn', 2, '-n', nodes, *command]
    return ['mpirun', '--mca', 'plm_rsh_agent', '{RSH}', '--mca', 'oob_tcp_if_include',
            '10.77.0.0/24', '--host', f'{a}:2,{b}:2', '-n', nodes, *command]


def two_ways(command):
    """Nodes of one host reach each other's memory, those of others by datagrams."""
    with tempfile.TemporaryDirectory() as where:
        path = f'{where}/stats.json'
        well(command, 'verified ok', (), {'ROAM_STATS': path})
        with open(path, encoding='utf-8') as file:
            counters = json.load(file)['counters']
    if not all(sum(counters[name]) > 0 for name in ('bytes_fetched', 'datagrams_sent')):
        raise Wrong(f'{counters["bytes_fetched"]}, {counters["datagrams_sent"]}')


def creates(command):
    created(job(command), 4)


def by_hand(seal, status, out, err, **more):
    """srun without PMI on two hosts."""
    nodes = []
    for node in range(3):
        env = slurm_env(node, 3, 9, '10.77.0.[1-2]')
        env |= {'ROAM_SEAL': seal, **more}
        nodes.append(begin(env, program('hello'), host='ab'[node % 2]))
    found = finish(nodes, status)
    if out not in found[0] or re.search(err, found[1], re.M) is None:
        raise Wrong(repr(found))


def by_hand_fed(way, feed):
    """srun without PMI, where only node 0 has input; launchers have limits of their own."""
    create = [program('create'), way, 4]
    nodes = [begin(slurm_env(node, 4, 10, '10.77.0.[1-2]'),
                   *(feed(create) if node == 0 else map(str, create)), host='ab'[node % 2])
             for node in range(4)]
    out, err = finish(nodes)
    created(types.SimpleNamespace(status=0, out=out, err=err), 4)


@contextlib.contextmanager
def barred():
    """Node 0's host has no TCP to the other host; connections that come from there are answered."""
    where = ('-n', netns.host('a'), 'rule')
    lowest = open('/proc/sys/net/ipv4/ip_local_port_range', encoding='ascii').read().split()[0]
    netns.ip(*where, 'add', 'pref', '1', 'to', '10.77.0.2', 'ipproto', 'tcp', 'sport',
             f'{lowest}-65534', 'unreachable')
    try:
        yield
    finally:
        netns.ip(*where, 'del', 'pref', '1')


def by_hand_barred():
    """Input that cannot be brought to a node is reported; where there is none, nothing is said."""
    create = [program('create'), 'all', 4]
    with barred():
        by_hand('off', 0, 'the sum of 1 to 3 is 6', '^$')
        nodes = [begin({**slurm_env(node, 4, 11, '10.77.0.[1-2]'), 'ROAM_DEADLINE': '4'},
                       *(fed(create) if node == 0 else map(str, create)), host='ab'[node % 2])
                 for node in range(4)]
        _, err = finish(nodes, None)
    lines = [line for line in err.splitlines() if line.startswith('roam: cannot bring')]
    if len(lines) != 1 or re.fullmatch(
            r'roam: cannot bring the standard input to host \S+, which the program may read '
            r'\(no TCP between the hosts\?\)', lines[0]) is None:
        raise Wrong(repr(err))


def hosts_cases():
    netns.hosts_or_skip()
    cipher = 'AES-256-GCM' if netns.aes_here() else 'ChaCha20-Poly1305'
    for launcher, command, binding in (('hydra', 'mpiexec.hydra', 'pmi1'),
                                       ('mpirun', 'mpirun', 'pmix')):
        needs('hosts', command)
        yield (f'{launcher}: hello on 2 hosts', with_rsh, well,
               over(launcher, 4, program('hello')), 'the sum of 1 to 4 is 10',
               [rf'^roam: info: 4 nodes on 2 hosts, by {binding} \(\w+\), over udp$',
                '^roam: info: datagrams are sealed by ' + cipher],
               {'ROAM_LOG': 'info'})
        yield (f'{launcher}: a host without AES', with_rsh, well,
               over(launcher, 4, *shell(f'[ {RANK} = 3 ] && export LD_PRELOAD={{no_aes}}; '
                                        'exec {hello}')), 'the sum of 1 to 4 is 10',
               ['^roam: info: 4 nodes', '^roam: info: datagrams are sealed by ChaCha20-Poly1305$'],
               {'ROAM_LOG': 'info'})
        yield (f'{launcher}: CREATE on 2 hosts, with input', with_rsh, creates,
               fed(over(launcher, 4, program('create'), 'all', 4)))
        yield (f'{launcher}: fft on 2 hosts', with_rsh, two_ways,
               over(launcher, 4, program('fft'), '-p4', '-m12', '-t'))
        yield (f'{launcher}: -p8 against 4 on 2 hosts', with_rsh, wrong,
               over(launcher, 4, program('fft'), '-p8', '-m12'),
               '^roam: the program asks for 8 nodes, the launcher started 4$')
        yield (f'{launcher}: no thread can go on, on 2 hosts', with_rsh, wrong,
               over(launcher, 4, program('hung'), 'run', 4, 'barrier'), judged(4), None, HANG_S)
        yield (f'{launcher}: node killed on 2 hosts', with_rsh, wrong,
               over(launcher, 4, program('deaths'), 'fork', 4, 2, 'exit3', 'barrier'),
               r'^roam: node (\d: node [23] on \S+ has been silent|2 )', None, 12.0, True)
    yield ('by hand on 2 hosts, no way for the input', by_hand_barred)
    yield ('by hand on 2 hosts', by_hand, 'off', 0, 'the sum of 1 to 3 is 6', '^$')
    for protocol in harness.those('one_heap'):
        yield (f'one heap on 2 hosts, under {protocol}', lambda name: by_hand(
            'off', None, '', rf'\Aroam: ROAM_PROTOCOL={name}: its nodes have one memory, .* on one host; '
            r'take ROAM_PROTOCOL=\w+\n\Z', ROAM_PROTOCOL=name), protocol)
    yield ('no key for 2 hosts', by_hand, 'auto', 1, '',
           '^roam: srun without PMI cannot bring a key to other hosts')


def fed_cases():
    """The standard input comes to other hosts; a second, for those that change what brings it."""
    netns.hosts_or_skip()
    yield ('by hand on 2 hosts, much input', by_hand_fed, 'sum', fed_much)
    yield ('by hand on 2 hosts, input without end', by_hand_fed, 'each', fed_for_ever)


GROUPS = {
    'mpirun': mpirun_cases,
    'hydra': hydra_cases,
    'slurm': slurm_cases,
    'hand': lambda: list(hand_cases()),
    'hosts': lambda: list(hosts_cases()),
    'fed': lambda: list(fed_cases()),
}

if __name__ == '__main__':
    main(GROUPS)
