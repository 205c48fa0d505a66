"""Runs programs as a careful user would look at them: status, one line, nothing left behind."""
import concurrent.futures
import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', '..', 'tools', 'compare'))
from processes import kill_all, session_pids  # noqa: E402, pylint: disable=wrong-import-position

END_MAX = 2.0    # seconds: a job whose node died ends within them
SLACK = 1.0      # for a busy machine
POLL = 0.005


class Wrong(Exception):
    """A program did what it must not do; the text says what."""


ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def program(name):
    """A program of the build that runs the test; started by hand, of build, build/gcc, or
    BUILD_DIR."""
    told = os.environ.get('MULTI_' + name.upper().replace('-', '_'))
    if told is not None:
        return told
    builds = [os.environ['BUILD_DIR']] if 'BUILD_DIR' in os.environ else ['build', 'build/gcc']
    for build in builds:
        for place in (f'tools/{name}', f'apps/{name}', f'tests/multi/multi_{name}', f'tests/transport/{name}',
                      f'docs/{name}'):
            path = os.path.join(ROOT, build, place)
            if os.path.isfile(path):
                return path
    sys.exit(f'{name} is in none of {", ".join(builds)}: build it, or say where by BUILD_DIR')


def offered(wanted, what):
    """The names in `wanted` that `roam info WHAT` lists and does not call missing; the others are
    reported as skipped, because a container's profile refuses some."""
    shown = subprocess.run([program('roam'), 'info', what], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    rows = dict(re.findall(r'^  ([\w-]+) +(.*)$', shown, re.MULTILINE))
    for name in wanted:
        if rows[name].startswith('missing'):
            print(f'skip: {name}: {rows[name]}')
    return [name for name in wanted if not rows[name].startswith('missing')]


def engines():
    return offered(['uffd', 'sigsegv'], 'engines')


def udp_ways():
    return ['plain'] + ['uring' for _ in offered(['io_uring'], 'machine')]


def info(what):
    """The names that `roam info` lists, each with its text."""
    out = subprocess.run([program('roam'), 'info', what], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return dict(re.findall(r'^  ([\w-]+) +(.*)$', out, re.MULTILINE))


def transports():
    """The transports that are used without being named; verbs, which needs a device, is tested in a
    guest."""
    out = subprocess.run([program('roam'), 'info', 'transports', '--json'], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return [each['name'] for each in json.loads(out)['transports']
            if 'named' not in each['capabilities'] and 'bare' not in each['capabilities']]


@functools.cache
def declared():
    """What `roam info protocols --json` says."""
    out = subprocess.run([program('roam'), 'info', 'protocols', '--json'], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)


def protocols():
    """The protocols' names, each with its model."""
    return {each['name']: each['model'] for each in declared()['protocols']}


def default_protocol():
    return declared()['default']


def those(*properties, without=(), **values):
    """The names of the protocols with these properties and values, in their order, and with none of
    `without`: those(homes='moving'), those(model='SC', without=['evicts'])."""
    return [each['name'] for each in declared()['protocols']
            if set(properties) <= set(each['properties']) and
            not set(without) & set(each['properties']) and
            all(each[key] == value for key, value in values.items())]


def kinds():
    """One protocol of each kind: the default, and the first with each property that makes another
    kind."""
    return {'default': default_protocol(), 'twins': those('keeps_twins')[0],
            'one writer': those('evicts', writers='one')[0], 'diff_logs': those('diff_logs')[0],
            'eager': those(writers='many', without=['acquires'])[0],
            'follows': those('homes_follow')[0]}


class Result:
    """What a program left: its status (negative: the signal), its output, and the seconds from its
    start and from `since`, the moment when its output was complete up to what was waited for."""

    def __init__(self, status, out, err, seconds, after):
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds
        self.after = after


def ticks(pid):
    """Processor time of a process, in hundredths of seconds."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        return sum(int(field) for field in file.read().rpartition(')')[2].split()[11:13])


def end_session(session):
    kill_all(session_pids(session))


def cut(process):
    """Ends a job that hangs: first one of its nodes, so that the others report which thread waits
    where."""
    nodes = [pid for pid in session_pids(process.pid) if pid != process.pid]
    if nodes:
        os.kill(max(nodes), signal.SIGKILL)
        try:
            process.wait(END_MAX)
        except subprocess.TimeoutExpired:
            pass
    end_session(process.pid)


class MemoryGroup:
    """A memory cgroup with a limit, version 2 or 1, for the time of a `with`; its processes have no
    swap.  None in its place if this system does not let us make one."""

    FILES = {2: ('memory.max', 'memory.swap.max', '0'),
             1: ('memory.limit_in_bytes', 'memory.memsw.limit_in_bytes', None)}

    def __init__(self, limit):
        self.limit = limit
        self.path = None

    @staticmethod
    def places():
        """(version, directory) of a cgroup in which ours can be made."""
        with open('/proc/self/mounts', encoding='utf-8') as mounts:
            rows = [line.split() for line in mounts]
        for _, where, kind, options, *_ in rows:
            if kind == 'cgroup' and 'memory' in options.split(','):
                yield 1, where
            elif kind == 'cgroup2':
                with open(f'{where}/cgroup.subtree_control', encoding='utf-8') as file:
                    if 'memory' in file.read().split():
                        yield 2, where

    def write(self, name, value):
        with open(f'{self.path}/{name}', 'w', encoding='utf-8') as file:
            file.write(value)

    def __enter__(self):
        for version, where in self.places():
            limit, swap, swap_value = self.FILES[version]
            self.path = f'{where}/roam-test-{os.getpid()}'
            try:
                os.mkdir(self.path)
                self.write(limit, str(self.limit))
                if os.path.exists(f'{self.path}/{swap}'):
                    self.write(swap, swap_value or str(self.limit))
                return self
            except OSError:
                self.__exit__()
        return None

    def __exit__(self, *_):
        end = time.monotonic() + 1
        while self.path is not None and os.path.isdir(self.path):
            try:
                os.rmdir(self.path)
            except OSError as error:  # the last process has not quite gone
                if time.monotonic() > end:
                    raise Wrong(f'{self.path}: {error.strerror}') from error
                time.sleep(POLL)
        self.path = None

    def join(self):
        self.write('cgroup.procs', str(os.getpid()))


def prepare(limits, group=None):
    """Runs in the new process: no core files unless asked for, and the limits that the case
    wants."""
    if group is not None:
        group.join()
    for which, value in {resource.RLIMIT_CORE: 0, **(limits or {})}.items():
        resource.setrlimit(which, (value, value))


def clean_env(env):
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    kept.update(env or {})
    return kept


def read_back(file):
    file.seek(0)
    return file.read().decode(errors='replace')


def ready_lines(out):
    return [line for line in os.pread(out.fileno(), 65536, 0).decode().splitlines()
            if line.startswith('ready')]


def watch(process, out, wanted, act, deadline):
    """Waits for the program's end; calls `act` once its output has `wanted` lines that begin with
    "ready".  Returns the moment of that, or None."""
    since = None
    while process.poll() is None:
        if time.monotonic() > deadline:
            return since
        lines = ready_lines(out) if wanted and since is None else []
        if wanted and len(lines) >= wanted:
            since = time.monotonic()
            if act is not None:
                lines.sort(key=lambda line: int(line.split()[1]))
                act(process.pid, [int(line.split()[2]) for line in lines])
        time.sleep(POLL)
    # The program may have been ready and gone between two looks.
    if wanted and since is None and act is None and len(ready_lines(out)) >= wanted:
        since = time.monotonic()
    return since


def run(command, env=None, timeout=30, limits=None, wanted=0, act=None, group=None,
        cwd=None):
    """Runs a command in a session of its own; checks that nothing of it is left."""
    before = set(os.listdir('/dev/shm'))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        with subprocess.Popen(command, env=clean_env(env), stdin=subprocess.DEVNULL, stdout=out,
                              stderr=err, start_new_session=True, cwd=cwd,
                              preexec_fn=lambda: prepare(limits, group)) as process:
            since = watch(process, out, wanted, act, start + timeout)
            hung = process.poll() is None
            if hung:
                cut(process)
        ended = time.monotonic()
        while session_pids(process.pid) and time.monotonic() < ended + 1 and not hung:
            time.sleep(POLL)
        left = session_pids(process.pid)
        end_session(process.pid)
        last = time.monotonic()
        result = Result(process.returncode, read_back(out), read_back(err), last - start,
                        last - since if since is not None else None)
    if hung:
        raise Wrong(f'hung for {timeout} s; one node was killed for the report: '
                    f'{result.err[-900:]!r}')
    if left:
        raise Wrong(f'left processes {left}; stderr: {result.err[-500:]!r}')
    left = set(os.listdir('/dev/shm')) - before
    # Other tests may run beside this one: those of Open MPI keep files there meanwhile, and the one of the page
    # server's log (store_test) has its directory there.
    left -= {name for name in left if name.startswith(('open_mpi', 'vader_segment', 'ucx_', 'roam-store-'))}
    if left:
        raise Wrong(f'left in /dev/shm: {sorted(left)}')
    return result


def expect(command, status=0, err='', out=None, **how):
    """Checks the status, and stderr: the one line that matches, or nothing."""
    result = run(command, **how)
    told = f'status {result.status}, stderr {result.err[-1500:]!r}'
    if result.status != status:
        raise Wrong(f'expected status {status}: {told}')
    lines = result.err.splitlines()
    if err == '' and lines:
        raise Wrong(f'expected nothing on stderr: {told}')
    if err != '' and (len(lines) != 1 or re.search(err, lines[0]) is None):
        raise Wrong(f'expected one line like {err!r} on stderr: {told}')
    if out is not None and re.search(out, result.out) is None:
        raise Wrong(f'expected output like {out!r}: {result.out[-300:]!r}')
    return result


def pass_skips(out):
    """Prints what a program says that it leaves out, for tools/test."""
    for line in out.splitlines():
        if line.startswith('skip: '):
            print(line, flush=True)


def expect_end(command, nodes, status, err, act=None, **how):
    """expect for a job that ends badly, and in time, once all its nodes are ready."""
    result = expect(command, status, err, wanted=nodes, act=act, **how)
    if result.after is None:
        raise Wrong(f'never ready; stderr: {result.err[-500:]!r}')
    if result.after > END_MAX + SLACK:
        raise Wrong(f'ended only after {result.after:.1f} s')
    return result


def right(command, out, env):
    expect(command, out=out, env=env, timeout=60)


def launched(nodes, *command):
    return [program('roam'), 'run', '-n', str(nodes), *command]


def started(start, name, *arguments):
    """A program of this directory, which forks its nodes if its first argument is `fork`, or else
    is run by roam run."""
    words = [program(name), *(str(word) for word in arguments)]
    return words if start == 'fork' else launched(arguments[1], *words)


class Later(tuple):
    """A case that `quick` leaves to the rest of the suite."""


def thin(step, cases):
    """Of these cases `quick` runs the first one and each step-th after it."""
    for at, case in enumerate(cases):
        yield Later(case) if at % step else case


def few(cases):
    return [case for case in cases if not isinstance(case, Later)]


def rest(cases):
    return [case for case in cases if isinstance(case, Later)]


def run_case(case):
    """Whether it is as expected."""
    name, function, *arguments = case
    start = time.monotonic()
    try:
        function(*arguments)
        print(f'ok {name} ({time.monotonic() - start:.1f} s)', flush=True)
        return True
    except Wrong as wrong:
        print(f'FAILED {name}: {wrong}', flush=True)
    except Exception:  # a bug of the test must not hide the cases after it
        print(f'FAILED {name}: {traceback.format_exc()}', flush=True)
    return False


def run_cases(cases, at_once):
    """Runs cases: (name, function, arguments...).  Returns the exit status."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        failed = list(pool.map(run_case, cases)).count(False)
    print(f'{len(cases) - failed} of {len(cases)} as expected')
    return 1 if failed or not cases else 0


def main(groups, at_once=1):
    """Runs the groups of cases named on the command line, or all; only cases whose names contain
    what follows -k.  `at_once`: groups of cases that mostly sleep, of which several run at a
    time."""
    arguments = sys.argv[1:]
    pattern = ''
    if '-k' in arguments:
        at = arguments.index('-k')
        pattern = arguments[at + 1]
        del arguments[at:at + 2]
    unknown = [name for name in arguments if name not in groups]
    if unknown:
        sys.exit(f'unknown: {" ".join(unknown)}; known: {" ".join(groups)}')
    cases = [case for name in arguments or groups for case in groups[name]()]
    sys.exit(run_cases([case for case in cases if pattern in case[0]], at_once))
