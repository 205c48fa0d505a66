"""The test suite: builds roam in several ways, runs the tests of each, and counts.

usage: tools/test [--build NAME]... [--for FILE]... [quick | night | SUITE...]

  (nothing)   every suite in every build
  quick       the suites that take seconds, in the plain build
  SUITE...    these suites or tests, in the plain build; A+B: tests that are in both
  --for FILE  the tests that execute this source file, or the files of this directory (a room, as
              src/sync), the most useful first; may be given several times
  list        all builds, suites and tests, one name a line: BUILD SUITE TEST
  index       executes each test of `quick` by itself and notes what it executes, for --for
  night       random programs with new seeds, in the world, on threads and on processes, also with
              delays at atomic operations (build jitter), fuzzers, kernels and the search for what
              catches each mutant, until stopped (Ctrl-C, SIGTERM);
              from seed ROAM_SEED on, if that is set; the commands that repeat failing seeds are
              printed, and kept in build/night.txt
  --build     gcc, clang, asan, tsan, few, jitter or libsigsegv instead; may be given several times

Ends with the line "N passed, N failed, N skipped"; fails if anything failed, or was skipped that
tests/skips.txt does not permit.
"""
import argparse
import ctypes
import errno
import fnmatch
import json
import os
import platform
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'multi'))
import harness  # noqa: E402, pylint: disable=wrong-import-position
import testindex  # noqa: E402, pylint: disable=wrong-import-position
CAP_IPC_LOCK = 14
SKIP_LINE = re.compile(r'^skip: ([^:]+): (.+)$', re.MULTILINE)

# The compiler, the options, and which suites and tests a build runs (None: all it declares).  Under
# sanitizers gcc has false warnings: only the plain builds must be free of warnings.
# docs/testing.md says why each runs what it does.
BUILDS = {
    'gcc': ('gcc', ['-Dwerror=true'], None),
    'clang': ('clang', ['-Dwerror=true', '-Dbench=false', '-Dcontracts=true'],
              ['quick+unit', 'quick+conform', 'quick+sim', 'quick+litmus', 'quick+docs', 'multi_lone',
               'multi_random']),
    'asan': ('gcc', ['-Db_sanitize=address,undefined', '-Dbench=false', '-Dcontracts=true'],
             ['unit', 'quick+conform', 'quick+sim', 'quick+litmus', 'docs_example', 'memory', 'threads',
              'apps']),
    'tsan': ('gcc', ['-Db_sanitize=thread', '-Dbench=false', '-Dcontracts=true'], ['unit', 'threads', 'apps']),
    # Two of the protocols, as a user may choose them: heaps and tables without the others.
    'few': ('gcc', ['-Dwerror=true', '-Dprotocols=hlrc,ivy', '-Dbench=false', '-Dapps=false'],
            ['quick+unit', 'quick+sim', 'quick+litmus', 'multi_lone']),
    # Threads that are delayed at random at atomic operations.
    'jitter': ('gcc', ['-Djitter=true', '-Dcontracts=true', '-Dbench=false', '-Dapps=false'], ['sim+threads']),
    # What the other builds leave out: libsigsegv's handler, and programs with a malloc of their
    # own.
    'libsigsegv': ('gcc', ['-Dwerror=true', '-Dsigsegv=libsigsegv', '-Djemalloc=disabled',
                           '-Dbench=false'],
                   ['alloc', 'conform', 'docs', 'multi_lone', 'multi_kernels', 'multi_trouble', 'multi_trouble_more',
                    'multi_deaths', 'multi_mpi', 'multi_threads']),
}
# What `index` executes.
COVER = {'cover': ('gcc', ['-Db_coverage=true', '-Dbench=false'], None)}
WHOLE = ['gcc', 'clang']  # these compile everything, for the warnings; others what their tests need
SLOWER = {'asan': 4, 'tsan': 8, 'jitter': 4}
# Lines of what failed tests printed, repeated at a run's end: of a long log only the end may be kept.
SAID_EACH, SAID_ALL, SAID_COLUMNS = 15, 60, 160
NIGHT_SECONDS = 600  # more for some seeds, of which each takes a second at most: they hang


class Failure(Exception):
    """The run cannot go on; the text says why."""


def say(text):
    print(text, flush=True)


# ----------------------------------------------------------------------------------- building

