#!/usr/bin/env python3
"""Jobs that hang: those of which no thread can go on end with the reason; of others SIGQUIT and
ROAM_HANG say what every thread waits for; no thread is judged that could still be helped.  What the
verdict looks at has a case that fails without it, in place of a mutant: threads that are not known
("stranger", "pooled", "a program that attaches"), that some of these cannot go on by themselves ("pool"),
messages under way, and whether each thread has found, after
the first look, that it has to wait ("stalled"); that a wait is over shows in what SIGQUIT says.

usage: hang.py [-k PART_OF_A_NAME] [GROUP]...
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from attached import Server
from harness import Wrong, expect, main, program, run, started, those

JUDGED = r'no thread of the job can go on;'
AT = r'0x[0-9a-f]+'
ENDS = {
    'barrier': rf'node 0 waited at barrier {AT} \(3 of 4 threads arrived\), node 1 waited at barrier',
    'many': rf'node 0 waited in 101 threads at barrier {AT} \(303 of 304 threads arrived\), node 1',
    'locks': rf'node 0 waited in lock {AT}, node 1 waited in lock {AT}',
    'cond': rf'node 0 waited for condition ({AT}).*; \1 is multi_hung\+{AT}',
    'tuple': rf'node 0 waited to observe a tuple of element wait, node 1 waited at barrier {AT} '
             r'\(2 of 3 threads arrived\)',
    'round': rf'node 0 waited at barrier {AT} \(1 of 3 threads arrived\), node 1 waited to observe '
             r'a tuple of element the sum of all that there ar\.\.\. \(2 of 3 participants wait\), node 2',
    'flag': r'node 0 waited at the end of the job \(1 of 3 threads arrived\), node 1 waited for flag',
}


def ends(start, how, env, nodes=3, err=None):
    expect(started(start, 'hung', start, nodes, how), 1,
           f'^roam: node 0: {JUDGED} {err or ENDS[how]}', env=env, timeout=30)


def goes_on(how, env=None):
    """A thread unknown to roam, a thread that computes, or a message under way may still help."""
    expect(started('fork', 'hung', 'fork', 3, how), out='went on', env=env)


def helped(command, env, help_it):
    """A program that attaches may bring a tuple at any time."""
    def act(_first, _pids):
        time.sleep(5)
        help_it()
    expect(command, out='went on', env=env, wanted=3, act=act)


def stalled():
    """A thread that does not check whether it may go on is not known to wait."""
    def act(_first, pids):
        time.sleep(0.5)
        os.kill(pids[1], signal.SIGWINCH)
    expect(started('fork', 'hung', 'fork', 3, 'stalled'), out='went on', wanted=3, act=act)


def served():
    with tempfile.TemporaryDirectory(prefix='roam-hang-') as where:
        env = {'HUNG_AT': f'{where}/socket', 'ROAM_PS_KEY': f'{where}/key'}
        helped(started('fork', 'hung', 'fork', 3, 'serve'), env, lambda: expect(
            [program('attached'), env['HUNG_AT'], 'move', '1'], env=env))


def attached_to():
    with Server() as server:
        helped(started('fork', 'hung', 'fork', 3, 'attach'),
               {**server.env, 'HUNG_AT': server.address}, lambda: server.expect('move', 1))


def says_server():
    with Server() as server:
        def ask(_first, pids):
            said = where(pids[0])
            server.expect('move', 1)
            return said
        says('fork', 3, 'attach', [TUPLE[0] + ' at a server', TUPLE[1]], ask,
             {**server.env, 'HUNG_AT': server.address})


def where(pid):
    return run([program('roam'), 'where', str(pid)]).out


def state(pid, thread=None):
    """The state of a process's first thread, or of another one: R runs, S sleeps, T is stopped."""
    with open(f'/proc/{pid}/task/{thread or pid}/stat', encoding='ascii') as file:
        return file.read().rpartition(')')[2].split()[0]


