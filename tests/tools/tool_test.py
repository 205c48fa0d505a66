#!/usr/bin/env python3
"""What `roam` says of itself is what it does: commands, benchmarks, engines, errors.

usage: tool_test.py ROAM SOURCE PROGRAM     (PROGRAM: one that starts roam)
"""
import os
import re
import subprocess
import sys
import tempfile

ROAM, SOURCE, PROGRAM = map(os.path.abspath, sys.argv[1:])


def run(*command, status=0, **env):
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run(command, env={**kept, **env}, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == status, f'{command} {env}: {done}'
    return done


def test_alone():
    """Without a command it shows the commands, as an error."""
    said = run(ROAM, status=2)
    assert said.stdout == '' and said.stderr == run(ROAM, 'help').stdout, said


def test_benchmarks():
    """roam(1) has the benchmarks that there are."""
    shown = run(ROAM, 'bench', 'help').stdout
    names = re.findall(r'^  (\w+) ', shown, re.MULTILINE)
    with open(os.path.join(SOURCE, 'docs', 'man', 'roam.1'), encoding='utf-8') as page:
        said = re.search(r'^is ((?:\w+, )+\w+ or all);', page.read(), re.MULTILINE).group(1)
    assert names and re.split(', | or ', said) == names, (said, names)


def test_engines():
    """The engines that it shows are those that ROAM_FAULT takes; auto is one that works."""
    shown = run(ROAM, 'info', 'engines').stdout
    rows = dict(re.findall(r'^  (\w+) +(.*)$', shown, re.MULTILINE))
    assert rows[re.search('auto takes (.*)\\)', shown).group(1)].startswith('works'), shown
    said = run(PROGRAM, status=1, ROAM_FAULT='none').stderr
    assert ['auto', *sorted(rows)] == said.split('known are ')[1].split(), (said, rows)
    for name, text in rows.items():
        run(PROGRAM, status=0 if text.startswith('works') else 1, ROAM_FAULT=name)


def test_said_once():
    """An error names the file, and what was wrong with it, once."""
    with tempfile.TemporaryDirectory() as folder:
        said = run(ROAM, 'past', 'serve', f'{folder}/socket', '--key', f'{folder}/key',
                   '--functions', f'{folder}/none.so', status=1).stderr
    assert said.count('none.so') == 1 and said.count('\n') == 1, said


def main():
    for name, test in sorted(globals().items()):
        if name.startswith('test_'):
            test()
            print(f'ok {name}')


if __name__ == '__main__':
    main()
