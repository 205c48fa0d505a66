"""Which tests execute which source file: made by executing them, for `tools/test --for FILE`.

tests/index.txt has a line for each file, "FILE: TEST TEST ...": first the test that covers most in its
time, then those that cover the rest, then others.  `tools/test index` writes it.
"""
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
START_SECONDS = 0.3  # a test counts with at least this time


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
        name = max(left, key=lambda name: (len(left[name][0] - known) / left[name][1],
                                           len(left[name][0]) / left[name][1], name))
        known |= left.pop(name)[0]
        order.append(name)
    return order


def sources():
    return [os.path.relpath(path, ROOT) for top in TOPS
            for path in files_below(os.path.join(ROOT, top), '.c')]


def write(files):
    """{file: {test: (lines, seconds)}}"""
    files = {**{path: {} for path in sources()}, **files}
    with open(INDEX, 'w', encoding='utf-8') as out:
        out.write(SAYS)
        out.writelines(f'{path}: {" ".join(ranked(tests)) or NONE}\n' for path, tests in sorted(files.items()))


def gone(tests):
    """The names in the index that are none of these tests."""
    return sorted({name for names in read().values() for name in names} - set(tests))


def read():
    with open(INDEX, encoding='utf-8') as lines:
        rows = [line.rstrip('\n').split(': ') for line in lines if not line.startswith('#')]
    return {path: [name for name in tests.split() if name != NONE] for path, tests in rows}


def sources_of(header):
    """For a header: the files that include it; files with the header's name come first."""
    stem = os.path.splitext(os.path.basename(header))[0]
    found = []
    for path in read():
        try:
            with open(os.path.join(ROOT, path), encoding='utf-8') as file:
                included = re.findall(r'^#include "([^"]+)"', file.read(), re.M)
        except FileNotFoundError:
            continue
        if any(header.endswith('/' + name) for name in included):
            found.append(path)
    return sorted(found, key=lambda path: (os.path.splitext(os.path.basename(path))[0] != stem, path))


def files_of(path):
    """The files in the index that a path stands for: the file itself, a room's files, or those that
    include a header."""
    if os.path.isdir(os.path.join(ROOT, path)):
        return [name for name in read() if name.startswith(path + '/')]
    return [path] if path.endswith('.c') else sources_of(path)


def tests_for(paths):
    """The tests of some files and rooms, best first; a file that no test executes has no tests."""
    index, order = read(), []
    for path in paths:
        path = os.path.relpath(os.path.abspath(path), ROOT)
        lists = [index.get(name, []) for name in files_of(path)]
        for place in range(TESTS_MAX):
            order += [tests[place] for tests in lists if place < len(tests)]
    return list(dict.fromkeys(order))[:TESTS_MAX * len(paths)]
