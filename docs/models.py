#!/usr/bin/env python3
"""The programs of docs/consistency.md see what each model promises, under every protocol and two engines.

usage: models.py MODELS TOOL

Under release consistency a node is certain to see the old value only if pages stay at their homes.
"""
import json
import os
import subprocess
import sys


def call(command, **env):
    clean = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=60, env={**clean, **env})
    if done.returncode != 0:
        sys.exit(f'FAILED: {env} {" ".join(command)}: status {done.returncode}\n{done.stdout}')
    return done.stdout


def model(protocol):
    """What the program is told to expect under a protocol."""
    if protocol['model'] == 'SC':
        return 'sc'
    return 'old' if protocol['homes'] == 'fixed' else 'rc'


def main():
    models, tool = sys.argv[1:]
    protocols = json.loads(call([tool, 'info', 'protocols', '--json']))['protocols']
    expected = {each['name']: model(each) for each in protocols}
    for name, what in expected.items():
        for engine in ('sigsegv', 'auto'):
            call([models, what], ROAM_PROTOCOL=name, ROAM_FAULT=engine)
    print(f'ok: {" ".join(expected)}')
    return 0 if expected else 1


if __name__ == '__main__':
    sys.exit(main())
