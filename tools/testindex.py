"""Which tests execute which source file: made by executing them, for `tools/test --for FILE`.

tests/index.txt has a line for each file, "FILE: TEST TEST ...": first the test that covers most in its
time, then those that cover the rest, then others.  `tools/test index` writes it.
"""
import functools
import json
import os
import re
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INDEX = os.path.join(ROOT, 'tests', 'index.txt')
SAYS = """# Which tests of `quick` execute a file, best first: for tools/test --for FILE.  Written by
# tools/test index; tests/tidy.py fails when a file is missing, tools/test when a test is gone.
"""
TOPS = ('src/', 'protocols/')
TESTS_MAX = 12      # of a file
NONE = '(none)'
FIRST_MAX = 10      # seconds until the first answer
START_SECONDS = 0.3  # a test counts with at least this time
# What executing does not show: tables, whose tests execute what stands in them; code that is built
# anew for its test, ends its process, or runs under a launcher or in a guest; and what is not C.
BY_HAND = {
    'include/roam/parmacs-pthread.m4': ['macros_barrier-pthread -p4', 'macros_cond-pthread -p4', 'macros_marks'],
    'include/roam/parmacs.m4': ['macros_barrier -p2', 'macros_pause -p2', 'macros_marks', 'macros_complete'],
    'include/roam/pastset.hpp': ['cxx_g++', 'cxx_clang++'],
    'include/roam/roam.hpp': ['cxx_g++', 'cxx_clang++'],
    'include/roam/tx.hpp': ['cxx_g++', 'cxx_clang++'],
    'protocols/README.md': ['docs'],
    'src/base/registry.c': ['transports', 'extensions', 'protocol'],
    'src/fault/engines.c': ['fault', 'multi_confined'],
    'src/launch/starts.c': ['multi_lone', 'multi_squat', 'multi_hosts'],
    'src/launch/stdin_relay.c': ['multi_launch_hand', 'multi_launch_mpirun', 'multi_launch_hydra'],
    'src/launch/stdin_relay_far.c': ['multi_launch_fed', 'multi_launch_hosts'],
    'src/os/assert.c': ['multi_lone'],
    'src/roam.map': ['rooms', 'multi_outside'],
    'src/transport/verbs.c': ['verbs', 'guest_conform'],
    'src/transport/verbs_connect.c': ['verbs_connect', 'guest_conform', 'guest_bad'],
    'src/transport/verbs_credit.c': ['verbs', 'guest_conform', 'guest_bad'],
    'src/transport/verbs_hello.c': ['fuzz_hello', 'guest_conform'],
    'src/transport/verbs_hello.h': ['fuzz_hello', 'guest_conform'],
    'src/transport/verbs_key.c': ['verbs_remote', 'guest_reads'],
    'src/transport/verbs_read.c': ['verbs_remote', 'guest_reads'],
    'src/transport/verbs_put.c': ['verbs_remote', 'guest_reads'],
    'src/transport/verbs_remote.c': ['verbs_remote', 'guest_reads'],
}


def files_below(where, end):
    return [os.path.join(folder, name) for folder, _, names in os.walk(where) for name in names
            if name.endswith(end)]


