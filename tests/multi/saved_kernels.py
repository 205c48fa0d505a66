#!/usr/bin/env python3
"""Kernels that are killed at a random step and resumed, where they allocate alike also with other
numbers of nodes, end with the right result, and take only the steps that were left.

usage: saved_kernels.py [-k PART_OF_A_NAME]
"""
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

from harness import Wrong, clean_env, expect, kinds, main, program, run

# Its arguments, its steps with as many nodes, these, and those with which it goes on.
KERNELS = {
    'jump-sor': (['-n96', '-i12', '-t'], 12, 2, (1, 2, 4)),
    'jump-lu': (['-n32', '-t'], 31, 2, (1, 2, 4)),
    'jump-rx': (['-n16K', '-t'], 8, 2, (2,)),
    'jump-me': (['-n16K', '-t'], 2, 4, (4,)),
    'water-nsquared': (['-n64', '-t'], 3, 2, (2,)),
}
WAIT = 20  # seconds for a checkpoint


def saves(directory):
    return {'ROAM_CHECKPOINT': directory, 'ROAM_CHECKPOINT_EVERY': '0'}


def last(directory):
    """The number of the last checkpoint; each run counts on."""
    try:
        return int(os.readlink(f'{directory}/current'))
    except FileNotFoundError:
        return 0


def killed(command, directory, step, env):
    """Kills the job as soon as it has been saved before this step; or later, if it is fast."""
    with subprocess.Popen(command, env=clean_env({**saves(directory), **env}), start_new_session=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
        end = time.monotonic() + WAIT
        while last(directory) <= step and job.poll() is None and time.monotonic() < end:
            time.sleep(.001)
        os.killpg(job.pid, signal.SIGKILL)


def goes_on(name, protocol):
    arguments, steps, nodes, others = KERNELS[name]
    step = random.Random(name + protocol).randrange(steps)
    env = {'ROAM_PROTOCOL': protocol}
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed([program(name), f'-p{nodes}', *arguments], f'{directory}/dead', step, env)
        for other in others:
            copy = f'{directory}/{other}'
            shutil.copytree(f'{directory}/dead', copy, symlinks=True)
            expect([program(name), f'-p{other}', *arguments], out=f'{name}: .* p {other} .*verified ok$',
                   env={**env, **saves(copy), 'ROAM_RESUME': copy}, timeout=60)
            if last(copy) != steps:
                raise Wrong(f'it has taken {last(copy) - last(directory + "/dead")} steps')


def other_processes():
    """What depends on the number of processes is not resumed with another one."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed([program('jump-me'), '-p4', '-n16K'], directory, 1, {})
        result = run([program('jump-me'), '-p2', '-n16K'], env={'ROAM_RESUME': directory})
        if result.status == 0 or 'jump-me: was saved with -p 4' not in result.err:
            raise Wrong(f'status {result.status}: {result.err}')


def cases():
    yield ('other processes', other_processes)
    for protocol in dict.fromkeys(kinds().values()):
        for name in KERNELS:
            yield (f'{name} {protocol}', goes_on, name, protocol)


if __name__ == '__main__':
    main({'all': lambda: list(cases())}, at_once=2)
