#!/usr/bin/env python3
"""The programs of docs/porting.md: the port prints what the program of threads prints, under every
protocol, started in every way; and the document's pieces of code do what it says.

usage: porting.py BEFORE AFTER TRAPS TOOL [few]

few: some of the protocols and of the numbers of nodes, for `quick`.
"""
import json
import os
import subprocess
import sys


def call(command, **env):
    clean = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=25, env={**clean, **env})
    if done.returncode != 0:
        sys.exit(f'FAILED: {env} {" ".join(command)}: status {done.returncode}\n{done.stdout}')
    return done.stdout


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
        if call([traps, nodes], **env) != 'as the document says\n':
            sys.exit(f'FAILED: {env} {traps} {nodes}')
    print('ok')


if __name__ == '__main__':
    main()