def counts(where):
    """The executed lines of each source file since the last `clear`."""
    data, found = files_below(where, '.gcda'), {}
    if not data:
        return found
    said = subprocess.run(['gcov', '--json-format', '--stdout', *data], cwd=where, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for line in said.splitlines():
        for file in json.loads(line)['files']:
            path = os.path.relpath(os.path.join(where, file['file']), ROOT)
            if path.startswith(TOPS) and path.endswith('.c'):
                executed = {each['line_number'] for each in file['lines'] if each['count'] > 0}
                found[path] = found.get(path, set()) | executed
    return found


def clear(where):
    for path in files_below(where, '.gcda'):
        os.unlink(path)


def ranked(tests):
    """The names in {name: (lines, seconds)}, best first."""
    order, known = [], set()
    left = {name: (lines, seconds + START_SECONDS) for name, (lines, seconds) in tests.items() if lines}
    while left and len(order) < TESTS_MAX:
        soon = [name for name in left if left[name][1] <= FIRST_MAX] if not order else []
        name = max(soon or left, key=lambda name: (len(left[name][0] - known) / left[name][1],
                                           len(left[name][0]) / left[name][1], name))
        known |= left.pop(name)[0]
        order.append(name)
    return order


def sources():
    return [os.path.relpath(path, ROOT) for top in TOPS
            for path in files_below(os.path.join(ROOT, top), '.c')]


def slow(files):
    """(file, test, seconds) where the first answer comes late."""
    firsts = [(path, ranked(tests)[:1], tests) for path, tests in sorted(files.items())]
    return [(path, first[0], tests[first[0]][1]) for path, first, tests in firsts
            if first and tests[first[0]][1] > FIRST_MAX]


def write(files):
    """{file: {test: (lines, seconds)}}"""
    files = {**{path: {} for path in sources()}, **files}
    with open(INDEX, 'w', encoding='utf-8') as out:
        out.write(SAYS)
        out.writelines(f'{path}: {" ".join(ranked(tests)) or NONE}\n' for path, tests in sorted(files.items())
                       if path not in BY_HAND)


def gone(tests):
    """The names in the index that are none of these tests; not every build has those of guests."""
    named = {name for names in read().values() for name in names}
    return sorted(name for name in named - set(tests) if not name.startswith('guest_'))


def read():
    with open(INDEX, encoding='utf-8') as lines:
        rows = [line.rstrip('\n').split(': ') for line in lines if not line.startswith('#')]
    return {**{path: [name for name in tests.split() if name != NONE] for path, tests in rows}, **BY_HAND}


def unanswered():
    """The files under src, protocols and include that lead to no test."""
    files = [os.path.relpath(path, ROOT) for top in (*TOPS, 'include/')
             for path in files_below(os.path.join(ROOT, top), '')]
    return [path for path in sorted(files) if not path.endswith(('.build', '.in')) and not tests_for([path])]


@functools.cache
def includers():
    """The files that include each name of a header, as it is written there."""
    found = {}
    for top in (*TOPS, 'include/'):
        for path in files_below(os.path.join(ROOT, top), ('.c', '.h', '.def')):
            with open(path, encoding='utf-8') as file:
                for name in re.findall(r'^\s*#\s*include ["<]([^">]+)[">]', file.read(), re.M):
                    found.setdefault(name, set()).add(os.path.relpath(path, ROOT))
    return found


def sources_of(header):
    """For a header: the files that include it, or else a header that does; files with the header's
    name come first."""
    stem, known, named = os.path.splitext(os.path.basename(header))[0], {header}, includers()
    turn = known
    while turn:
        turn = {path for name, paths in named.items() for path in paths
                if any(('/' + each).endswith('/' + name) for each in turn)} - known
        known |= turn
        found = [path for path in turn if path.endswith('.c')]
        if found:
            return sorted(found, key=lambda path: (os.path.splitext(os.path.basename(path))[0] != stem, path))
    return []


def files_of(path):
    """The files in the index that a path stands for: the file itself, a room's files, or those that
    include a header."""
    if os.path.isdir(os.path.join(ROOT, path)):
        return [name for name in read() if name.startswith(path + '/')]
    return [path] if path.endswith('.c') or path in BY_HAND else sources_of(path)


def tests_for(paths):
    """The tests of some files and rooms, best first; a file that no test executes has no tests."""
    index, order = read(), []
    for path in paths:
        path = os.path.relpath(os.path.abspath(path), ROOT)
        lists = [index.get(name, []) for name in files_of(path)]
        if os.path.isdir(path):  # a guest is for those that ask for a file that it executes
            lists = [[name for name in names if not name.startswith('guest_')] for names in lists]
        for place in range(TESTS_MAX):
            order += [tests[place] for tests in lists if place < len(tests)]
    return list(dict.fromkeys(order))[:TESTS_MAX * len(paths)]
