"""What the tests of real processes share: the protocols by kind, and ends of programs."""
from harness import (Wrong, default_protocol, engines, expect, kinds, launched, program, protocols,
                     right, those)

ENGINES = engines()
MODELS = protocols()
DEFAULT = default_protocol()
KINDS = kinds()
ALL = sorted(MODELS, key=lambda name: name != DEFAULT)
PROTOCOLS = [name for name in ALL if not name.endswith('-rc')]  # NAME-rc is NAME's file again
# Those whose nodes have one heap, beside which there is no other.
ONE_HEAP = those('one_heap')
# Protocols whose transactions undo only pages under themselves, and those of one heap.
APART = ONE_HEAP + those('transactions')
SIGNALLED = 128


def expect_env(command, status, err, out, env):
    return expect(command, status, err, out, env=env)


def start_fails(env, line):
    """Whether the program forks its nodes or runs under roam run, it ends with one line."""
    expect([program('stranger'), 'start', '2'], 1, line, env=env)
    expect(launched(2, program('stranger'), 'start', '2'), 2, line, env=env)


def kernel_fails(env, line):
    result = expect([program('fft'), '-p2', '-m10'], 1, line, env=env)
    if 'verified' in result.out:
        raise Wrong('it went on')


SCOPED = [name for name in ALL if MODELS[name] == 'ScC']


def unshown(check, protocol):
    return (f'^roam: ROAM_CHECK={check}: needs the writers\' diffs, which ROAM_PROTOCOL={protocol} does '
            f'not show; take ROAM_PROTOCOL={DEFAULT}$')


def with_option(nodes, words, *command):
    return [program('roam'), 'run', '-n', str(nodes), *words, *command]


ENDS = {
    'kill': (SIGNALLED + 9, r'was killed by signal 9 \(Killed\)'),
    'abort': (SIGNALLED + 6, r'was killed by signal 6'),
    'exit3': (3, 'exited with status 3'),
    '_exit3': (3, 'exited with status 3'),
    '_exit0': (1, r'(exited|ended)'),
    'null': (SIGNALLED + 11, r'was killed by signal 11'),
    'wild': (SIGNALLED + 11, r'was killed by signal 11'),
    'beyond': (SIGNALLED + 11, r'was killed by signal 11'),
    'leap': (SIGNALLED + 11, r'was killed by signal 11'),
}
WAITS = {'barrier': 'at roam_barrier_all', 'partial': 'at barrier 0x', 'lock': 'in lock 0x',
         'flag': 'for flag 0x', 'reduce': 'in roam_reduce', 'cond': 'waited',
         'end': 'at the end of the job', 'compute': ''}


def frees(how, rounds, env):
    """Runs in a heap that is too small for all blocks that the rounds allocate."""
    words = [program('frees'), how, '3', str(rounds)]
    right(words if how == 'fork' else launched(3, *words), f'{rounds} rounds of frees right',
          {'ROAM_HEAP': '96M' if rounds < 100 else '16M', 'ROAM_LOG': 'error', **env})  # it frees what is no block
