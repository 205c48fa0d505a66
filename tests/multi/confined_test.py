#!/usr/bin/env python3
"""Under a container's default profile (confined.py) programs run, by what is left to them, and what
is missing is named.  usage: confined_test.py [more]; more: tests of real processes run there, too, as far
as they need no fixed addresses."""
import os
import re
import subprocess
import sys

from harness import Wrong, kinds, pass_skips, program

CONFINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'confined.py')


def run(*command, status=0, out='', err='^$', **env):
    kept = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    done = subprocess.run([sys.executable, CONFINED, *command], env={**kept, **env}, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, check=False)
    if done.returncode != status or not re.search(out, done.stdout) or \
            not re.search(err, done.stderr):
        raise Wrong(f'{command} {env}: {done}')
    return done


def launched(nodes, *command, **how):
    return run(program('roam'), 'run', '-n', str(nodes), *command, **how)


def check_info():
    """Each missing thing is named, with the reason and what is used in its place."""
    said = run(program('roam'), 'info', 'machine', 'engines').stdout
    for row in (r'io_uring +missing: Operation not permitted; ROAM_UDP=plain',
                r'fixed addresses +missing: Operation not permitted; .*',
                r'locked memory +(?:[1-9]|[1-5]\d|6[0-4])? ?KiB|locked memory +64 KiB',
                r'uffd +missing: userfaultfd: Operation not permitted',
                r'auto takes sigsegv'):
        if not re.search(row, said):
            raise Wrong(f'roam info lacks {row}: {said}')


def check_created():
    """Runs programs that create their nodes, with what auto chooses."""
    for transport in ('shm', 'udp'):
        for kernel, *size in (('fft', '-m12'), ('radix', '-n20000'), ('jump-sor', '-n90')):
            run(program(kernel), '-p3', '-t', *size, out='verified ok', err='',
                ROAM_TRANSPORT=transport)


def check_launched():
    """Runs programs by roam run, on this host and as on several."""
    launched(3, program('fixed_hello'), out='node 2 of 3')
    launched(2, '-H', 'localhost:2', program('fixed_hello'), out='node 1 of 2', err='')
    for seed, protocol in enumerate(list(kinds().values())[:-1], 1):
        run(program('fixed_random'), '--seed', str(seed), '--nodes', '3', '--roam', program('roam'),
            ROAM_PROTOCOL=protocol, ROAM_TRANSPORT=('shm', 'udp')[seed % 2])


def check_told():
    """What cannot be had is refused, by its name or with a cure."""
    run(program('fft'), '-p2', '-m10', status=1, ROAM_FAULT='uffd',
        err='^roam: ROAM_FAULT=uffd: userfaultfd: Operation not permitted\n')
    run(program('fft'), '-p2', '-m10', status=1, ROAM_TRANSPORT='udp', ROAM_UDP='uring',
        err='ROAM_UDP=uring')


def suite(file, *arguments, **env):
    """A file of tests, as a whole."""
    pass_skips(run(sys.executable, os.path.join(os.path.dirname(CONFINED), file), *arguments, **env).stdout)


def more_random():
    suite('random_run.py', '--seeds', '1', MULTI_RANDOM=program('fixed_random'))


def more_deaths():
    suite('deaths.py', 'deaths', 'last', '-k', 'fork')


def more_faults():
    suite('teams.py', 'stacks')


def main():
    failed = 0
    kind = (sys.argv[1:] or ['check'])[0] + '_'
    for name, check in sorted(globals().items()):
        if name.startswith(kind):
            try:
                check()
                print(f'ok {name}', flush=True)
            except Wrong as wrong:
                failed = 1
                print(f'FAILED {name}: {wrong}', flush=True)
    sys.exit(failed)


if __name__ == '__main__':
    main()