def pending(pid):
    """Whether SIGQUIT has been sent to a process, which has not taken it."""
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        sets = re.findall(r'^(?:Shd|Sig)Pnd:\s*(\w+)', file.read(), re.MULTILINE)
    return any(int(word, 16) & 1 << signal.SIGQUIT - 1 for word in sets)


def until_true(condition):
    while not condition():
        time.sleep(.01)


def stop(pid):
    """Stops a process: a thread of it may run on until it next gets a processor."""
    os.kill(pid, signal.SIGSTOP)
    until_true(lambda: all(state(pid, thread) == 'T' for thread in os.listdir(f'/proc/{pid}/task')))


def arrived(pids):
    """Waits until all nodes but the first wait; a fixed time would depend on the machine."""
    looks = 0
    while looks < 10:
        looks = looks + 1 if all(state(pid) == 'S' for pid in pids[1:]) else 0
        time.sleep(.05)


def says(start, nodes, how, lines, ask, env=None, until=None, count=None, prefix=()):
    """The job says what it waits for, each thread in a line, and goes on; `until` ends the
    computing."""
    said = []

    def act(first, pids):
        time.sleep(1)
        arrived(pids)
        said.extend((ask(first, pids) or '').splitlines())
        if until is not None:
            with open(until, 'x', encoding='ascii'):
                pass
    result = run([*prefix, *started(start, 'hung', start, nodes, how)], env=env, wanted=nodes, act=act)
    said.extend(result.err.splitlines())
    strange = [line for line in said if not any(re.fullmatch(like, line) for like in lines)]
    if result.status != 0 or 'went on' not in result.out or strange or len(said) != (count or nodes):
        raise Wrong(f'status {result.status}, said {said}, stderr {result.err!r}, out {result.out[-200:]!r}')


def says_where(start, nodes, how, lines, ask):
    """`ask` returns what the job says; node 0 computes until then, however slow the machine is."""
    with tempfile.TemporaryDirectory(prefix='roam-hang-') as directory:
        until = f'{directory}/until'
        says(start, nodes, how, lines, ask, {'HUNG_UNTIL': until}, until)


COMPUTES = [r'roam: node 0 \(pid \d+\) computes in 1 of 1 threads, at \S+\+0x[0-9a-f]+.*',
            rf'roam: node \d \(pid \d+\) waits at barrier {AT} \(2 of 3 threads arrived\)']

# One of two threads computes: the job also says where.
SOME = [r'roam: node 0 \(pid \d+\) computes in 1 of 2 threads, at \S+\+0x[0-9a-f]+.*',
        rf'roam: node \d \(pid \d+\) waits at barrier {AT} \(3 of 4 threads arrived\)']
# Waits that end by themselves count as waits.
UNTIL = [rf'roam: node 0 \(pid \d+\) waits for condition {AT} until a time',
         rf'roam: node 0 \(pid \d+\) waits in lock {AT} until a time', COMPUTES[1]]

# A thread that no transaction can hold: the system's number is what other tools name it by.
BLOCKED = [r'roam: node 0 \(pid \d+\) waits in roam_tx for its thread \d+ to stop',
           r'roam: node 0 \(pid \d+\) computes in 1 of 2 threads.*', COMPUTES[1]]

ANSWER = [r'roam: node 0 \(pid \d+\) waits for a page or an answer of another node', COMPUTES[1]]

TUPLE = [r'roam: node 0 \(pid \d+\) waits to observe a tuple of element wait', COMPUTES[1]]


# Takes a processor for .3 s of each .4 s, from threads of lower priority.
TAKES = '''
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except PermissionError:
    pass
print(flush=True)
while True:
    end = time.monotonic() + .3
    while time.monotonic() < end:
        pass
    time.sleep(.1)
'''


def where_crowded(_first, pids):
    """The place is told although the thread that computes has no processor most of the time."""
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(pids[0], {cpu})  # its first thread alone
    os.setpriority(os.PRIO_PROCESS, pids[0], 19)
    with subprocess.Popen([sys.executable, '-c', TAKES, str(cpu)], stdout=subprocess.PIPE) as taker:
        try:
            taker.stdout.readline()
            said = [where(pids[1]) for _ in range(5)]
            if taker.poll() is not None:
                raise Wrong(f'what takes the processor ended, with status {taker.returncode}')
        finally:
            taker.kill()
    if any(', at ' not in text for text in said):
        raise Wrong(f'{said}')
    return said[0]