def directory(build):
    return os.path.join(ROOT, 'build', build)


def run_logged(command, what, env=None):
    """Runs a command whose output matters only if it fails."""
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', check=False)
    if done.returncode != 0:
        say('\n'.join(done.stdout.splitlines()[-60:]))
        raise Failure(f'{what} failed: {" ".join(command)}')


def configure(build):
    """Sets up the build directory; makes it anew if its options have changed."""
    where = directory(build)
    compiler, options, _ = {**BUILDS, **COVER}[build]
    stamp = os.path.join(where, 'tools-options.json')
    if os.path.exists(stamp) and os.path.exists(os.path.join(where, 'build.ninja')):
        with open(stamp, encoding='utf-8') as file:
            if json.load(file) == [compiler, options]:
                # From now on the build's lists contain tests that were added since.
                run_logged(['ninja', '-C', where, 'build.ninja'], f'configuring {build}')
                return
    shutil.rmtree(where, ignore_errors=True)
    run_logged(['meson', 'setup', *options, where, ROOT], f'configuring {build}',
               {**os.environ, 'CC': compiler})
    with open(stamp, 'w', encoding='utf-8') as file:
        json.dump([compiler, options], file)


def cpu_seconds():
    """The CPU time of ended child processes, which does not depend on other load."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_build(build, tests, tally=None):
    """Builds what the tests need, for tests of an install also what is installed; None: builds
    all."""
    start, cpu = time.monotonic(), cpu_seconds()
    say(f'== {build}: building')
    files = []
    if tests is not None:
        targets = introspect(build, '--targets')
        made = {target['id']: target['filename'] for target in targets}
        needed = {target for test in tests for target in test[2]}
        if any('install' in test[1] for test in tests):
            needed |= {target['id'] for target in targets if target['installed']}
        files = sorted({os.path.relpath(name, directory(build)) for target in needed
                        for name in made[target]})
    run_logged(['ninja', '-C', directory(build), *files], f'building {build}')
    seconds = time.monotonic() - start
    say(f'== {build}: built in {seconds:.0f} s')
    if tally is not None:
        tally.seconds.append((build, 'building', 0, seconds, cpu_seconds() - cpu))


def introspect(build, what):
    return json.loads(subprocess.run(['meson', 'introspect', what, directory(build)], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)


def declared_tests(build):
    """The tests of a build: (name, its suites, the first of which is its directory, targets)."""
    return [(test['name'], [suite.split(':')[-1] for suite in test['suite']], test['depends'])
            for test in introspect(build, '--tests')]


# -------------------------------------------------------------------------------------- skips

def version(text):
    return [int(part) for part in re.findall(r'\d+', text)[:2]]


def sanitizer_holds(build, name):
    return {'address': build == 'asan', 'undefined': build == 'asan',
            'thread': build == 'tsan'}[name]


def call_refused(name):
    """Whether a system call is not permitted, or does not exist."""
    if name == 'personality':
        return subprocess.run(['setarch', 'x86_64', '-R', 'true'], stderr=subprocess.DEVNULL,
                              check=False).returncode != 0
    number, first, given = {'userfaultfd': (323, 1, b''), 'io_uring': (425, 1, b''), 'mount': (165, 0, b''),
                            'bpf': (321, 0, struct.pack('<IIII', 17, 4, 4, 1))}[name]  # a map of sockets
    params = ctypes.create_string_buffer(given, 512)
    libc = ctypes.CDLL(None, use_errno=True)
    made = libc.syscall(number, first, params, 128)
    if made >= 0:
        os.close(made)
    return made < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)


def memory_locks_limited():
    with open('/proc/self/status', encoding='ascii') as file:
        held = int(re.search(r'^CapEff:\s*(\w+)', file.read(), re.M).group(1), 16)
    return held >> CAP_IPC_LOCK & 1 == 0 and \
        resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY


def condition_holds(condition, build):
    kind, *args = condition.split()
    if kind == 'cpu-lacks':
        with open('/proc/cpuinfo', encoding='utf-8') as info:
            return args[0] not in info.read().split()
    if kind == 'kernel-before':
        return version(platform.release()) < version(args[0])
    if kind == 'not-root':
        return os.geteuid() != 0
    if kind == 'above':
        with open('/proc/sys/' + args[0].replace('.', '/'), encoding='utf-8') as value:
            return int(value.read()) > int(args[1])
    if kind == 'memory-locks-limited':
        return memory_locks_limited()
    if kind == 'no-memory-cgroup':
        return not any(os.access(where, os.W_OK) for _, where in harness.MemoryGroup.places())
    if kind == 'no-file':
        return not os.path.exists(args[0])
    if kind == 'no-namespaces':
        return shutil.which('ip') is None or subprocess.run(
            ['unshare', '--net', 'true'], stderr=subprocess.DEVNULL, check=False).returncode != 0
    if kind == 'refused':
        return call_refused(args[0])
    if kind == 'no-guest-kernel':
        return subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'guest', 'base.py')],
                              stderr=subprocess.DEVNULL, check=False).returncode != 0
    if kind == 'build':
        return build == args[0]
    if kind == 'confined':
        return True
    if kind == 'sanitizer':
        return sanitizer_holds(build, args[0])
    raise Failure(f'tests/skips.txt: unknown condition "{condition}"')


def permitted_skips():
    with open(os.path.join(ROOT, 'tests', 'skips.txt'), encoding='utf-8') as lines:
        rows = [line.strip() for line in lines]
    rows = [[field.strip() for field in row.split('|')] for row in rows
            if row and not row.startswith('#')]
    for row in rows:
        if len(row) != 3:
            raise Failure(f'tests/skips.txt: not "test | what | condition": {" | ".join(row)}')
    return rows


def judge_skip(permitted, build, test, what):
    """What a skip is: 'covered' by another build, 'permitted', or 'forbidden'."""
    for test_glob, what_glob, condition in permitted:
        if fnmatch.fnmatch(test, test_glob) and fnmatch.fnmatch(what, what_glob) and \
                condition_holds(condition, build):
            return 'covered' if condition.startswith(('sanitizer', 'build', 'confined')) else 'permitted'
    return 'forbidden'


# ------------------------------------------------------------------------------------ running

def said(record):
    """The lines of a test's output, without empty ones and, of each stack, all but the top."""
    text = (record.get('stdout') or '').rstrip('\n') + '\n' + (record.get('stderr') or '')
    return [line.rstrip()[:SAID_COLUMNS] for line in text.splitlines()
            if line.strip(' =-') and not re.match(r'\s*#([3-9]|\d\d+) ', line)]


