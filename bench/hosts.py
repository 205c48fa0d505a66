#!/usr/bin/env python3
"""The kernels on two hosts, over udp, compared with two nodes of one host, in turn.

The hosts are network namespaces joined by veth, so both have the same CPUs.  Needs root and the
command ip.  Prints a line for each kernel: medians of the whole run in ms, and the ratio of two hosts
to one.

--threads: four processes on two hosts as a node of two threads on each, compared with two nodes on
each: bytes of pages fetched and of diffs, near ones included, datagrams, and time.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

# The sizes of `roam bench apps`, and the most times as long as on one host.
KERNELS = {'lu -n3072 -b16': 1.5, 'ocean -n2050': 1.5, 'ocean-nc -n2050': 1.5, 'water-nsquared -n10648': 1.5,
           'water-spatial -n97336': 1.5, 'fft -m24': 3, 'fft -m20': None, 'lu-nc -n3072 -b16': 3, 'radix -n32M': 3,
           'raytrace -n512': 3, 'volrend -n256 -z768': 3, 'cholesky -n40': 3, 'barnes -n131072': 3,
           'fmm -n262144': 3, 'radiosity -f0.01': 3}
# With --threads, and the most that may be moved by nodes of two threads, as a part of what nodes move.
SHAPED = {'jump-sor -n1024 -i20': .6, 'ocean -n514': .6, 'fft -m20': None, 'lu -n1024 -b16': None,
          'radix -n1048576': None}
PAGE = 4096


def ip(*words):
    subprocess.run(['ip', *words], check=True, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def hosts(mtu):
    """The launcher's namespace, and two more, joined by a bridge in it."""
    home, *others = names = [f'roam-bench-{os.getpid()}-{letter}' for letter in '0ab']
    made = []
    try:
        for name in names:
            ip('netns', 'add', name)
            made.append(name)
            ip('-n', name, 'link', 'set', 'lo', 'up')
        ip('-n', home, 'link', 'add', 'br0', 'type', 'bridge')
        ip('-n', home, 'addr', 'add', '10.78.0.254/24', 'dev', 'br0')
        for number, name in enumerate(others, 1):
            ip('-n', home, 'link', 'add', f'v{number}', 'mtu', mtu, 'type', 'veth', 'peer', 'name',
               'eth0', 'mtu', mtu, 'netns', name)
            ip('-n', home, 'link', 'set', f'v{number}', 'master', 'br0', 'up')
            ip('-n', name, 'addr', 'add', f'10.78.0.{number}/24', 'dev', 'eth0')
            ip('-n', name, 'link', 'set', 'eth0', 'up')
        ip('-n', home, 'link', 'set', 'br0', 'up')
        yield names
    finally:
        for name in made:
            ip('netns', 'del', name)


def took(words, env):
    start = time.monotonic()
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   env={**os.environ, **env})
    return (time.monotonic() - start) * 1e3


def compared(kernel, args, names):
    """Medians on two hosts and on one."""
    program, *options = kernel.split()
    command = [os.path.join(args.build, 'apps', program), '-p2', *options]
    far = ['ip', 'netns', 'exec', names[0], os.path.join(args.build, 'tools', 'roam'), 'run', '-n',
           '2', '-H', ','.join(names[1:]), *command]
    times = [(took(far, {'ROAM_RSH': 'ip netns exec'}), took(command, {}))
             for _ in range(args.runs)]
    return [statistics.median(column) for column in zip(*times)]


def moved(shape, command, args, names):
    """A run's bytes moved, datagrams sent and ms."""
    with tempfile.TemporaryDirectory() as work:
        stats = os.path.join(work, 'stats.json')
        ms = took(['ip', 'netns', 'exec', names[0], os.path.join(args.build, 'tools', 'roam'), 'run', *shape, *command],
                  {'ROAM_RSH': 'ip netns exec', 'ROAM_STATS': stats})
        with open(stats, encoding='utf-8') as file:
            counters = {name: sum(values) for name, values in json.load(file)['counters'].items()}
    return (counters.get('fetches', 0) * PAGE + counters.get('diff_bytes', 0), counters['datagrams_sent'], ms)


def shaped(kernel, args, names):
    """Medians of the two shapes."""
    program, *options = kernel.split()
    command = [os.path.join(args.build, 'apps', program), '-p4', *options]
    shapes = {'threads': ['-n', '2', '-H', ','.join(names[1:]), '--threads', '2'],
              'nodes': ['-n', '4', '-H', ','.join(f'{name}:2' for name in names[1:])]}
    runs = [{shape: moved(words, command, args, names) for shape, words in shapes.items()}
            for _ in range(args.runs)]
    return {shape: [statistics.median(column) for column in zip(*(run[shape] for run in runs))]
            for shape in shapes}


def shapes(args, names):
    print(f'{"4 processes":22} {"moved, MiB":>17} {"ratio":>6} {"limit":>6} {"datagrams":>15} {"ms":>12}', flush=True)
    print(f'{"":22} {"2 x 2":>8} {"4 x 1":>8} {"":6} {"":6} {"2 x 2":>7} {"4 x 1":>7} {"2 x 2":>6} {"4 x 1":>5}',
          flush=True)
    for kernel, limit in SHAPED.items():
        if args.kernels and not kernel.startswith(tuple(args.kernels)):
            continue
        both = shaped(kernel, args, names)
        (team, team_sent, team_ms), (node, node_sent, node_ms) = both['threads'], both['nodes']
        print(f'{kernel:22} {team / 2**20:8.1f} {node / 2**20:8.1f} {team / node:6.2f} {limit or "-":>6} '
              f'{team_sent:7.0f} {node_sent:7.0f} {team_ms:6.0f} {node_ms:5.0f}', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build', help='a release build [build]')
    parser.add_argument('--runs', type=int, default=5, help='of each [5]')
    parser.add_argument('--mtu', default='1500', help='of the link between the hosts [1500]')
    parser.add_argument('--threads', action='store_true', help='threads in nodes, and nodes')
    parser.add_argument('kernels', nargs='*', help='those whose names begin so [all]')
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    if os.geteuid() != 0:
        sys.exit('bench/hosts.py: network namespaces are for root')
    with hosts(args.mtu) as names:
        if args.threads:
            shapes(args, names)
            return
        print(f'{"kernel":22} {"hosts":>8} {"one host":>8} {"ratio":>6}  limit', flush=True)
        for kernel, limit in KERNELS.items():
            if args.kernels and not kernel.startswith(tuple(args.kernels)):
                continue
            far, near = compared(kernel, args, names)
            print(f'{kernel:22} {far:8.0f} {near:8.0f} {far / near:6.2f}  {limit or "-"}',
                  flush=True)


if __name__ == '__main__':
    main()