def where_stopped(_first, pids):
    stop(pids[2])
    said = where(pids[0])
    os.kill(pids[2], signal.SIGCONT)
    if r' does not answer' not in said:
        raise Wrong(said)
    return re.sub('.* does not answer\n', '', said)


def says_page():
    """A load that waits for a node that is stopped."""
    with tempfile.TemporaryDirectory(prefix='roam-hang-') as directory:
        until = f'{directory}/until'

        def ask(_first, pids):
            stop(pids[2])
            with open(until, 'x', encoding='ascii'):
                pass
            while state(pids[0]) != 'S':
                time.sleep(.05)
            time.sleep(.2)
            said = where(pids[1])
            os.kill(pids[2], signal.SIGCONT)
            return re.sub('.* does not answer\n', '', said)
        says('fork', 3, 'page', ANSWER, ask, {'HUNG_UNTIL': until, 'ROAM_ONESIDED': '0'})


def said_by(pid):
    """What a process has written to its stderr, a file, by now."""
    with open(f'/proc/{pid}/fd/2', encoding='utf-8') as file:
        return file.read()


def quit_late(first, pids, send):
    """A SIGQUIT of all nodes that reaches the last one when the report is there: no other follows."""
    stop(pids[-1])
    send(first)
    until_true(lambda: ' does not answer\n' in said_by(first))
    if not pending(pids[-1]):
        raise Wrong('the last node did not get the signal')
    os.kill(pids[-1], signal.SIGCONT)
    until_true(lambda: not pending(pids[-1]))
    where(pids[-1])  # which it says after it has passed on what it has taken, if anything
    where(pids[0])


def says_late(start, send, prefix=()):
    with tempfile.TemporaryDirectory(prefix='roam-hang-') as directory:
        until = f'{directory}/until'

        def ask(first, pids):
            quit_late(first, pids, send)
        says(start, 3, 'compute', [*COMPUTES, r'roam: node 2 \(pid \d+\) does not answer'], ask,
             {'HUNG_UNTIL': until}, until, 4, prefix)


# Makes a terminal its own, and runs a command.
HAS_TERMINAL = 'import os, sys; os.open(sys.argv[1], os.O_RDWR); os.execv(sys.argv[2], sys.argv[2:])'


def says_typed(start):
    """Ctrl-\\: every process at the terminal gets the signal."""
    keys, terminal = os.openpty()
    try:
        says_late(start, lambda _: os.write(keys, b'\x1c'),
                  (sys.executable, '-c', HAS_TERMINAL, os.ttyname(terminal)))
    finally:
        os.close(keys)
        os.close(terminal)


def not_there():
    """A process that belongs to no job is reported as such, and goes on."""
    with subprocess.Popen(['sleep', '30']) as other:
        expect([program('roam'), 'where', str(other.pid)], 1,
               f'^roam: where: neither process {other.pid} nor one below it is in a job of roam$')
        if other.poll() is not None:
            raise Wrong('it was ended')
        other.kill()
    expect([program('roam'), 'where', str(other.pid)], 1, 'No such process$')


def own_handler():
    def act(first, _pids):
        time.sleep(1)
        os.kill(first, signal.SIGQUIT)
    expect(started('fork', 'hung', 'fork', 3, 'handler'), out='mine\n(.*\n)*went on', wanted=3,
           act=act)


