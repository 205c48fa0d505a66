#!/usr/bin/env python3
"""A transport costs one file and one name.  sockets.c is built into roam and a program with nothing
else: like all other transports it is shown, chosen, refused, and has its options, and a job runs
over it.

usage: run.py ROAM PROGRAM
"""
import json
import os
import re
import subprocess
import sys

ROAM, PROGRAM = sys.argv[1:]
KEPT = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
NAME = 'sockets'


def run(*command, status=0, out='', err='^$', **env):
    done = subprocess.run(command, env={**KEPT, **env}, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == status, f'{command} {env}: {done}'
    assert re.search(out, done.stdout) and re.search(err, done.stderr), f'{command} {env}: {done}'
    return done


def test_shown():
    """It works here, and its options stand among all others."""
    said = json.loads(run(ROAM, 'info', 'transports', '--json').stdout)['transports']
    own = next(each for each in said if each['name'] == NAME)
    assert own['works'] and own['capabilities'] == ['reliable', 'ordered', 'sleeps'], own
    run(ROAM, 'info', 'transports', out=rf'\n  {NAME} +works: within a host, reliable')
    options = ' '.join(run(ROAM, 'info', 'options', ROAM_SOCKETS_LOOKS='7').stdout.split())
    assert re.search(r'ROAM_SOCKETS_LOOKS [^[]*\[a number from 0 to 100; default 1; now 7\]',
                     options), options


def test_runs():
    """A job runs over it where it is named: messages arrive, and threads sleep and are woken."""
    for env in ({}, {'ROAM_SOCKETS_LOOKS': '50', 'ROAM_SPIN_US': '1'}, {'ROAM_FAULTY': 'drop=5%'},
                {'ROAM_SEAL': 'encrypt', 'ROAM_FAULTY': 'repeat=5%'}):
        run(PROGRAM, out='pi is 3.14159265', err=f'info: 4 nodes on 1 host, by fork, over {NAME}$',
            ROAM_TRANSPORT=NAME, ROAM_LOG='info', **env)
        run(ROAM, 'run', '-n', '4', PROGRAM, out='pi is 3.14159265', ROAM_TRANSPORT=NAME, **env)


def test_chosen():
    """Unless named, it is not used, as it is not the cheapest; it is among the known names in an
    error, and does not reach other hosts."""
    run(PROGRAM, err='over (?!sockets)', ROAM_LOG='info')
    run(PROGRAM, status=1, err=f'unknown; known are auto .*{NAME}$', ROAM_TRANSPORT='none')
    run(ROAM, 'run', '-n', '4', '-H', 'localhost', PROGRAM, status=2,
        err=rf'ROAM_TRANSPORT={NAME}: it does not reach other hosts; [\w, ]+ does$', ROAM_TRANSPORT=NAME)


def test_refused():
    """Values are checked like all others; it says itself why it does not open."""
    run(PROGRAM, status=1, err='^roam: ROAM_SOCKETS_LOOKS=101: must be a number from 0 to 100\n',
        ROAM_SOCKETS_LOOKS='101')
    run(PROGRAM, err='unknown variable ROAM_SOCKETS_LOKS; did you mean ROAM_SOCKETS_LOOKS',
        ROAM_SOCKETS_LOKS='1')
    run(PROGRAM, status=1, err=r'^roam: cannot start the node: .* \(ROAM_SOCKETS=no\)$',
        ROAM_TRANSPORT=NAME, ROAM_SOCKETS='no')


def main():
    for name, test in list(globals().items()):
        if name.startswith('test_'):
            test()
            print(f'ok {name}', flush=True)


if __name__ == '__main__':
    main()
