#!/usr/bin/env python3
"""What `roam` says of itself is what it does: commands, benchmarks, engines, errors.

usage: tool_test.py ROAM SOURCE PROGRAM     (PROGRAM: one that starts roam)
"""
import json
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


def test_refused():
    """An unknown letter is named, wherever it stands; so is an option without its argument."""
    for words, named in (('-n 2 -p3 x', 'unknown option -p'), ('--tag -zt x', 'unknown option -z'),
                         ('--nodes=2 -zt x', 'unknown option -z'), ('--tug x', 'unknown option --tug'),
                         ('--tag=2 x', 'unknown option --tag=2'), ('-t -n', 'argument missing after -n'),
                         ('--nodes', 'argument missing after --nodes')):
        said = run(ROAM, 'run', *words.split(), status=2).stderr
        assert said == f'roam: run: {named}; `roam run --help`\n', (words, said)
    assert 'what is -x?' in run(ROAM, 'past', 'top', '-x', 'at', status=2).stderr
    assert 'what is often?' in run(ROAM, 'past', 'top', '--every', 'often', 'at', status=2).stderr


def declared():
    return json.loads(run(ROAM, 'info', 'protocols', '--json').stdout)


def test_protocols():
    """For scripts it says what it says for people, and which one is the default."""
    said = declared()
    shown = run(ROAM, 'info', 'protocols').stdout
    assert [(each['name'], each['model'], each['writers']) for each in said['protocols']] == \
        re.findall(r'^  (\S+) +(\w+), (one|many) writers?:', shown, re.MULTILINE), shown
    assert f'[default {said["default"]}]' in run(ROAM, 'info', 'options').stdout
    assert any(each['region_option'] for each in said['protocols'])
    assert 'usage: ' in run(ROAM, 'info', 'engines', '--json', status=2).stderr


def test_transports():
    """For scripts it says of transports what it says for people; each works here, or it says why not."""
    said = json.loads(run(ROAM, 'info', 'transports', '--json').stdout)['transports']
    shown = {name: ' '.join(text.split()) for name, text in
             re.findall(r'^  (\S+) +((?:works|missing): .*(?:\n   +.*)*)$', run(ROAM, 'info', 'transports').stdout, re.M)}
    assert [each['name'] for each in said] == list(shown) and len(said) > 1, (said, shown)
    for each in said:
        assert ('hosts' in each['capabilities']) == ('between hosts' in shown[each['name']]), shown
        assert shown[each['name']].startswith('works' if each['works'] else f'missing: {each["why"]}'), shown
        assert each['works'] or {'named', 'bare'} & set(each['capabilities']) and each['why'], each
        assert each['cost_ns'] > 0 and each['message_max'] > 0, each


def test_benchmarks():
    """roam(1) has the benchmarks that there are."""
    shown = run(ROAM, 'bench', 'help').stdout
    names = re.findall(r'^  (\w+) ', shown, re.MULTILINE)
    with open(os.path.join(SOURCE, 'docs', 'man', 'roam.1'), encoding='utf-8') as page:
        said = re.search(r'^is ((?:\w+, )+\w+ or all)\.$', page.read(), re.MULTILINE).group(1)
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


def completed(script, *words):
    """What bash offers for the last of the words."""
    line = ' '.join(f"'{word}'" for word in words)
    shown = run('bash', '--norc', '-c', f'. {script}; compopt() {{ :; }}; COMP_WORDS=({line}); '
                f'COMP_CWORD={len(words) - 1}; COMPREPLY=(); _roam; printf "%s\\n" "${{COMPREPLY[@]}}"')
    assert shown.stderr == '', shown
    return set(shown.stdout.split())


def test_completion():
    """bash completes what there is: commands, options, variables and values that are taken."""
    folder = os.path.join(os.path.dirname(ROAM), 'completion')
    script = os.path.join(folder, 'roam')
    usage = run(ROAM, 'help').stdout
    assert completed(script, 'roam', '') == set(re.findall(r'^  roam (\w+)', usage, re.MULTILINE))
    for command in ('run', 'pages', 'past'):
        known = set(re.findall(r'(--[a-z][a-z-]+)', run(ROAM, command, '--help').stdout))
        more = [] if command == 'run' else ['serve']
        offered = completed(script, 'roam', command, *more, '--')
        assert offered - {'--help'} <= known and known - offered <= {'--help'}, (offered, known)
    known = set(re.findall(r'(--[a-z][a-z-]+)', run(ROAM, 'tx', '--help').stdout))
    assert completed(script, 'roam', 'tx', 'report', '--') == known | {'--help'}, known
    assert completed(script, 'roam', 'tx', '') == {'report'}
    assert completed(script, 'roam', 'info', 'op') == {'options'}
    assert str(os.getpid()) in completed(script, 'roam', 'where', '')
    assert 'stream' in completed(script, 'roam', 'bench', '')
    assert '--after-barriers' in completed(script, 'roam', 'compare', '--a')
    assert 'uffd' in completed(script, 'roam', 'compare', '--engine', '')
    papers = re.findall(r'^  --paper (\w+)', run(ROAM, 'compare', '--help').stdout, re.MULTILINE)
    assert completed(script, 'roam', 'compare', '--paper', '') == set(papers) != set()
    shown = run(ROAM, 'info', 'options').stdout
    names = re.findall(r'^  (ROAM_\w+)', shown, re.MULTILINE)
    before = ['roam', 'run', '-n', '2', 'env']
    assert completed(script, *before, 'ROAM_') == {name + '=' for name in names}
    for name in names:
        for value in completed(script, *before, name, '='):
            refused = name in ('ROAM_UDP', 'ROAM_ALLOC') # what this build lacks
            assert refused or run(ROAM, 'info', 'version', **{name: value}), (name, value)
    protocols = [each['name'] for each in declared()['protocols']]
    for name in protocols:
        assert completed(script, *before, 'ROAM_PROTOCOL', '=', name[:2]) == \
            {other for other in protocols if other.startswith(name[:2])}, name
    assert not completed(script, 'roam', 'run', '-n', '')
    if os.path.exists('/usr/bin/zsh'):
        run('zsh', '-n', os.path.join(folder, '_roam'))
    else:
        print('skip: zsh: there is no zsh')


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
