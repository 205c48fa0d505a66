#!/usr/bin/env python3
"""What the SPLASH-2 programs refuse: one line that says why, the usage, status 2, from one node.

usage: kernels_input.py
"""
import re

import harness

# Arguments that no program accepts, and the line that says why.
ALL = [
    (['-p', '0'], r'-p must be 1 to 64'),
    (['-p', '65'], r'-p must be 1 to 64'),
    (['-p', 'x'], r'-p x is no number'),
    (['-p'], r'-p needs a value'),
    (['-Q'], r'unknown option -Q'),
    (['--layout', 'lines'], r'--layout is suite(?: or pages)?'),
    (['--nothing'], r'unknown option --nothing'),
    (['one'], r'what follows the options\?'),
]
SOME = {
    'barnes': [(['-n1'], '-n must be'), (['-n4', '-p5'], '-p must be'), (['-d0'], '-d must be'),
               (['-T-1'], '-d must be'), (['-a3'], '-e must not .* -a must be'), (['-f0'], '-f and -l'),
               (['-r-1'], '-r must be'), (['-n12x'], 'is no number')],
    'cholesky': [(['-n0'], '-n must be'), (['-n65'], '-n must be'), (['-w0'], '-w must be')],
    'fft': [(['-m3'], '-m must be even'), (['-m2', '-p4'], '-p must be'), (['-l99'], '-l 4 to 12'),
            (['-n0'], '-n must be')],
    'fmm': [(['-n1'], '-n must be'), (['-n4', '-p5'], '-p must be'), (['-k0'], '-k must be'),
            (['-d0'], '-d must be'), (['-e1'], '-e must be'), (['-r-1'], '-r must be')],
    'lu': [(['-n0'], '-n must be'), (['-b0'], '-b must be'), (['--layout', 'pages'], '--layout is suite$')],
    'lu-nc': [(['-n0'], '-n must be'), (['-b-1'], '-b must be')],
    'ocean': [(['-n100'], '-n must be a power of 2 plus 2'), (['-n6', '-p5'], '-p must be'),
              (['--layout', 'pages'], '--layout is suite$'), (['-e0'], '-e, -r and -t'), (['-enan'], '-e nan is no number')],
    'ocean-nc': [(['-n100'], '-n must be a power of 2 plus 2'), (['-n6', '-p5'], '-p must be')],
    'radiosity': [(['-r9'], '-r must be'), (['-f0'], '-f, -a and -e'), (['-a-1'], '-f, -a and -e'), (['-b0'], '-b must be'),
                  (['-fx'], '-f x is no number')],
    'radix': [(['-n0'], '-n must be'), (['-r3'], '-r must be a power of 2'), (['-m0'], '-m must be')],
    'raytrace': [(['-n0'], '-n must be'), (['-a17'], '-a must be'), (['-l9'], '-l must be'),
                 (['-iteapot'], '-i must be car or balls'), (['-m1', '-l6'], 'a larger -m'),
                 (['-m0'], '-m must be')],
    'volrend': [(['-n7'], '-n must be'), (['-n2000'], '-n must be'), (['-z0'], '-z must be'), (['-r0'], '-r must be'),
                (['-z8192', '-r17'], '-r must be'), (['-dx'], '-d x is no number'), (['-w'], '-w needs a value')],
    'water-nsquared': [(['-n100'], '-n must be a cube'), (['-c99'], '-c must be'), (['-d0'], '-d must be'),
                       (['-k-1'], '-k must not'), (['-n8', '-p9'], '-p must be'), (['-i0'], '-i must')],
    'water-spatial': [(['-n100'], '-n must be a cube'), (['-n64', '-p7'], '-p: no grid'),
                      (['--layout', 'pages'], '--layout is suite$')],
}


def refuses(name, start, arguments, line):
    command = [*start, harness.program(name), *arguments]
    result = harness.run(command)
    # The launcher says which node ended first.
    lines = [text for text in result.err.splitlines()
             if not (start and re.match(r'roam: node \d \(pid \d+\) exited with status 2$', text))]
    if result.status != 2 or result.out or len(lines) != 2 or \
            not re.match(f'{name}: .*{line}', lines[0]) or \
            not lines[1].startswith(f'usage: {name} [-p procs]'):
        raise harness.Wrong(f'status {result.status}: {result.out[-300:]!r} {result.err[-900:]!r}')


def cases():
    """Runs the program by itself, and as a job of `roam run` in which only one node may say
    anything."""
    run = [harness.program('roam'), 'run', '-n', '3', '--']
    for name, own in SOME.items():
        for arguments, line in ALL + own:
            yield (f'{name} {" ".join(arguments)}', refuses, name, [], arguments, line)
        for arguments, line in own[:2]:
            if '-p' not in ' '.join(arguments):
                yield (f'run {name} {" ".join(arguments)}', refuses, name, run, ['-p3', *arguments], line)


if __name__ == '__main__':
    harness.main({'all': cases}, at_once=2)
