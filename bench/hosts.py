#!/usr/bin/env python3
"""The kernels on two hosts, over udp, compared with two nodes of one host, in turn.

The hosts are network namespaces joined by veth, so both have the same CPUs.  Needs root and the
command ip.  Prints a line for each kernel: medians of the whole run in ms, and the ratio of two hosts
to one.

--threads: four processes on two hosts as a node of two threads on each, compared with two nodes on
each: bytes of pages fetched and of diffs, near ones included, datagrams between the hosts, time, and
what changes of access cost nodes of threads: their number, and the time of each, which interrupts the
node's other threads.  Ends with status 1 if a program exceeds a limit; none has more datagrams.
Processes number themselves under a lock, as in the suite, which gives a node's two numbers in a row (rule 5.9):
one of ocean's three edges lies between the hosts.

--packet: the six kernels of the JUMP-DP paper under jump, over packet and over udp, in turn, without
fetching ahead: the fourth column of its table 2 beside the third.  Four processes, two on each host,
which send each other frames or datagrams there, too.  Theirs is for as many processes and the same size.
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

# The sizes of `roam bench apps`, and the limit: how many times as long as on one host.
KERNELS = {'lu -n3072 -b16': 1.5, 'ocean -n2050': 1.5, 'ocean-nc -n2050': 1.5, 'water-nsquared -n10648': 1.5,
           'water-spatial -n97336': 1.5, 'fft -m24': 3, 'fft -m20': None, 'lu-nc -n3072 -b16': 3, 'radix -n32M': 3,
           'raytrace -n512': 3, 'volrend -n256 -z768': 3, 'cholesky -n40': 3, 'barnes -n131072': 3,
           'fmm -n262144': 3, 'radiosity -f0.01': 3}
# For --threads: the most that nodes of two threads may move, and the longest that they may take, as
# shares of what nodes of one thread do.  First programs of barriers, then of locks.
SHAPED = {'jump-sor -n1024 -i20': (.6, 1.05), 'ocean -n514': (.6, 1.05), 'fft -m20': (None, 1.05),
          'lu -n1024 -b16': (None, 1.05), 'radix -n1048576': (None, 1.05),
          'barnes -n4096': (None, None), 'cholesky -n16': (None, None), 'radiosity -f0.1': (None, None),
          'raytrace -n64': (None, None), 'water-nsquared -n512': (None, None)}
# For --packet: what the paper has for JUMP over sockets and JUMP-DP with four processors, in seconds.
DIRECT = {'jump-mm -n512': (6.089, 5.766), 'jump-me -n1048576': (1.775, 1.531), 'jump-rx -n1048576': (5.981, 4.941),
          'jump-lu -n512': (18.267, 17.706), 'jump-bk -n262144': (1.361, 1.245), 'jump-sor -n1024': (3.269, 3.062)}
PAGE = 4096


def ip(*words):
    subprocess.run(['ip', *words], check=True, stdin=subprocess.DEVNULL)


@contextlib.contextmanager
def hosts(mtu):
    """The launcher's namespace, with a bridge, and two more, which the bridge joins."""
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
    """Bytes that a run moved, datagrams sent, ms, changes of access and their ms."""
    with tempfile.TemporaryDirectory() as work:
        stats = os.path.join(work, 'stats.json')
        ms = took(['ip', 'netns', 'exec', names[0], os.path.join(args.build, 'tools', 'roam'), 'run', *shape, *command],
                  {'ROAM_RSH': 'ip netns exec', 'ROAM_STATS': stats})
        with open(stats, encoding='utf-8') as file:
            found = json.load(file)
    counters = {name: sum(values) for name, values in found['counters'].items()}
    return (counters.get('fetches', 0) * PAGE + counters.get('diff_bytes', 0), counters['datagrams_sent'], ms,
            counters['protects'], sum(found['time_ms']['protect']))


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


def packets(args, names):
    """The kernels over packet and over udp."""
    print(f'{"jump, 4 processes":22} {"packet":>8} {"udp":>8} {"ratio":>6}  theirs', flush=True)
    for kernel, (sockets, direct) in DIRECT.items():
        if args.kernels and not kernel.startswith(tuple(args.kernels)):
            continue
        program, *options = kernel.split()
        command = ['ip', 'netns', 'exec', names[0], os.path.join(args.build, 'tools', 'roam'), 'run', '-n', '4',
                   '-H', ','.join(f'{name}:2' for name in names[1:]),
                   os.path.join(args.build, 'apps', program), '-p4', *options]
        env = {'ROAM_RSH': 'ip netns exec', 'ROAM_PROTOCOL': 'jump', 'ROAM_PREFETCH': '0', 'ROAM_SEAL': 'off'}
        times = [[took(command, {**env, 'ROAM_TRANSPORT': over}) for over in ('packet', 'udp')]
                 for _ in range(args.runs)]
        packet, udp = (statistics.median(column) for column in zip(*times))
        print(f'{kernel:22} {packet:8.0f} {udp:8.0f} {packet / udp:6.2f}  {direct / sockets:.2f}', flush=True)


def exceeded(ratio, limit):
    return limit is not None and ratio > limit


def marked(ratio, limit):
    """The ratio, and whether it is over the limit."""
    return f'{ratio:5.2f}{"!" if exceeded(ratio, limit) else " "}'


def shapes(args, names):
    """Whether all are within their limits."""
    good = True
    print(f'{"4 processes":22} {"moved, MiB":>17} {"ratio":>6} {"limit":>5} {"datagrams":>15} {"ratio":>6} '
          f'{"ms":>11} {"ratio":>6} {"limit":>5} {"protects":>8} {"us each":>7}', flush=True)
    print(f'{"":22} {"2 x 2":>8} {"4 x 1":>8} {"":6} {"":5} {"2 x 2":>7} {"4 x 1":>7} {"":6} {"2 x 2":>5} '
          f'{"4 x 1":>5}', flush=True)
    for kernel, (most, slowest) in SHAPED.items():
        if args.kernels and not kernel.startswith(tuple(args.kernels)):
            continue
        both = shaped(kernel, args, names)
        (team, team_sent, team_ms, protects, protect_ms), (node, node_sent, node_ms, *_) = \
            both['threads'], both['nodes']
        ratios = (team / node, most), (team_sent / node_sent, 1), (team_ms / node_ms, slowest)
        good = good and not any(exceeded(*each) for each in ratios)
        moves, datagrams, times = (marked(*each) for each in ratios)
        print(f'{kernel:22} {team / 2**20:8.1f} {node / 2**20:8.1f} {moves} {most or "-":>5} '
              f'{team_sent:7.0f} {node_sent:7.0f} {datagrams} {team_ms:5.0f} {node_ms:5.0f} {times} '
              f'{slowest or "-":>5} {protects:8.0f} {1e3 * protect_ms / max(protects, 1):7.1f}', flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default='build', help='a release build [build]')
    parser.add_argument('--runs', type=int, default=5, help='of each [5]')
    parser.add_argument('--mtu', default='1500', help='of the link between the hosts [1500]')
    parser.add_argument('--threads', action='store_true', help='threads in nodes, and nodes')
    parser.add_argument('--packet', action='store_true', help='packet and udp, under jump')
    parser.add_argument('kernels', nargs='*', help='those whose names begin so [all]')
    args = parser.parse_args()
    args.build = os.path.abspath(args.build)
    if os.geteuid() != 0:
        sys.exit('bench/hosts.py: network namespaces are for root')
    with hosts(args.mtu) as names:
        if args.threads:
            sys.exit(0 if shapes(args, names) else 1)
        if args.packet:
            packets(args, names)
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
