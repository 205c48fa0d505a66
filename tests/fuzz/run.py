#!/usr/bin/env python3
"""Builds a libFuzzer target with clang and runs it over its corpus for some seconds.

usage: run.py FILE.c SECONDS [--keep]

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
OS = [f'src/os/{name}.c' for name in ('fds', 'os', 'proc', 'slab')]
SOURCES = {
    'clock': ['src/core/vclock.c'],
    'guest': ['src/msg/channel.c', *OS] +
             [f'src/pastset/{name}.c' for name in ('bitmap', 'element', 'guest', 'kernel', 'list', 'locate',
                                                   'names', 'partial', 'pool', 'relay', 'server', 'session',
                                                   'template', 'tuple', 'xfunc')],
    'hosts': ['tools/roam_hosts.c'],
    'link': ['src/msg/link_in.c', 'src/msg/link_out.c', 'src/msg/reliable.c', 'src/msg/seal.c',
             *OS, 'src/trace/stats.c'],
    'msg': ['src/msg/calls.c', 'src/msg/msg.c', 'src/core/domain.c', *OS,
            'src/trace/stats.c'],
    'options': ['src/api/options.c'],
    'pmi1': ['src/boot/bind.c', 'src/boot/hub.c', 'src/boot/own.c', 'src/boot/pmi1.c',
             'src/boot/slurm.c', *OS],
    'seal': ['src/msg/seal.c'],
    'wire': ['src/boot/wire.c', 'src/msg/channel.c', *OS],
}
FEW = 1000  # runs, beside the corpus
FLAGS = ['-std=gnu11', '-g', '-D_GNU_SOURCE', '-fsanitize=fuzzer,address,undefined',
         '-fno-sanitize-recover=undefined']


def build(clang, name, work, optimization):
    target = os.path.join(work, name)
    files = [os.path.join(HERE, name + '.c')] + [os.path.join(ROOT, path) for path in SOURCES[name]]
    subprocess.run([clang, *FLAGS, optimization, f'-I{ROOT}/include', f'-I{ROOT}/src',
                    f'-I{ROOT}/tools', *files, '-o', target, '-lpthread', '-lm', '-lsodium', '-llz4'], check=True)
    return target


def main():
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
