#!/usr/bin/env python3
"""Installs a build into an empty directory and uses it as a user would, by pkg-config alone.

usage: run.py BUILD SOURCE VERSION PROGRAM [few | CHECK...]

few: some compilers, standards and headers of each check, which `quick` has time for.
"""
import glob
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

STRICT = ['-Wall', '-Wextra', '-Werror']
COMPILERS = {'gcc': [], 'clang': []}
COMPILERS_CXX = {'g++': ['-x', 'c++'], 'clang++': ['-x', 'c++']}
NAMES_CXX = ('pastset', 'roam')
STANDARDS_CXX = ('-std=c++17', '-std=c++20', '-std=c++2b')
MANUALS = ['man1/roam.1', 'man3/roam.3', 'man3/roam-pastset.3', 'man3/roam-tx.3', 'man3/roam-save.3', 'man3/roam-pastset-cxx.3',
           'man3/roam-python.3', 'man7/roam.7', 'man7/roam-parmacs.7']
CMAKE = '''
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(roam %s REQUIRED)
foreach(kind roam static)
  add_executable(by_${kind} program.c)
  target_link_libraries(by_${kind} PRIVATE roam::${kind})
endforeach()
if(NOT EXISTS "${roam_PARMACS}" OR NOT EXISTS "${roam_PARMACS_PTHREAD}")
  message(FATAL_ERROR "no macro files")
endif()
'''
SUBPROJECT = '''
project('user', 'c', default_options : ['buildtype=plain', 'warning_level=0'])
roam = dependency('roam', fallback : 'roam')
assert(import('fs').is_file(roam.get_variable('parmacs')))
executable('program', 'program.c', dependencies : roam)
'''


class Wrong(Exception):
    """What is not as it should be."""


def call(command, **how):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **how)
    if done.returncode != 0:
        raise Wrong(f'{" ".join(command)}: status {done.returncode}\n{done.stdout[-2000:]}')
    return done.stdout