def cases():
    for start, how, env in (('fork', 'barrier', {}), ('run', 'barrier', {}), ('fork', 'locks', {}),
                            ('run', 'locks', {'ROAM_TRANSPORT': 'udp'}),
                            ('fork', 'cond', {'ROAM_ONESIDED': '0'}), ('run', 'flag', {}),
                            ('fork', 'flag', {'ROAM_TRANSPORT': 'udp'}), ('fork', 'tuple', {}),
                            ('run', 'round', {}), ('fork', 'many', {})):
        yield (f'{how} {start} {env}', ends, start, how, env)
    yield ('barrier alone', ends, 'fork', 'barrier', None, 1,
           rf'node 0 waited at barrier ({AT}) \(1 of 2 threads arrived\); \1 is multi_hung\+{AT}$')
    yield ('cond alone', ends, 'fork', 'cond', None, 1, rf'node 0 waited for condition ({AT}); \1 is multi_hung\+{AT}$')
    yield ('tuple alone', ends, 'run', 'tuple', None, 1,
           'node 0 waited to observe a tuple of element wait$')
    for start in ('fork', 'run'):
        yield (f'pool {start}', ends, start, 'pool', None, 3, ENDS['barrier'])
    yield ('pool alone', ends, 'fork', 'pool', None, 1, r'node 0 waited at barrier ')
    yield ('stranger', goes_on, 'stranger')
    yield ('pooled', goes_on, 'pooled')
    yield ('compute', goes_on, 'compute')
    yield ('under way', goes_on, 'underway', {'ROAM_TRANSPORT': 'udp',
                                              'ROAM_FAULTY': 'cut=1>2@1s+6s'})
    yield ('stalled', stalled)
    yield ('a program that attaches', served)
    yield ('a server', attached_to)
    quit_first = lambda first, _: os.kill(first, signal.SIGQUIT)
    nothing = lambda *_: None
    yield ('SIGQUIT fork', says, 'fork', 3, 'compute', COMPUTES, quit_first)
    yield ('SIGQUIT run', says, 'run', 3, 'compute', COMPUTES, quit_first)
    yield ('SIGQUIT run, late at a node', says_late, 'run', lambda first: os.kill(first, signal.SIGQUIT))
    for start in ('fork', 'run'):
        yield (f'SIGQUIT {start}, typed, late at a node', says_typed, start)
    for start, env in (('fork', None), ('run', {'ROAM_TRANSPORT': 'udp'})):
        yield (f'SIGQUIT some {start}', says, start, 3, 'some', SOME, quit_first, env, None, 4)
        yield (f'SIGQUIT until {start}', says, start, 3, 'until', UNTIL, quit_first, env, None, 4)
    yield ('SIGQUIT tuple', says, 'fork', 3, 'timed', TUPLE, quit_first)
    for name, ask, env in (('SIGQUIT', quit_first, {}), ('ROAM_HANG', nothing, {'ROAM_HANG': '1'})):
        for protocol in those('transactions')[:1]:
            yield (f'{name} blocked', says, 'fork', 3, 'blocked', BLOCKED, ask,
                   {'ROAM_PROTOCOL': protocol, **env}, None, 4)
    yield ('SIGQUIT alone', says, 'fork', 1, 'compute', COMPUTES[:1], quit_first)
    yield ('ROAM_HANG', says, 'fork', 3, 'compute', COMPUTES, nothing, {'ROAM_HANG': '1'})
    yield ('ROAM_HANG alone', says, 'fork', 1, 'compute', COMPUTES[:1], nothing, {'ROAM_HANG': '1'})
    yield ('where fork', says_where, 'fork', 3, 'handler', COMPUTES, lambda _, pids: where(pids[2]))
    yield ('where run', says_where, 'run', 3, 'compute', COMPUTES, lambda first, _: where(first))
    yield ('where crowded', says_where, 'fork', 3, 'compute', COMPUTES, where_crowded)
    yield ('where alone', says_where, 'fork', 1, 'compute', COMPUTES[:1], lambda first, _: where(first))
    yield ('where, a node is stopped', says_where, 'fork', 3, 'compute', COMPUTES, where_stopped)
    yield ('where, at a server', says_server)
    yield ('where, in a load', says_page)
    yield ('where not', not_there)
    yield ('handler of the program', own_handler)


if __name__ == '__main__':
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell ignores it in background jobs
    main({'hang': lambda: list(cases())}, at_once=6)
