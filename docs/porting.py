#!/usr/bin/env python3
"""The programs of docs/porting.md: the port prints what the program of threads prints, under every
protocol, started in every way; and the document's pieces of code do what it says.

usage: porting.py BEFORE AFTER TRAPS TOOL [few]

few: some of the protocols and of the numbers of nodes, for `quick`.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile


CLEAN = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
RIGHT = 'as the document says\n'


def call(command, status=0, **env):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=25, env={**CLEAN, **env})
    if done.returncode != status:
        sys.exit(f'FAILED: {env} {" ".join(command)}: status {done.returncode}\n{done.stdout}')
    return done.stdout


def says(command, wanted, **env):
    said = call(command, **env)
    if said != wanted:
        sys.exit(f'FAILED: {env} {" ".join(command)}: {said!r}, wanted {wanted!r}')


def stored(traps, tool, env):
    """What a run has committed is there for the next one."""
    with tempfile.TemporaryDirectory(prefix='roam-porting-') as place:
        key = f'{place}/key'
        with subprocess.Popen([tool, 'pages', 'serve', f'{place}/pages', f'{place}/socket', '--key', key],
                              env=CLEAN, text=True, stdout=subprocess.PIPE) as server:
            try:
                address = server.stdout.readline().split()[-1]
                for number, nodes in enumerate('231', 1):
                    says([traps, nodes, 'store'], f'run {number}\n{RIGHT}', ROAM_STORE=address, ROAM_STORE_KEY=key, **env)
            finally:
                server.kill()


def resumed(traps, tool):
    """A run that is killed goes on where it was saved, on another number of nodes."""
    with tempfile.TemporaryDirectory(prefix='roam-porting-') as place:
        run = [tool, 'run', '-n', '2']
        call([*run, '--checkpoint', place, '--every', '0', traps, '2'], 128 + signal.SIGKILL, TRAPS_STOP='1')
        says([tool, 'run', '-n', '3', '--resume', place, traps, '3'], RIGHT)


def main():
    before, after, traps, tool, *few = sys.argv[1:]
    step = 3 if few else 1
    wanted = call([before, '4'])
    protocols = json.loads(call([tool, 'info', 'protocols', '--json']))['protocols']
    ways = [([after, '4'], {'ROAM_PROTOCOL': each['name'], 'ROAM_MIRAGE_DELTA': '10'})  # else it waits long
            for each in protocols[::step]]
    ways += [([after, '4'], {'ROAM_THREADS': threads}) for threads in '24']
    ways += [([after, '4'], {'ROAM_TRANSPORT': 'udp', 'ROAM_THREADS': '2'}),
             ([after, '3'], {'ROAM_TRANSPORT': 'udp'}), ([after, '2'], {'ROAM_CHECK': 'statics'}),
             ([tool, 'run', '-n', '4', after, '4'], {})]
    for command, env in ways:
        said = call(command, **env)
        if not said.endswith(wanted): # a check says something before
            sys.exit(f'FAILED: {env} {" ".join(command)}: {said!r}, wanted {wanted!r}')
    found = [(nodes, env) for nodes in '123' for env in ({}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_THREADS': nodes})]
    for nodes, env in found[::4 if few else 1]:
        says([traps, nodes], RIGHT, **env)
    env = {'ROAM_PROTOCOL': next(each['name'] for each in protocols if 'transactions' in each['properties'])}
    says([traps, '3', 'tx'], RIGHT, **env)
    stored(traps, tool, env)
    resumed(traps, tool)
    print('ok')


if __name__ == '__main__':
    main()