def said_last(lines, most):
    """The last lines; where a sanitizer reports, most of them from its first report."""
    for at, line in enumerate(lines[:-most]):
        if re.search(r'(WARNING|ERROR): \w+Sanitizer', line):
            end = most // 4
            return lines[at:at + most - end] + lines[len(lines) - end:]
    return lines[-most:]


class Tally:
    """The counts so far."""

    def __init__(self):
        self.passed = 0
        self.failed = []
        self.said = []  # by failed tests: (build and test, lines)
        self.skipped = 0
        self.seconds = []
        self.permitted = permitted_skips()

    def fail(self, text):
        self.failed.append(text)

    def skip(self, build, test, what, why):
        verdict = judge_skip(self.permitted, build, test, what)
        if verdict == 'covered':
            return
        self.skipped += 1
        say(f'skip: {build}: {test}: {what}: {why}')
        if verdict == 'forbidden':
            self.fail(f'{build}: {test}: skipped {what}, which tests/skips.txt does not permit')

    def add(self, build, record):
        test = record['name'].split(' / ')[-1]
        skips = list(dict.fromkeys(SKIP_LINE.findall(record.get('stdout') or '')))
        for what, why in skips:
            self.skip(build, test, what.strip(), why.strip())
        if record['result'] == 'OK' or record['result'] == 'EXPECTEDFAIL':
            self.passed += 1
        elif record['result'] == 'SKIP':
            if not skips:
                self.skip(build, test, 'all', 'no reason given')
        else:
            self.fail(f'{build}: {test}: {record["result"].lower()}; again: '
                      f'tools/test --build {build} {shlex.quote(test)}')
            self.said.append((f'{build}: {test}, status {record.get("returncode")}', said(record)))


def test_log(build, name):
    path = os.path.join(directory(build), 'meson-logs', f'tools-{name}.json')
    records = []
    try:
        with open(path, encoding='utf-8', errors='replace') as lines:
            records = [json.loads(line) for line in lines]
    except FileNotFoundError:
        pass
    return path, records


