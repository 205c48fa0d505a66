#!/usr/bin/env python3
"""The Python package, installed by pip into an empty directory and used under roam run.

usage: run.py SOURCE LIBRARY TOOL FUNCTIONS
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

# Waits; hears of a signal that raises nothing, waits on, and is ended by Ctrl-C.
WAITS = '''
import signal, sys, threading, roam
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
waits = roam.Element('waits', 'u8')
other = roam.Element('other', 'u8')
def signals():
    for number in (signal.SIGUSR1, signal.SIGINT):
        while waits.state().waiting != 1 or (number == signal.SIGINT and not heard):
            pass
        signal.pthread_kill(threading.main_thread().ident, number)
threading.Thread(target=signals, daemon=True).start()
try:
    waits.observe() if sys.argv[1] == 'observe' else other.mob(9, source=waits)
except KeyboardInterrupt:
    print('interrupted', len(heard), other.state().last)
'''
# What is no page of the heap goes on to the handler that was there before.
FAULTS = '''
import faulthandler, roam
faulthandler.enable()
roam.start()
roam.Element('pages', 'u8', storage='pages').mob(1)
faulthandler._sigsegv()
'''
# One node makes one array more; with threads of NumPy's, which wait for work, though on one processor it has none.
HANGS = '''
import threading, numpy, roam
numpy.ones((200, 200)) @ numpy.ones((200, 200))
if roam.node() == 0:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
for _ in range(2 - roam.node()):
    roam.array(10, 'f8')
roam.barrier()
'''
# Faults that apply diffs.
PAGES = '''
import roam
roam.start()
pages = [roam.Element(f'pages {node}', 'u8[]', storage='pages') for node in range(roam.nodes())]
for i in range(1, 31):
    pages[roam.node()].move(bytes([i]) * 9000)
    roam.barrier()
    for element in pages:
        assert element.observe(number=i, peek=True) == (bytes([i]) * 9000,)
    roam.barrier()
print('all seen')
'''


class Wrong(Exception):
    """What is not as it should be."""


def interpreter():
    """This Python, or Debian's: one that has what tools/setup installs."""
    for python in (sys.executable, '/usr/bin/python3'):
        if subprocess.run([python, '-c', 'import setuptools, wheel, pip, cffi, matplotlib, numpy'], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return python
    sys.exit('FAILED: no Python with cffi, matplotlib, numpy, pip, setuptools, wheel: run tools/setup test')


class Package:
    def __init__(self, source, library, tool, functions, root):
        self.source, self.tool, self.root = source, tool, root
        self.interpreter = interpreter()
        self.place = os.path.join(root, 'installed')
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(('ROAM_', 'PYTHON'))}
        self.env['LD_LIBRARY_PATH'] = os.path.dirname(os.path.abspath(library))
        self.env['PYTHONPATH'] = self.place
        self.env['LONGEST'] = os.path.abspath(functions)
        self.install()

    def protocol(self, **values):
        """The first that declares these, or a property of them."""
        known = json.loads(self.call(self.tool, 'info', 'protocols', '--json'))['protocols']
        return next(each['name'] for each in known
                    if all(each.get(key, key in each['properties']) == value
                           for key, value in values.items()))

    def call(self, *command, status=0, **env):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=100, env={**self.env, **env}, cwd=self.root)
        if done.returncode != status:
            raise Wrong(f'{" ".join(command)}: status {done.returncode}\n{done.stdout[-3000:]}')
        return done.stdout

    def python(self, nodes, *arguments, status=0, **env):
        return self.call(self.tool, 'run', '-n', str(nodes), self.interpreter, *arguments,
                         status=status, **env)

    def install(self):
        """From a copy: setuptools writes beside what it builds."""
        checkout = os.path.join(self.root, 'python')
        shutil.copytree(os.path.join(self.source, 'python'), checkout,
                        ignore=shutil.ignore_patterns('__pycache__', 'build', '*.egg-info'))
        self.call(self.interpreter, '-m', 'pip', 'install', '--quiet', '--no-deps', '--no-index',
                  '--no-build-isolation', '--disable-pip-version-check', '--root-user-action=ignore',
                  '--target', self.place, checkout)

    # ---------------------------------------------------------------------------------- checks

    def check_declarations(self):
        """What cffi is told is what the headers say."""
        self.call(self.interpreter, os.path.join(self.source, 'python', 'cdef.py'), '--check')

    def check_program(self):
        program = os.path.join(self.source, 'tests', 'python', 'past.py')
        if self.call(self.interpreter, program) != 'node 0 of 1 ended in order\n':
            raise Wrong('alone')
        for nodes, env in ((2, {}), (3, {
                'ROAM_FAULT': 'sigsegv', 'ROAM_PROTOCOL': self.protocol(writers='one', evicts=True)})):
            said = self.python(nodes, program, **env)
            if said.count('ended in order') != nodes or said.count('\n') != nodes:
                raise Wrong(said)

    def check_arrays(self):
        """Arrays and locks under each model, on nodes of one host and as of several."""
        program = os.path.join(self.source, 'tests', 'python', 'arrays.py')
        for nodes, env in ((1, {}), (3, {}), (2, {'ROAM_TRANSPORT': 'udp'}),
                           (2, {'ROAM_FAULT': 'sigsegv'}),
                           (3, {'ROAM_PROTOCOL': self.protocol(model='ScC')}),
                           (2, {'ROAM_PROTOCOL': self.protocol(model='SC')})):
            said = self.python(nodes, program, **env)
            if 'arrays right\n' not in said or said.count('\n') > 2:
                raise Wrong(f'{nodes} {env}: {said}')

    def check_heat(self):
        """The example, whose sum the number of nodes may change in its last digits only."""
        heat = os.path.join(self.source, 'apps', 'heap', 'heat.py')
        for nodes in (1, 2, 3):
            said = self.python(nodes, heat, '120', '30')
            if 'heat 30334.772 after 30 steps\n' not in said:
                raise Wrong(f'{nodes}: {said}')

    def check_signals(self):
        # Several times: the program once ended, in one run of 50, while the package's thread was in C.
        for operation, moved in (('observe', 0), ('mob', 1)) * 8:
            said = self.call(self.interpreter, '-c', WAITS, operation)
            if said != f'interrupted 1 {moved}\n':
                raise Wrong(f'{operation}: {said}')

    def check_faults(self):
        said = self.call(self.interpreter, '-c', FAULTS, status=-signal.SIGSEGV)
        if 'Fatal Python error: Segmentation fault' not in said:
            raise Wrong(said)

    def check_faulthandler(self):
        """Its alternate stack is small, and lies beside what malloc has handed out."""
        for transport in ('shm', 'udp'):
            said = self.python(2, '-X', 'faulthandler', '-c', PAGES,
                               ROAM_PROTOCOL=self.protocol(keeps_twins=True),
                               ROAM_TRANSPORT=transport)
            if said != 'all seen\n' * 2:
                raise Wrong(said)

    def check_attached(self):
        """Programs of no job, by a server of elements; and a child that attaches for itself."""
        program = os.path.join(self.source, 'tests', 'python', 'attached.py')
        env = {'ROAM_PS_KEY': os.path.join(self.root, 'key')}
        with subprocess.Popen([self.tool, 'past', 'serve', os.path.join(self.root, 'socket')],
                              env={**self.env, **env}, text=True, stdout=subprocess.PIPE) as server:
            try:
                address = server.stdout.readline().split()[-1]
                said = self.call(self.interpreter, program, address, str(server.pid), **env)
            finally:
                server.kill()
        if said != 'child in order\nattached in order\n':
            raise Wrong(said)

    def check_failure(self):
        """A node that fails ends the job; where there is no library the error says so."""
        said = self.python(2, '-c', 'import roam; roam.barrier(); 1 / roam.node(); roam.barrier()',
                           status=1)
        if 'ZeroDivisionError' not in said:
            raise Wrong(said)
        broken = os.path.join(self.root, 'broken')
        os.mkdir(broken)
        with open(os.path.join(broken, 'libroam-late.so.0'), 'wb'):
            pass
        said = self.call(self.interpreter, '-c', 'import roam', status=1, LD_LIBRARY_PATH=broken)
        if not re.search('^ImportError: .*too short.*; roam is to be installed', said, re.MULTILINE):
            raise Wrong(said)

    def check_hang(self):
        """A node that does not come ends the job, though there are threads that roam does not know."""
        said = self.python(2, '-c', HANGS, status=1, OPENBLAS_NUM_THREADS='4')
        if not re.search('^roam: node 0: no thread of the job can go on', said, re.MULTILINE):
            raise Wrong(said)

    def check_plot(self):
        picture = os.path.join(self.root, 'latency.png')
        said = self.python(2, os.path.join(self.source, 'apps', 'past', 'latency.py'), picture)
        if len(re.findall(r'^(local|remote) .* bytes: median .* us, most .* us$', said,
                          re.MULTILINE)) != 6:
            raise Wrong(said)
        if os.path.getsize(picture) < 5000:
            raise Wrong('no picture')


def main():
    source, library, tool, functions = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix='roam-python-') as root:
        package = Package(source, library, os.path.abspath(tool), functions, root)
        for name in sorted(name for name in dir(package) if name.startswith('check_')):
            try:
                getattr(package, name)()
                print(f'ok {name}', flush=True)
            except Wrong as wrong:
                failed += 1
                print(f'FAILED {name}: {wrong}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
