"""Checks of programs that create their nodes (create.c), and of what they read, for every launcher."""
import subprocess
import tempfile

from harness import Wrong

AGAIN = "roam: nodes cannot be created again: the launcher's have ended"


def fed(command):
    """The same with what create.c reads."""
    return ['sh', '-c', 'echo 4711 | exec "$0" "$@"', *(str(word) for word in command)]


def fed_much(command):
    """The same for its way `sum`."""
    return ['sh', '-c', '{ echo 4711; seq 60000; } | exec "$0" "$@"',
            *(str(word) for word in command)]


def fed_for_ever(command):
    """The same with an input that does not end."""
    return ['sh', '-c', '{ echo 4711; exec yes; } | exec "$0" "$@"',
            *(str(word) for word in command)]


def created(result, nodes):
    """Every node ran main up to CREATE, and only node 0's counts and is heard."""
    right = sorted(['said once', 'the end', *(f'node {node} was here' for node in range(nodes))])
    if result.status != 0 or sorted(result.out.splitlines()) != right:
        raise Wrong(f'status {result.status}, {result.out!r}, {result.err[-900:]!r}')


def not_again(result, also=()):
    """What launched nodes cannot do is an error, and the program's to deal with.  `also`: statuses
    of a launcher that kills the others, who have ended in order, and tells theirs."""
    lines = [line for line in result.err.splitlines() if line.startswith('roam: nodes')]
    if result.status not in (3, *also) or lines != [AGAIN]:
        raise Wrong(f'status {result.status}, stderr {result.err!r}')


def all_read(command, nodes, check):
    """More than pipes hold; every node has all of it."""
    with tempfile.NamedTemporaryFile(mode='w') as file:
        file.write('0123456789abcde\n' * 20000)
        file.flush()
        result = check(['sh', '-c', f'cat {file.name} | exec "$0" "$@"', *command])
        right = subprocess.run(['sh', '-c', f'cksum < {file.name}'], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
    if result.out != right * nodes:
        raise Wrong(f'{result.out!r}, expected {nodes} times {right!r}')
