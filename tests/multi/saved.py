#!/usr/bin/env python3
"""Checkpoints: programs that are saved, killed at some step and resumed, under every protocol, with
the same and other numbers of nodes, end as if nothing had happened; what is damaged, incomplete or
of another program is refused in one line, and nothing is lost.

usage: saved.py [-k PART_OF_A_NAME] [GROUP]...
"""
import concurrent.futures
import functools
import os
import random
import re
import shutil
import subprocess
import tempfile
import time

from harness import Later, Wrong, default_protocol, expect, few, launched, main, program, protocols, rest, run, thin
from shapes import KINDS

STEPS = 24


def environment(directory, what, more, every=0):
    names = {'save': {'ROAM_CHECKPOINT': directory, 'ROAM_CHECKPOINT_EVERY': str(every)},
             'resume': {'ROAM_RESUME': directory}}
    return {**names[what], **more}


def command(start, nodes, steps=STEPS, kill_at=None):
    words = [] if kill_at is None else [str(kill_at)]
    if start == 'fork':
        return [program('saved'), 'fork', str(nodes), str(steps), *words]
    return launched(nodes, program('saved'), 'spmd', str(steps), *words)


@functools.cache
def right_sum():
    found = re.search(r'^sum \w+$', run(command('fork', 2)).out, re.MULTILINE)
    if found is None:
        raise Wrong('no sum')
    return found.group()


def killed(directory, start='fork', nodes=2, kill_at=15, env=None):
    """A run that is killed at a step, before which it was saved."""
    result = run(command(start, nodes, STEPS, kill_at), timeout=60,
                 env=environment(directory, 'save', env or {}))
    if result.status == 0 or 'killed by signal 9' not in result.err:
        raise Wrong(f'status {result.status}: {result.err[-300:]}')


def resumed(directory, start='fork', nodes=2, kill_at=15, env=None):
    expect(command(start, nodes), timeout=60, env=environment(directory, 'resume', env or {}),
           out=rf'^resumed at {kill_at}\n{right_sum()}$')


def goes_on(env, start='fork', nodes=2, others=(2,)):
    kill_at = random.Random(repr((env, start))).randrange(STEPS)
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed(directory, start, nodes, kill_at, env)
        for other in others:
            resumed(directory, start, other, kill_at, env)


def twice():
    """Saved, killed, resumed and saved, killed, resumed."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed(directory, kill_at=7)
        result = run(command('fork', 2, STEPS, 18),
                     env={**environment(directory, 'save', {}), 'ROAM_RESUME': directory})
        if result.status == 0 or 'killed by signal 9' not in result.err:
            raise Wrong(f'{result.out} {result.err}')
        resumed(directory, kill_at=18)
        left = sorted(os.listdir(directory))
        if len(left) != 2 or 'current' not in left:
            raise Wrong(f'left {left}')


def nothing_left():
    """A run that was saved before its end, and has nothing more to save when it is resumed, says nothing."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed(directory, kill_at=15)
        words = command('fork', 2, 16)
        right = re.search(r'^sum \w+$', run(words).out, re.MULTILINE).group()
        env = environment(directory, 'save', {'ROAM_RESUME': directory}, every=1000)
        expect(words, out=rf'^resumed at 15\n{right}$', env=env)


