#!/usr/bin/env python3
"""Programs over roam/pastset.hpp, roam/roam.hpp and roam/tx.hpp, compiled with all warnings and run.

usage: run.py COMPILER SOURCE LIBRARY TOOL
"""
import json
import os
import re
import subprocess
import sys
import tempfile

STRICT = ['-std=c++17', '-O1', '-Wall', '-Wextra', '-Wpedantic', '-Wconversion', '-Wshadow', '-Werror']
# What does not compile, and what the compiler says of it.
REFUSED = {
    'roam::root<std::vector<int>>("a")': 'a root is bytes',
    'roam::sum(true)': 'sum is of integers, float or double',
    'roam::parallel_for(0, 1.5, [](double) {})': 'the bounds of parallel_for are integers',
    'roam::transaction([text = std::string()] {})': 'captures by value must have no destructor',
    'roam::transaction([] { return std::string(); })': 'returns must have no destructor',
    'roam::element<bool>::text()': 'no field: integers',
    'roam::element<std::vector<bool>>::text()': 'bool is no field',
    'roam::element<>::text()': 'a template has a field',
    'roam::element<std::array<double, 8000>>("a")': 'the tuple is too large',
    'roam::element<int>("a").move("text")': '',
}


def call(command, status=0, **how):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=60, **how)
    if (done.returncode == 0) != (status == 0):
        sys.exit(f'FAILED: {" ".join(command)}: status {done.returncode}\n{done.stdout[-3000:]}')
    return done.stdout


def attached(tool, program, out, env):
    """With a server of elements."""
    env = {**env, 'ROAM_PS_KEY': os.path.join(out, 'key')}
    with subprocess.Popen([tool, 'past', 'serve', os.path.join(out, 'socket')], env=env, text=True,
                          stdout=subprocess.PIPE) as server:
        try:
            address = server.stdout.readline().split()[-1]
            call([program, address], env=env)
        finally:
            server.terminate()


def main():
    compiler, source, library, tool = sys.argv[1:]
    env = {key: value for key, value in os.environ.items() if not key.startswith('ROAM_')}
    env['LD_LIBRARY_PATH'] = os.path.dirname(library)
    include = ['-I', os.path.join(source, 'include')]
    with tempfile.TemporaryDirectory(prefix='roam-cxx-') as out:
        def build(text):
            program = os.path.join(out, os.path.basename(text) + '.out')
            call([compiler, *STRICT, *include, text, '-o', program, library, '-pthread'])
            return program

        past = build(os.path.join(source, 'tests', 'cxx', 'past.cpp'))
        call([past], env=env)
        for nodes in ('2', '3'):
            said = call([tool, 'run', '-n', nodes, past], env=env)
            if said.count('ended in order') != int(nodes):
                sys.exit(f'FAILED: {said}')
        said = call([tool, 'run', '-n', '3', build(os.path.join(source, 'apps', 'past', 'pi.cpp'))],
                    env=env)
        if not re.fullmatch(r'pi is about 3\.14\d\n', said):
            sys.exit(f'FAILED: pi: {said}')
        heap = build(os.path.join(source, 'tests', 'cxx', 'heap.cpp'))
        primes = build(os.path.join(source, 'apps', 'heap', 'primes.cpp'))
        for how in ({}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_THREADS': '3'}, {'ROAM_CHAOS': '1'}):
            call([heap, '3'], env={**env, **how})
            said = call([primes, '3'], env={**env, **how})
            right = '17984 primes below 200000, 4 endings'
            if sorted(re.sub(r'^\d+ ms', 'some ms', line) for line in said.splitlines()) != \
                    [right, 'some ms on 3 nodes']:
                sys.exit(f'FAILED: primes {how}: {said}')
        known = json.loads(call([tool, 'info', 'protocols', '--json'], env=env))['protocols']
        steps_by = next(each['name'] for each in known if 'transactions' in each['properties'])
        steps = build(os.path.join(source, 'tests', 'cxx', 'tx.cpp'))
        for how in ({}, {'ROAM_TRANSPORT': 'udp'}, {'ROAM_CHAOS': '1'}, {'ROAM_TX_READS': 'exact'}):
            call([steps, '2'], env={**env, **how, 'ROAM_PROTOCOL': steps_by})
        attached(tool, build(os.path.join(source, 'tests', 'cxx', 'attached.cpp')), out, env)
        for expression, why in REFUSED.items():
            text = os.path.join(out, 'refused.cpp')
            with open(text, 'w', encoding='utf-8') as file:
                file.write(f'#include <roam/roam.hpp>\n#include <roam/tx.hpp>\nvoid f() {{ {expression}; }}\n')
            said = call([compiler, *STRICT, *include, '-fsyntax-only', text], status=1)
            if why not in said:
                sys.exit(f'FAILED: {expression}: {said[-2000:]}')
    print('ok')


if __name__ == '__main__':
    main()
