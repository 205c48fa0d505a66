"""Checks of programs that create their nodes (create.c), and of what they read, for every launcher."""
import re
import subprocess
import tempfile

from harness import Wrong

AGAIN = "roam: nodes cannot be created again: the launcher's have ended"


def fed(command):
    """The command with the input that create.c reads."""
    return ['sh', '-c', 'echo 4711 | exec "$0" "$@"', *(str(word) for word in command)]


def fed_much(command):
    """The command with the input that create.c reads in its mode `sum`."""
    return ['sh', '-c', '{ echo 4711; seq 60000; } | exec "$0" "$@"',
            *(str(word) for word in command)]


def fed_for_ever(command):
    """The command with an input that does not end."""
    return ['sh', '-c', '{ echo 4711; exec yes; } | exec "$0" "$@"',
            *(str(word) for word in command)]


def created(result, nodes):
    """Every node ran main up to CREATE; only what node 0 did there counts and is heard."""
    right = sorted(['said once', 'the end', *(f'node {node} was here' for node in range(nodes))])
    if result.status != 0 or sorted(result.out.splitlines()) != right:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err[-900:]!r}')


def early(result):
    """The program began as one that creates no nodes: one line says so, and what to do."""
    lines = [line for line in result.err.splitlines() if line.startswith('roam:')]
    if result.status == 0 or 'the end' in result.out or len(lines) != 1 or \
            not re.search('^roam: .*nodes cannot be created here: .*; begin with roam_start_main$',
                          lines[0]):
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err[-900:]!r}')


def one_pi(result):
    """README's first program prints once what it has found."""
    if result.status != 0 or result.out != 'pi is 3.141592654\n' or result.err != '':
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err[-900:]!r}')


def either(result, nodes):
    """either.c: all nodes are heard, also with what they said before they knew their numbers."""
    right = sorted(['before'] * nodes +
                   [f'node {node} of {nodes} is right' for node in range(nodes)])
    if result.status != 0 or sorted(result.out.splitlines()) != right or result.err != '':
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err[-900:]!r}')


def not_again(result, also=()):
    """Asking launched nodes for what they cannot do is an error that the program must handle.
    `also`: statuses of a launcher that kills the others, though they ended in order, and reports
    theirs."""
    lines = [line for line in result.err.splitlines() if line.startswith('roam: nodes')]
    if result.status not in (3, *also) or lines != [AGAIN]:
        raise Wrong(f'status {result.status}, stderr {result.err!r}')


def all_read(command, nodes, check):
    """The input is longer than pipes hold; every node gets all of it."""
    with tempfile.NamedTemporaryFile(mode='w') as file:
        file.write('0123456789abcde\n' * 20000)
        file.flush()
        result = check(['sh', '-c', f'cat {file.name} | exec "$0" "$@"', *command])
        right = subprocess.run(['sh', '-c', f'cksum < {file.name}'], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
    if result.out != right * nodes:
        raise Wrong(f'{result.out!r}, expected {nodes} times {right!r}')