def any_moment():
    """Killed from outside, perhaps in the middle of a checkpoint: what is there is whole."""
    picks = random.Random(5)
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        env = environment(directory, 'save', {})
        for _ in range(12):
            with subprocess.Popen(command('fork', 2), env={**os.environ, **env},
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as job:
                try:
                    job.wait(picks.uniform(.02, .25))
                except subprocess.TimeoutExpired:
                    job.kill()
            if os.path.islink(f'{directory}/current'):
                expect(command('fork', 2), env=environment(directory, 'resume', {}),
                       out=rf'^resumed at \d+\n{right_sum()}$')


def launcher_options():
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        words = [program('roam'), 'run', '-n', '2', '--checkpoint', f'{directory}/new', '--every', '0',
                 program('saved'), 'spmd', str(STEPS), '9']
        if run(words).status == 0:
            raise Wrong('not killed')
        words = [program('roam'), 'run', '-n', '2', '--resume', f'{directory}/new', program('saved'),
                 'spmd', str(STEPS)]
        expect(words, out=rf'^resumed at 9\n{right_sum()}$')
    expect([program('roam'), 'run', '-n', '2', '--every', 'x', 'true'], 2, '--every')


def damaged(count):
    """Each byte of the files counts: one that differs anywhere is found before anything is loaded."""
    picks = random.Random(3)
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed(directory)
        current = f'{directory}/{os.readlink(f"{directory}/current")}'
        for name in sorted(os.listdir(current)):
            path = f'{current}/{name}'
            with open(path, 'rb') as file:
                good = file.read()
            for place in (0, 17, len(good) - 1, *(picks.randrange(len(good)) for _ in range(count))):
                bad = bytearray(good)
                bad[place] ^= 1 << picks.randrange(8)
                refused(directory, path, bytes(bad))
            refused(directory, path, good[:-1])
            refused(directory, path, b'')
            with open(path, 'wb') as file:
                file.write(good)
        resumed(directory)


def refused(directory, path, content):
    with open(path, 'wb') as file:
        file.write(content)
    result = run(command('fork', 2), env=environment(directory, 'resume', {}))
    if result.status == 0 or 'sum' in result.out or 'cannot resume from' not in result.err:
        raise Wrong(f'{path} with {len(content)} bytes: status {result.status}, {result.err!r}')


def cannot(line, what='resume', prepare=None, env=None, nodes=2):
    """A resumed run that is refused ends with one line."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        if prepare is not None:
            prepare(directory)
        expect(command('fork', nodes), 1, line,
               env=environment(directory, what, env or {}))


def file_limit():
    """A limit of file sizes is an error of the checkpoint, not a signal that ends the program."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        result = run(command('fork', 2), env=environment(directory, 'save', {'SAVED_LIMIT': '1'}))
        if result.status != 0 or right_sum() not in result.out or \
           len(result.err.splitlines()) != 1 or 'File too large' not in result.err:
            raise Wrong(f'status {result.status}: {result.out} {result.err}')


def no_point():
    """A program that never calls roam_resume_point: the user learns that nothing was saved or resumed."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        for what, name in (('save', 'ROAM_CHECKPOINT'), ('resume', 'ROAM_RESUME')):
            for words in (launched(2, program('hello')), [program('example')]):
                expect(words, 0, f'^roam: {name} had no effect: the program has not called '
                       'roam_resume_point$', env=environment(directory, what, {}))


def other_heap(directory):
    killed(directory, env={'ROAM_HEAP': '1G'})


def other_build():
    """A program of other bytes is refused: its statics, and what it allocates, may differ."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed(f'{directory}/saved')
        shutil.copy(program('saved'), f'{directory}/program')
        with open(f'{directory}/program', 'ab') as file:
            file.write(b'x')
        expect([f'{directory}/program', *command('fork', 2)[1:]], 1, 'another program, or build of it',
               env=environment(f'{directory}/saved', 'resume', {}))


def deleted():
    """A directory that is deleted meanwhile is made again; nothing else happens to the job."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        env = {**os.environ, **environment(f'{directory}/saved', 'save', {})}
        with subprocess.Popen(command('fork', 2, 60), env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            while job.poll() is None:
                shutil.rmtree(f'{directory}/saved', ignore_errors=True)
                time.sleep(.01)
            lines = job.stderr.read().splitlines()
        if job.returncode != 0 or len(lines) > 1 or not all('cannot save to' in line for line in lines):
            raise Wrong(f'status {job.returncode}: {lines}')


def no_place():
    """A checkpoint that cannot be written is told once, and the program goes on."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        with open(f'{directory}/file', 'w', encoding='ascii'):
            pass
        result = run(command('fork', 2), env=environment(f'{directory}/file', 'save', {}))
        lines = result.err.splitlines()
        if result.status != 0 or right_sum() not in result.out or len(lines) != 1 or \
           'cannot save to' not in lines[0]:
            raise Wrong(f'status {result.status}: {result.out} {result.err}')


def full_disk():
    """The last checkpoint stays when there is no room for the next one."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=700k', 'tmpfs', directory],
                                 check=False, stderr=subprocess.DEVNULL).returncode == 0
        if not mounted:
            print('skip: full disk: a file system of its own cannot be mounted')
            return
        try:
            killed(directory, kill_at=0)
            with open(f'{directory}/other', 'wb') as file:
                file.write(bytes(200 << 10))
            result = run(command('fork', 2), env=environment(directory, 'save', {}))
            if result.status != 0 or result.err.count('cannot save to') != 1 or \
               'No space left' not in result.err or right_sum() not in result.out:
                raise Wrong(f'status {result.status}: {result.err}')
            if len(os.listdir(directory)) != 3:
                raise Wrong(f'left {os.listdir(directory)}')
            expect(command('fork', 2), env=environment(directory, 'resume', {}),
                   out=rf'^resumed at \d+\n{right_sum()}$')
        finally:
            subprocess.run(['umount', directory], check=True)


def refused_state(how, line, env=None):
    """Under a launcher: all nodes get the error, one says why."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        expect(launched(2, program('saved'), how, directory), 0, line, r'^save 7\nsave 7$', env=env)
        if os.listdir(directory):
            raise Wrong(f'left {os.listdir(directory)}')


def whole():
    for how, why in (('whole', 'the heap has other blocks'), ('cut', r'pages\.0 is damaged')):
        with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
            expect([program('saved'), how, directory], 0, f'roam_load .*: {why}', '^load 23$')


def cancelled():
    """A thread that is cancelled in roam_save or roam_load is so when the call is over."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        expect([program('saved'), 'cancelled', directory], out='^heap right$')


def in_rounds():
    """A run that was saved in its second round of CREATE goes on there, not in the first one."""
    words = [program('saved'), 'rounds', str(STEPS)]
    right = re.search(r'^sum \w+$', run(words).out, re.MULTILINE).group()
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        if run([*words, '13'], env=environment(directory, 'save', {})).status == 0:
            raise Wrong('not killed')
        expect(words, out=rf'^resumed at 13\n{right}$', env=environment(directory, 'resume', {}))


def private_bytes(how, line):
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        result = run([program('saved'), 'bytes', how], env=environment(directory, 'save', {}))
        if result.err.count('\n') != 1 or line not in result.err:
            raise Wrong(f'status {result.status}: {result.err}')


def no_bytes(times):
    """The threads of a node agree about whether they have been resumed also if no bytes are."""
    env = {'ROAM_THREADS': '4', 'ROAM_HANG': '3'}
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        expect([program('saved'), 'bytes', 'none'], out='^20 in all$',
               env=environment(directory, 'save', env))
        for _ in range(times):
            expect([program('saved'), 'bytes', 'none'], out=r'^\d+ in all$',
                   env=environment(directory, 'resume', env))


def tree(directory):
    """What is there: names, and where links lead."""
    return sorted((os.path.relpath(os.path.join(where, name), directory),
                   os.path.islink(os.path.join(where, name)) and os.readlink(os.path.join(where, name)))
                  for where, dirs, files in os.walk(directory) for name in dirs + files)


def foreign(name, content, inside=()):
    """Nothing in the directory, or where links in it lead, is removed, replaced or followed if it is
    not roam's."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        for each in ('outside', 'saved', f'saved/{name}' if content is None else ''):
            os.makedirs(f'{directory}/{each}', exist_ok=True)
        for each in ['outside/head', 'outside/pages.0', *(f'saved/{name}/{file}' for file in inside)]:
            with open(f'{directory}/{each}', 'w', encoding='ascii'):
                pass
        if content == 'file':
            with open(f'{directory}/saved/{name}', 'w', encoding='ascii'):
                pass
        elif content is not None:
            os.symlink(content, f'{directory}/saved/{name}')
        before = tree(directory)
        result = run(command('fork', 2), env=environment(f'{directory}/saved', 'save', {}))
        if right_sum() not in result.out or result.err.count('cannot save to') != 1:
            raise Wrong(f'status {result.status}: {result.out} {result.err}')
        if tree(directory) != before:
            raise Wrong(f'{before} became {tree(directory)}')


def two_jobs(times):
    """Jobs that save to one directory at the same time lose no checkpoint, and are told."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        env = {**os.environ, **environment(directory, 'save', {})}
        for _ in range(times):
            with concurrent.futures.ThreadPoolExecutor() as pool:
                errors = list(pool.map(lambda _: subprocess.run(
                    command('fork', 2), env=env, capture_output=True, text=True, check=True).stderr,
                                       range(3)))
            if sum('another job saves to it' in error for error in errors) < 2:
                raise Wrong(f'{errors}')
            expect(command('fork', 2), env=environment(directory, 'resume', {}),
                   out=rf'^resumed at \d+\n{right_sum()}$')
            if len(os.listdir(directory)) != 2:
                raise Wrong(f'left {os.listdir(directory)}')


def mixed_files():
    """A file of another checkpoint, or what is no file, is found."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        killed(f'{directory}/a', kill_at=4)
        killed(f'{directory}/b', kill_at=20)
        path = f'{directory}/b/current/pages.1'
        shutil.copy(f'{directory}/a/current/pages.1', path)
        expect(command('fork', 2), 1, 'files of other checkpoints are in it',
               env=environment(f'{directory}/b', 'resume', {}))
        os.remove(path)
        os.mkfifo(path)
        expect(command('fork', 2), 1, 'pages.1: Invalid argument',
               env=environment(f'{directory}/b', 'resume', {}))


def relative():
    """The launcher's directories are those of its own working directory."""
    with tempfile.TemporaryDirectory(prefix='roam-saved-') as directory:
        def launch(*words):
            return ['env', '-C', directory, program('roam'), 'run', '-n', '2', *words, program('saved'),
                    'spmd', str(STEPS)]
        if run([*launch('--checkpoint', 'here', '--every', '0'), '9'], env={'SAVED_CHDIR': '1'}).status == 0:
            raise Wrong('not killed')
        if not os.path.exists(f'{directory}/here/current'):
            raise Wrong('saved elsewhere')
        expect(launch('--resume', 'here'), out=rf'^resumed at 9\n{right_sum()}$',
               env={'SAVED_CHDIR': '1'})


def first():
    yield ('default', goes_on, {}, 'fork', 2, (1, 2, 4))
    yield ('launched', goes_on, {}, 'run', 2, (2, 3))
    yield from thin(2, ((f'{name} {protocol}', goes_on, {'ROAM_PROTOCOL': protocol})
                        for name, protocol in KINDS.items()))
    yield ('threads', goes_on, {'ROAM_THREADS': '2'}, 'fork', 4, (2, 4))
    yield ('damaged', damaged, 1)
    yield Later(('damaged', damaged, 8))
    yield ('nothing there', cannot, 'there is no complete checkpoint')
    yield ('other heap', cannot, 'the heap had another size', 'resume', other_heap)
    yield ('other build', other_build)
    yield ('deleted', deleted)
    yield ('no place', no_place)
    yield ('no point', no_point)
    yield ('limit of file sizes', file_limit)
    yield ('full disk', full_disk)
    yield ('twice', twice)
    yield ('nothing left', nothing_left)
    yield ('options', launcher_options)
    yield ('whole', whole)
    yield ('cancelled', cancelled)
    yield ('blocks of a node', refused_state, 'own', 'node 1 has allocated 3 blocks since CREATE')
    yield ('a large block of a node', refused_state, 'large', 'other nodes have allocated 1 blocks',
           {'ROAM_HEAP': '1G'})
    yield ('rounds', in_rounds)
    yield ('no private bytes', no_bytes, 1)
    yield Later(('no private bytes', no_bytes, 4))
    yield ('unequal private bytes', private_bytes, 'unequal', 'one thread has 8 private bytes')
    yield ('many private bytes', private_bytes, 'many', 'more than 4096 private bytes')
    yield ('no such private bytes', private_bytes, 'null', 'the private bytes are NULL')
    yield ('a link', foreign, '1', '../outside')
    yield ('another directory', foreign, '1', None, ['pages.0', 'pages.mine'])
    yield ('current is a file', foreign, 'current', 'file')
    yield ('current leads elsewhere', foreign, 'current', '../outside')
    yield Later(('next is a file', foreign, 'next', 'file'))
    yield Later(('two jobs', two_jobs, 3))
    yield Later(('mixed files', mixed_files))
    yield ('relative', relative)
    yield ('a lock is held', refused_state, 'holds', 'a thread holds a lock')


def more():
    ways = [{}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_ONESIDED': '0'}, {'ROAM_CACHE_PAGES': '20'},
            {'ROAM_FAULT': 'sigsegv'}]
    for at, protocol in enumerate(protocols()):
        for way in (ways[at % 5], ways[(at + 2) % 5]):
            yield (f'{protocol} {way}', goes_on, {'ROAM_PROTOCOL': protocol, **way}, 'fork', 3,
                   (1, 3, 4))
        yield (f'{protocol} threads', goes_on, {'ROAM_PROTOCOL': protocol, 'ROAM_THREADS': '2'},
               'fork', 4, (2, 4, 8))
    yield ('any moment', any_moment)
    yield ('launched udp', goes_on, {'ROAM_TRANSPORT': 'udp'}, 'run', 3, (2, 4))


if __name__ == '__main__':
    default_protocol()
    main({'quick': lambda: few(first()), 'more': lambda: [*rest(first()), *more()]}, at_once=2)
