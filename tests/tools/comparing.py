"""What the tests of `roam compare` share: running it as a user would, and looking at its files."""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROAM, APPS, COMPARE_PY = map(os.path.abspath, sys.argv[1:4])
DECLARED = json.loads(subprocess.run([ROAM, 'info', 'protocols', '--json'], check=True,
                                     stdout=subprocess.PIPE).stdout)
# The default protocol; another one; and one that brings diffs to readers.
ONE = DECLARED['default']
OTHER = next(each['name'] for each in DECLARED['protocols'] if each['name'] != ONE)
DIFF_LOGS = next(each['name'] for each in DECLARED['protocols'] if 'diff_logs' in each['properties'])
BOTH = f'{ONE},{OTHER}'
# What the others are compared with.
FLOOR = next(each['name'] for each in DECLARED['protocols'] if 'one_heap' in each['properties'])


class Wrong(Exception):
    """Something is not as it should be."""


def check(truth, text):
    if not truth:
        raise Wrong(text)


def compare(*arguments, status=0, err=None, env=None, tool=(ROAM, 'compare'), folder=None):
    """Output of a comparison that must end so; `err`: what its last line on stderr must match."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run([*tool, *arguments], env={**kept, **(env or {})}, cwd=folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    told = f'{arguments}: status {done.returncode}, stderr {done.stderr[-600:]!r}'
    check(done.returncode == status, f'expected status {status}: {told}')
    check('Traceback' not in done.stderr, told)
    if err is not None:
        lines = done.stderr.splitlines() or ['']
        check(re.search(err, lines[-1]), f'expected {err!r}: {told}')
    return done.stdout


def refused(status, err, *arguments, **how):
    """Before any run: one line, and no output."""
    out = compare(*arguments, status=status, err='^roam: compare: .*' + err, **how)
    check(out == '', f'{arguments}: said {out!r}')


def check_svg(path, words):
    root = xml.etree.ElementTree.parse(path).getroot()
    check(root.tag == '{http://www.w3.org/2000/svg}svg', root.tag)
    groups = [element.get('id', '') for element in root.iter()]
    for word in words:
        check(any(name.startswith(word) for name in groups), f'{path}: no {word}')
    return sum(name.startswith('axes_') for name in groups)


class Page(html.parser.HTMLParser):
    """What a page says and what it would load."""

    def __init__(self):
        super().__init__()
        self.loads, self.rows, self.tags = [], 0, []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.rows += tag == 'tr'
        self.loads += [(tag, value) for key, value in attrs
                       if key in ('src', 'href', 'xlink:href', 'data', 'poster', 'action')
                       and not value.startswith('#')]


def check_html(path, rows):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    page = Page()
    page.feed(text)
    check(text.startswith('<!DOCTYPE html>') and '<?xml' not in text, 'not a page')
    check(page.loads == [] and not {'script', 'link', 'iframe'} & set(page.tags),
          f'loads {page.loads}')
    check(not re.search(r'url\((?!#)|@import', text), 'its style loads something')
    check(page.rows == rows + 1 and page.tags.count('svg') == 1, 'rows or picture missing')
    return text


def run_cases(*cases):
    """Each in a folder of its own; ends the program."""
    failed = 0
    for case in cases:
        with tempfile.TemporaryDirectory() as place:
            try:
                case(place)
                print(f'ok {case.__name__}', flush=True)
            except Wrong as wrong:
                failed += 1
                print(f'FAILED {case.__name__}: {wrong}', flush=True)
    sys.exit(1 if failed else 0)