def run_tests(build, name, tests, tally, at_once=None):
    """Runs tests by name, with one log for all; counts them under `name`."""
    path, _ = test_log(build, name)
    if os.path.exists(path):
        os.unlink(path)
    say(f'== {build}: {name}')
    start, cpu = time.monotonic(), cpu_seconds()
    status = subprocess.run(
        ['meson', 'test', '-C', directory(build), '--no-rebuild', '--print-errorlogs',
         '--logbase', f'tools-{name}', '-t', str(SLOWER.get(build, 1)),
         *(['--num-processes', str(at_once)] if at_once else []), *tests], check=False).returncode
    seconds = time.monotonic() - start
    _, records = test_log(build, name)
    before = len(tally.failed)
    for record in records:
        tally.add(build, record)
    if len(records) != len(tests):
        tally.fail(f'{build}: {name}: {len(records)} of {len(tests)} tests ran')
    if status != 0 and len(tally.failed) == before:
        tally.fail(f'{build}: {name}: meson test ended with status {status}')
    tally.seconds.append((build, name, len(records), seconds, cpu_seconds() - cpu))


def by_directory(tests):
    groups = {}
    for name, suites, _ in tests:
        groups.setdefault(suites[0] if suites else 'other', []).append(name)
    return groups


def chosen(test, wanted):
    """Whether a suite or test is wanted by its name, or by several names: A+B."""
    return any(set(words.split('+')) <= {test[0], *test[1]} for words in wanted)


def run_build(build, words, tally):
    """Builds, and runs the suites or tests named; without names, those that the build is for."""
    configure(build)
    tests = declared_tests(build)
    if build == 'gcc' and words in ([], ['quick']):
        for name in testindex.gone([test[0] for test in tests]):
            tally.fail(f'tests/index.txt names {name}, which is no test: `tools/test index`')
        for path in testindex.unanswered():
            tally.fail(f'{path} leads to no test (tools/testindex.py): `tools/test index`')
    wanted = words or BUILDS[build][2]
    if wanted:
        tests = [test for test in tests if test[0] in wanted or chosen(test, wanted)]
        if not tests:
            raise Failure(f'{build}: no suite or test called {" or ".join(wanted)}')
    compile_build(build, None if not words and build in WHOLE else tests, tally)
    if words == ['quick']:
        # Tests run in parallel, because many wait most of their time.
        run_tests(build, 'quick', [test[0] for test in tests], tally, os.cpu_count() + 1)
        return
    for name, names in by_directory(tests).items():
        run_tests(build, name, names, tally)