class Installed:
    """A build, installed below `root`."""

    def __init__(self, build, source, version, program, root, few):
        self.source, self.version, self.root, self.few = source, version, root, few
        self.program = program
        self.out = os.path.join(root, 'out')
        self.moved = []
        os.mkdir(self.out)
        call(['meson', 'install', '-C', build, '--no-rebuild', '--destdir', root])
        configs = glob.glob(f'{root}/**/pkgconfig/roam.pc', recursive=True)
        if len(configs) != 1:
            raise Wrong(f'roam.pc: found {configs}')
        self.libraries = os.path.dirname(os.path.dirname(configs[0]))
        # Of other packages' files there is none: the makers of roam had them, users need not.
        self.env = {**os.environ, 'PKG_CONFIG_LIBDIR': os.path.dirname(configs[0]),
                    'LD_LIBRARY_PATH': self.libraries}
        prefix = self.config('--variable=prefix')[0]
        self.moved = [f'--define-variable=prefix={root}{prefix}']

    def config(self, *arguments):
        return call(['pkg-config', *self.moved, *arguments, 'roam'], env=self.env).split()

    def build(self, compiler, options, *link):
        """Compiles and links; the program."""
        program = os.path.join(self.out, 'program')
        if os.path.exists(program):
            os.unlink(program)
        call([compiler, *STRICT, *options, '-o', program, *link], env=self.env)
        return program

    def run(self, program, *arguments):
        env = {key: value for key, value in self.env.items() if not key.startswith('ROAM_')}
        return call([program, *arguments], env=env, timeout=30)

    def ways(self, step, *factors):
        """The product; with `few`, each step-th of it."""
        return list(itertools.product(*factors))[::step if self.few else 1]

    # ---------------------------------------------------------------------------------- checks

    def check_programs(self):
        """A program in C and in C++, with the shared library and with the static one."""
        wanted = f'roam {self.version}: 6\n'
        compilers = {**COMPILERS, **COMPILERS_CXX}.items()
        for (compiler, language), more in self.ways(3, compilers, ([], ['-static'])):
            flags = self.config('--cflags', '--libs', *(['--static'] if more else []))
            program = self.build(compiler, [*more, *language, self.program, '-x', 'none'], *flags)
            said = self.run(program)
            if said != wanted:
                raise Wrong(f'{compiler} {more}: said {said!r}')
            needs = 'libroam.so.0' in call(['readelf', '-d', program])
            if needs == bool(more):
                raise Wrong(f'{compiler} {more}: needs libroam.so.0: {needs}')

    def check_headers(self):
        """Each header by itself, in C and C++."""
        headers = sorted(glob.glob(f'{self.root}/**/include/roam/*.h', recursive=True))
        if [os.path.basename(header) for header in headers] != \
                ['dp.h', 'pastset.h', 'protocol.h', 'protocol_home.h', 'protocol_tx.h', 'roam.h', 'save.h',
                 'transport.h', 'tx.h']:
            raise Wrong(f'headers: {headers}')
        compilers = [(compiler, ['-std=c11']) for compiler in COMPILERS] + \
            [(compiler, [*language, standard]) for compiler, language in COMPILERS_CXX.items()
             for standard in ('-std=c++11', '-std=c++20')]
        flags = self.config('--cflags')
        for header, (compiler, language) in self.ways(5, headers, compilers):
            name = os.path.basename(header)
            text = os.path.join(self.out, 'header.c')
            with open(text, 'w', encoding='utf-8') as file:
                file.write(f'#include <roam/{name}>\n#include <roam/{name}>\n')
            call([compiler, *STRICT, '-Wpedantic', *language, '-fsyntax-only', text, *flags], env=self.env)

    def check_cxx(self):
        """Each C++ header by itself, in each standard that it is for; `quick` has no time for all: each takes a
        second."""
        ways = zip(COMPILERS_CXX, ('-std=c++17', '-std=c++20'), NAMES_CXX)
        self.cxx(ways if self.few else itertools.product(COMPILERS_CXX, STANDARDS_CXX, NAMES_CXX))

    def cxx(self, ways):
        for compiler, standard, name in ways:
            text = os.path.join(self.out, 'header.cpp')
            with open(text, 'w', encoding='utf-8') as file:
                file.write(f'#include <roam/{name}.hpp>\n' * 2)
            call([compiler, *STRICT, '-Wpedantic', '-Wconversion', '-Wshadow', standard,
                  '-fsyntax-only', text, *self.config('--cflags')], env=self.env)

    def check_cxx_before(self):
        """Before C++17 it says so, and nothing else."""
        for compiler, name in itertools.product(COMPILERS_CXX, NAMES_CXX):
            done = subprocess.run([compiler, '-std=c++14', '-fsyntax-only', '-x', 'c++', '-',
                                   *self.config('--cflags')], env=self.env, text=True, check=False,
                                  input=f'#include <roam/{name}.hpp>\n', stderr=subprocess.PIPE)
            if done.returncode == 0 or done.stderr.count('error:') != 1 or \
                    'C++17 or later' not in done.stderr:
                raise Wrong(f'{compiler} -std=c++14: {done.stderr[:500]}')

    def project(self, name, text, described):
        """The folder of a project of a user's that builds program.c."""
        folder = os.path.join(self.out, name)
        os.mkdir(folder)
        shutil.copy(self.program, os.path.join(folder, 'program.c'))
        with open(os.path.join(folder, described), 'w', encoding='utf-8') as file:
            file.write(text)
        return folder

    def check_cmake(self):
        """A project that finds the package, by the file for CMake alone."""
        if shutil.which('cmake') is None:
            print('skip: cmake: there is no cmake')
            return
        version = '.'.join(self.version.split('.')[:2])
        folder = self.project('cmake', CMAKE % version, 'CMakeLists.txt')
        where = os.path.dirname(glob.glob(f'{self.root}/**/roamConfig.cmake', recursive=True)[0])
        call(['cmake', '-S', folder, '-B', f'{folder}/build', f'-Droam_DIR={where}'], env=self.env)
        call(['cmake', '--build', f'{folder}/build'], env=self.env)
        for kind in ('roam', 'static'):
            said = self.run(f'{folder}/build/by_{kind}')
            if said != f'roam {self.version}: 6\n':
                raise Wrong(f'{kind}: said {said!r}')

    def subproject(self):
        """
        A project of Meson's with roam in its tree, which has few of the protocols: its blocks lie
        where those of a build with all do.  Not among the quick ones, for it builds all.
        """
        folder = self.project('subproject', SUBPROJECT, 'meson.build')
        os.mkdir(f'{folder}/subprojects')
        os.symlink(self.source, f'{folder}/subprojects/roam')
        tool = glob.glob(f'{self.root}/**/bin/roam', recursive=True)[0]
        said = json.loads(self.run(tool, 'info', 'protocols', '--json'))
        beside = [each['name'] for each in said['protocols']
                  if not {'one_heap', 'transactions'} & set(each['properties'])]
        few = [said['default'], beside[-1]]
        call(['meson', 'setup', f'-Droam:protocols={",".join(few)}', f'{folder}/build', folder],
             env=os.environ)
        call(['ninja', '-C', f'{folder}/build', 'program'])
        if self.run(f'{folder}/build/program') != f'roam {self.version}: 6\n':
            raise Wrong('the program of a project with roam as its subproject')
        whole = self.build('gcc', [self.program], *self.config('--cflags', '--libs'))
        lie = [self.run(where, *few) for where in (f'{folder}/build/program', whole)]
        if lie[0] != lie[1] or len(set(lie[0].split())) != 3:
            raise Wrong(f'blocks under {few}: {lie}')

    def check_symbols(self):
        """The shared libraries show roam_* and nothing else; one can be loaded late."""
        for name in ('libroam.so.0', 'libroam-late.so.0'):
            library = os.path.join(self.libraries, name)
            shown = re.findall(r' [A-Z] (\w+)', call(['nm', '-D', '--defined-only', library]))
            strange = [symbol for symbol in shown
                       if not re.match(r'(roam_[a-z_]+|ROAM_[\d.]+)$', symbol)]
            if strange or 'roam_version' not in shown:
                raise Wrong(f'{name} shows {strange or shown}')
        late = call(['readelf', '-dlW', library])
        static_tls = re.search(r'TLS +\w+ \w+ \w+ \w+ (\w+)', late)
        if 'jemalloc' in late or int(static_tls.group(1), 16) > 256 or 'NODELETE' not in late:
            raise Wrong(f'{library}: {late}')

    def check_refused(self):
        """Configuring for another processor, or pages of another size, ends with one line."""
        getconf, cross = os.path.join(self.out, 'getconf'), os.path.join(self.out, 'cross')
        with open(getconf, 'w', encoding='utf-8') as file:
            file.write('#!/bin/sh\necho 65536\n')
        os.chmod(getconf, 0o755)
        with open(cross, 'w', encoding='utf-8') as file:
            file.write("[binaries]\nc = 'gcc'\n[host_machine]\nsystem = 'linux'\n"
                       "cpu_family = 'aarch64'\ncpu = 'armv8'\nendian = 'little'\n")
        env = {**os.environ, 'PATH': f'{self.out}:{os.environ["PATH"]}'}
        for (line, more), in self.ways(2, (('not on linux on aarch64', ['--cross-file', cross]),
                                           ('pages of 4096 bytes', []))):
            done = subprocess.run(['meson', 'setup', *more, f'{self.out}/refused', self.source],
                                  env=env, text=True, stdout=subprocess.PIPE, check=False)
            if done.returncode == 0 or done.stdout.count('ERROR: ') != 1 or \
                    not re.search(f'ERROR: .*{line}', done.stdout):
                raise Wrong(f'meson setup: {done.stdout[-800:]}')
            shutil.rmtree(f'{self.out}/refused')

    def check_macros(self):
        """A SPLASH-2 program, by the macro file that pkg-config names."""
        for (variable, arguments), in self.ways(2, (('parmacs', ['--cflags', '--libs']), ('parmacs_pthread', []))):
            macros = self.config(f'--variable={variable}')[0]
            text = os.path.join(self.out, 'lu.c')
            with open(text, 'w', encoding='utf-8') as file:
                file.write(call(['m4', '-s', '-Ulen', '-Uindex', '-I',
                                 os.path.join(self.source, 'apps'), macros,
                                 os.path.join(self.source, 'apps', 'splash2', 'lu', 'lu.C')]))
            flags = self.config(*arguments) if arguments else ['-pthread']
            said = self.run(self.build('gcc', ['-O2', text], *flags, '-lm'), '-p2', '-n64', '-t')
            if 'verified ok' not in said:
                raise Wrong(f'lu with {variable}: {said}')

    def check_page_size(self):
        """MAIN_ENV and EXTERN_ENV define PAGE_SIZE as programs do; a like definition is silent."""
        used = 'char page[PAGE_SIZE == 4096 ? 1 : -1];\n'
        text = {'used': used, 'later': f'#define PAGE_SIZE 4096\n{used}',
                'user.h': f'#include <sys/user.h>\n{used}'}
        options = (['-std=c99', '-D_XOPEN_SOURCE=600'], ['-std=gnu89'], ['-std=gnu99', '-fcommon'], [])
        macros = [self.config(f'--variable={variable}')[0] for variable in ('parmacs', 'parmacs_pthread')]
        sources = [f'{env}\n{more}' for env in ('MAIN_ENV', 'EXTERN_ENV') for more in text.values()] + \
            [f'#define PAGE_SIZE 4096\n{env}\n{used}' for env in ('MAIN_ENV', 'EXTERN_ENV')]
        for file, source, compiler in self.ways(5, macros, sources, COMPILERS):
            expanded = call(['m4', '-Ulen', '-Uindex', file, '-'], input=source)
            call([compiler, *STRICT, *options[len(source) % 4], '-fsyntax-only', '-x', 'c', '-',
                  *self.config('--cflags')], input=expanded, env=self.env)

    def every_compare(self):
        """The tool that was installed finds its comparison, and the comparison its tool."""
        text = os.path.join(self.out, 'program.c')
        with open(text, 'w', encoding='utf-8') as file:
            file.write(call(['m4', '-s', '-Ulen', '-Uindex', '-I',
                             os.path.join(self.source, 'apps'),
                             self.config('--variable=parmacs')[0],
                             os.path.join(self.source, 'apps', 'splash2', 'fft', 'fft.C')]))
        program = self.build('gcc', ['-O2', text], *self.config('--cflags', '--libs'), '-lm')
        tool = glob.glob(f'{self.root}/**/bin/roam', recursive=True)[0]
        said = self.run(tool, 'compare', '--nodes', '2', '--repeat', '1', program, '-m10', '-t')
        if not re.search(r'^[\w-]+ +2 .* yes$', said, re.MULTILINE):
            raise Wrong(f'bin/roam compare: {said}')

    def check_manuals(self):
        """Every page is there; every function's name leads to one."""
        roots = glob.glob(f'{self.root}/**/man', recursive=True)
        if len(roots) != 1:
            raise Wrong(f'manuals: found {roots}')
        for name in MANUALS:
            with open(os.path.join(roots[0], name), encoding='utf-8') as file:
                if not re.search(r'^\.SH "?NAME', file.read(), re.MULTILINE):
                    raise Wrong(f'{name} is no manual page')
        links = glob.glob(f'{roots[0]}/man3/roam_*.3')
        lost = [link for link in links if not os.path.exists(link)]
        for name, page in (('roam_lock', 'roam.3'), ('roam_ps_move', 'roam-pastset.3'), ('roam_tx_retry', 'roam-tx.3')):
            if lost or os.readlink(f'{roots[0]}/man3/{name}.3') != page:
                raise Wrong(f'manuals: {lost or name}')
        for name, words in (('cxx', ('try_observe', 'class canceller', 'cancelled_by')),
                            ('python', self.python_names())):
            with open(glob.glob(f'{roots[0]}/man3/roam-*{name}.3')[0], encoding='utf-8') as file:
                text = file.read()
            missing = [word for word in words if word not in text]
            if missing or ' detail' in text or '_lib.' in text:
                raise Wrong(f'manuals: {name}: {missing}')

    def python_names(self):
        with open(os.path.join(self.source, 'python/roam/__init__.py'), encoding='utf-8') as file:
            listed = re.search(r'^__all__ = \[(.*?)\]', file.read(), re.MULTILINE | re.DOTALL).group(1)
        return [name for name in re.findall(r"'(\w+)'", listed)
                if name not in ('__version__', 'State')]

    def check_documents(self):
        """What the headers point to is installed, and what is to be completed by shells."""
        shared = os.path.dirname(glob.glob(f'{self.root}/**/share/man', recursive=True)[0])
        for header in glob.glob(f'{self.root}/**/include/roam/*', recursive=True):
            with open(header, encoding='utf-8') as file:
                for path in set(re.findall(r'\bdocs/[\w-]+\.md', file.read())):
                    if not os.path.exists(f'{shared}/doc/roam/{path}'):
                        raise Wrong(f'{header} points to {path}, which is not installed')
        for path in ('bash-completion/completions/roam', 'zsh/site-functions/_roam'):
            if not os.path.exists(f'{shared}/{path}'):
                raise Wrong(f'{path} is not installed')

    def check_tool(self):
        """The tool that was installed says what it is and starts a program."""
        tool = glob.glob(f'{self.root}/**/bin/roam', recursive=True)
        if len(tool) != 1 or self.version not in self.run(tool[0], 'info'):
            raise Wrong(f'bin/roam: {tool}')
        if self.run(tool[0], 'run', '-n', '2', 'sh', '-c', 'echo here') != 'here\nhere\n':
            raise Wrong('bin/roam run')


def main():
    build, source, version, program, *wanted = sys.argv[1:]
    few = wanted == ['few']
    root = tempfile.mkdtemp(prefix='roam-install-')
    failed = 0
    try:
        installed = Installed(build, source, version, program, root, few)
        names = sorted(name for name in dir(installed) if name.startswith(('check_',) if few else ('check_', 'every_')))
        for name in names if few else wanted or names:
            try:
                getattr(installed, name)()
                print(f'ok {name}', flush=True)
            except Wrong as wrong:
                failed += 1
                print(f'FAILED {name}: {wrong}', flush=True)
    except Wrong as wrong:
        failed += 1
        print(f'FAILED: {wrong}')
    finally:
        shutil.rmtree(root)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
