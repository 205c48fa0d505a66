#!/usr/bin/env python3
"""Builds a libFuzzer target with clang and runs it over its corpus for some seconds.

usage: run.py NAME SECONDS [--keep]
       run.py list   the names of all targets

SECONDS 0: the corpus and a little more, of a target that takes less time to build.
The corpus is tests/fuzz/corpus/NAME; --keep merges what a run found new into it.  A crash prints
where its input is, and the command that repeats it.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OS = [f'src/os/{name}.c' for name in ('bpf', 'fds', 'inside', 'os', 'proc', 'slab')]
SOURCES = {
    'clock': ['src/base/vclock.c'],
    'dp': ['src/dp/receive.c', 'src/dp/room.c', 'src/dp/send.c', *OS],
    'guest': ['src/link/channel.c', 'src/link/flow.c', *OS] +
             [f'src/pastset/{name}.c'
              for name in ('bitmap', 'buddy', 'element', 'elements', 'kernel', 'list', 'names', 'shown', 'template',
                           'tuple', 'xfunc', 'job/locate', 'job/partial', 'job/relay', 'job/server', 'job/show',
                           'attached/guest', 'attached/session')],
    'hello': ['src/transport/verbs_hello.c'],
    'hosts': ['tools/roam_hosts.c'],
    'link': ['src/link/link_in.c', 'src/link/link_out.c', 'src/link/reliable.c', 'src/link/seal.c',
             *OS, 'src/stats/stats.c'],
    'msg': ['src/msg/calls.c', 'src/msg/msg.c', 'src/msg/park.c', 'src/base/region.c', *OS,
            'src/stats/stats.c'],
    'options': ['src/base/options.c'],
    'packet': ['src/transport/packet.c', 'src/transport/packet_lane.c', 'src/transport/ear.c', *OS],
    'pmi1': ['src/launch/bind.c', 'src/launch/hub.c', 'src/launch/own.c', 'src/launch/pmi1.c',
             'src/launch/slurm.c', *OS],
    'save': ['src/save/file.c', 'src/save/store.c', *OS],
    'seal': ['src/link/seal.c'],
    'store': ['src/link/channel.c', 'src/link/flow.c', 'src/store/caller.c', 'src/store/state.c', *OS],
    'wire': ['src/launch/wire.c', 'src/link/channel.c', *OS],
    'xdp': ['src/transport/packet.c', 'src/transport/packet_lane.c', 'src/transport/xdp_attach.c',
            'src/transport/xdp_lane.c', 'src/transport/ear.c', *OS],
}
FEW = 300  # runs, beside the corpus
FLAGS = ['-std=gnu11', '-g', '-D_GNU_SOURCE', '-fsanitize=fuzzer,address,undefined',
         '-fno-sanitize-recover=undefined']


def build(clang, name, work, optimization):
    target = os.path.join(work, name)
    files = [os.path.join(HERE, name + '.c')] + [os.path.join(ROOT, path) for path in SOURCES[name]]
    subprocess.run([clang, *FLAGS, optimization, f'-I{ROOT}/include', f'-I{ROOT}/src',
                    f'-I{ROOT}/src/transport', f'-I{ROOT}/tools', f'-I{ROOT}/tests/lib', *files, '-o', target,
                    '-lpthread', '-lm', '-lsodium', '-llz4'], check=True)
    return target


def main():
    if sys.argv[1] == 'list':
        print(*sorted(SOURCES))
        return 0
    name = os.path.basename(sys.argv[1]).removesuffix('.c')
    seconds = int(sys.argv[2])
    clang = shutil.which('clang')
    if clang is None:
        print(f'skip: fuzz {name}: clang is not installed')
        return 0
    corpus = os.path.join(HERE, 'corpus', name)
    with tempfile.TemporaryDirectory(prefix='roam-fuzz-') as work:
        target = build(clang, name, work, '-O1' if seconds else '-O0')
        found = os.path.join(work, 'found')
        os.mkdir(found)
        crash = os.path.join(tempfile.gettempdir(), f'roam-fuzz-{name}-')
        length = (f'-max_total_time={seconds}' if seconds else
                  f'-runs={len(os.listdir(corpus)) + FEW}')
        status = subprocess.run([target, found, corpus, length, '-timeout=10',
                                 '-rss_limit_mb=2000', '-max_len=4096', '-print_final_stats=1',
                                 f'-artifact_prefix={crash}'], stderr=subprocess.STDOUT,
                                check=False).returncode
        if status == 0 and '--keep' in sys.argv:
            subprocess.run([target, '-merge=1', corpus, found], check=True)
    return 1 if status else 0  # a crash ends libFuzzer with 77, which means a skip to meson


if __name__ == '__main__':
    sys.exit(main())