def report_said(tally):
    """The last lines of each failed test, fewer of each where many failed."""
    left = SAID_ALL
    for name, lines in tally.said:
        most = min(left - 1, max(3, min(SAID_EACH, SAID_ALL // len(tally.said) - 1)))
        if most < 1:
            return
        some = said_last(lines, most) or ['(no output)']
        left -= 1 + len(some)
        say('\n'.join([f'{name}:', *(f'  {line}' for line in some)]))


def report(tally, started):
    say('\nseconds  of CPUs  tests  suite')
    for build, name, tests, seconds, cpu in tally.seconds:
        say(f'{seconds:7.1f}  {cpu:7.1f}  {tests:5}  {build} {name}')
    say(f'{time.monotonic() - started:7.1f}  {cpu_seconds():7.1f}         all')
    report_said(tally)
    for text in tally.failed:
        say(f'FAILED: {text}')
    say(f'{tally.passed} passed, {len(tally.failed)} failed, {tally.skipped} skipped')
    return 1 if tally.failed or tally.passed == 0 else 0


class Stop(Exception):
    """Ctrl-C or SIGTERM ended the night."""


# Random programs of one round of a night: words, and how many seeds.
NIGHT_SEEDS = [
    (['sim_test'], 200), (['sim_test', '--mixed'], 100), (['sim_test', '--lossy'], 100),
    (['sim_test', '--mixed', '--lossy'], 50), (['share_test'], 50), (['share_test', '--mixed'], 50),
    (['packed_test'], 50), (['packed_test', '--undo'], 20), (['provisional_test', '--mixed'], 50),
    (['rows_test'], 10), (['bands_test'], 50), (['racy_test'], 200), (['reliable_test'], 10),
    (['past_test'], 500), (['past_test', '--lossy'], 100), (['litmus_test', '--mixed'], 50),
    (['threads_test'], 4), (['threads_test', '--lossy'], 4), (['threads_test', '--mixed'], 4),
    (['threads_test', '--teams'], 4), (['threads_test', '--teams', '--nodes', '1'], 4)]
THREADS_ALONE = ['tsan', 'jitter']  # of these a night runs threads_test only; of jitter processes, too
NIGHT_MUTANTS = 4   # searched anew in each round
NIGHT_MODELS = 20   # rounds, of which one has the models that take minutes
NIGHT_FUZZ = 60     # seconds of one fuzzer in each round


def turn_of(names, seed, count):
    """Some of the names, other ones in each round."""
    at = seed // 200 * count
    return [names[(at + step) % len(names)] for step in range(count)]


def processes_env(where):
    """Where the programs of tests/multi are."""
    return next(test['env'] for test in introspect(os.path.basename(where), '--tests')
                if test['env'].get('MULTI_RANDOM'))


def random_processes(where, seed):
    """Random programs on real processes."""
    return ([sys.executable, os.path.join(ROOT, 'tests', 'multi', 'random_run.py'), '--seeds', f'{seed}..{seed + 3}'],
            processes_env(where))


def night_processes(where, seed):
    """Jobs on real processes, and searches that take no seeds as tests do."""
    env = processes_env(where)
    multi = os.path.join(ROOT, 'tests', 'multi')
    yield random_processes(where, seed)
    yield [sys.executable, os.path.join(multi, 'kernels_chaos.py'), '--seeds', f'{seed}..{seed + 4}'], env
    # Half a second each: as many as a night is asked to have.
    for first in range(seed // 200 * 500, seed // 200 * 500 + 500, 250):
        yield [sys.executable, os.path.join(multi, 'crashed.py')], {**env, 'CRASHED_SEEDS': f'{first}..{first + 249}'}
    # A round's seed is 200 more than that of the round before: the rounds go through the whole
    # product.
    yield ([sys.executable, os.path.join(multi, 'kernels_cover.py'), '--product', str(seed // 200 * 40),
            '--seeds', f'{seed}..{seed}'], env)
    yield ([sys.executable, os.path.join(multi, 'kernels_chaos.py'), '--product', '--seeds', f'{seed}..{seed}'],
           env)
    if seed // 200 % NIGHT_MODELS == 0:
        yield [os.path.join(ROOT, 'tests', 'model', 'run.sh'), 'large'], {'DEEP': '1'}
    fuzz = os.path.join(ROOT, 'tests', 'fuzz')
    names = sorted(name for name in os.listdir(fuzz) if name.endswith('.c'))
    for name in turn_of(names, seed, 1):
        yield [sys.executable, os.path.join(fuzz, 'run.py'), name, str(NIGHT_FUZZ)], {}
    mutants = os.path.join(ROOT, 'tests', 'mutants')
    names = sorted(name.removesuffix('.mutant') for name in os.listdir(mutants) if name.endswith('.mutant'))
    yield ([sys.executable, os.path.join(mutants, 'run.py'), '--search', '--seeds', '2000',
            *turn_of(names, seed, NIGHT_MUTANTS)], {})


def night_jobs(build, seed):
    """What one round runs, from `seed` on, as (command, environment)."""
    where = directory(build)
    env = {'JITTER': str(seed)} if build == 'jitter' else {}
    for (name, *words), seeds in NIGHT_SEEDS:
        if build not in THREADS_ALONE or name == 'threads_test':
            yield [os.path.join(where, 'tests', name), *words, '--seeds', f'{seed}..{seed + seeds - 1}'], env
    if build == 'jitter':
        yield random_processes(where, seed)
    if build in ('gcc', 'clang'):
        yield from night_processes(where, seed)


def night_run(command, env):
    """Runs one job in a session of its own; returns its output, and whether it ended as it
    should."""
    with subprocess.Popen(command, env={**os.environ, **env}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace',
                          start_new_session=True) as process:
        try:
            text, _ = process.communicate(timeout=NIGHT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # makes the tests of worlds tell their seed
            text, _ = process.communicate()
        except Stop:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
            raise
    return text, process.returncode == 0


def night_job(build, command, env):
    """Prints and keeps the lines of failing seeds; returns how many there are."""
    text, good = night_run(command, env)
    if good:
        return 0
    lines = [line.strip() for line in text.splitlines()]
    again = [line for line in lines if re.search(r'\b(replay|again): ', line)]
    for line in lines if again else [shlex.join(command), *lines[-20:]]:
        if not again or line in again or 'FAILED' in line:
            say(f'  {line}')
    with open(os.path.join(ROOT, 'build', 'night.txt'), 'a', encoding='utf-8') as seeds:
        seeds.writelines(f'{build}: {line}\n' for line in again or [shlex.join(command)])
    return len(again) or 1


def night(builds):
    """Runs random programs with new seeds, in the world and on processes, until stopped."""
    for build in builds:
        configure(build)
        some = [test for test in declared_tests(build) if chosen(test, ['sim+threads', 'multi_random'])]
        compile_build(build, some if build == 'jitter' else None)
    seed = first = int(os.environ.get('ROAM_SEED') or int.from_bytes(os.urandom(4), 'little'))
    failures = rounds = 0

    def stop(*_):
        raise Stop

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    say(f'== night: seeds from {first} on (ROAM_SEED={first} begins there again)')
    try:
        while True:
            for build in builds:
                for command, env in night_jobs(build, seed):
                    failures += night_job(build, command, env)
            rounds += 1
            seed += 200
            say(f'== night: {rounds} rounds, up to seed {seed - 1}, {failures} failures')
    except Stop:
        say(f'stopped in round {rounds + 1}, which began at seed {seed}; {failures} failures')
    return 1 if failures else 0


def list_tests(builds):
    for build in builds:
        configure(build)
        for name, names in by_directory(declared_tests(build)).items():
            for test in names:
                say(f'{build} {name} {test}')
    return 0


def run_for(build, files, tally):
    """The tests that execute some files: one for a first answer, then the others."""
    configure(build)
    names = testindex.tests_for(files)
    tests = {test[0]: test for test in declared_tests(build) if test[0] in names}
    order = [tests[name] for name in names if name in tests]
    if not order:
        raise Failure(f'no test is known to execute {" or ".join(files)}; `tools/test index` notes which do')
    for name, some in (('first', order[:1]), ('others', order[1:])):
        if some:
            compile_build(build, some)
            run_tests(build, name, [test[0] for test in some], tally, os.cpu_count() + 1)


def make_index():
    """Executes each test of `quick` alone, and notes in the index what it executes."""
    configure('cover')
    tests = [test for test in declared_tests('cover') if 'quick' in test[1]]
    compile_build('cover', tests)
    where, files = directory('cover'), {}
    for at, (name, _, _) in enumerate(tests):
        testindex.clear(where)
        start = time.monotonic()
        done = subprocess.run(['meson', 'test', '-C', where, '--no-rebuild', '-t', '4', '--logbase', 'tools-index',
                               name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        seconds = time.monotonic() - start
        if done.returncode != 0:
            say(f'{name} fails with its coverage counted')
        for path, lines in testindex.counts(where).items():
            files.setdefault(path, {})[name] = (lines, seconds)
        say(f'{at + 1}/{len(tests)} {name} {seconds:.1f} s')
    testindex.write(files)
    late = testindex.slow(files)
    for path, name, seconds in late:
        say(f'{path}: its first test, {name}, takes {seconds:.0f} s: a shorter one is wanted')
    return 1 if late else 0


def main():
    parser = argparse.ArgumentParser(prog='tools/test', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage=argparse.SUPPRESS)
    parser.add_argument('--build', action='append', choices=list(BUILDS),
                        help=argparse.SUPPRESS)
    parser.add_argument('--for', dest='files', action='append', default=[], help=argparse.SUPPRESS)
    parser.add_argument('suite', nargs='*', help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.chdir(ROOT)
    builds = args.build or (['gcc'] if args.suite else list(BUILDS))
    started = time.monotonic()
    if args.suite == ['night']:
        return night(args.build or ['gcc', 'jitter'])
    if args.suite == ['list']:
        return list_tests(builds)
    if args.suite == ['index']:
        return make_index()
    tally = Tally()
    if args.files:
        run_for((args.build or ['gcc'])[0], args.files, tally)
        return report(tally, started)
    for build in builds:
        try:
            run_build(build, args.suite, tally)
        except Failure as failure:
            tally.fail(str(failure))
    return report(tally, started)


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f'tools/test: {failure}')
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
