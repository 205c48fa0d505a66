#!/usr/bin/env python3
"""Programs attached to a node of a job (rule 11.7): the job's elements are theirs, wherever they
live, with all that attached.py and replay.py show of `roam past serve`.

usage: hosted.py [-k PART_OF_A_NAME] [GROUP]...
"""
import functools
import re
import signal
import subprocess
import time

import attached
import replay
from attached import LOST, must
from harness import expect, main, program

SERVER = attached.Server


class Job(SERVER):
    """A job of several nodes in the server's place."""

    def __init__(self, *args, nodes=3, job_env=None, keep=None, **how):
        super().__init__(*args, **how)
        self.nodes = nodes
        self.job_env = {'ROAM_PS_KEEP': str(keep or 60), **(job_env or {})}

    def serve(self):
        return [program('hosting'), self.address or self.asked, str(self.nodes)], {
            **self.env, **self.job_env}, subprocess.PIPE

    def end(self, number):
        """However it is asked to."""
        must(number == signal.SIGTERM, 'a job ends with its input')
        said = self.process.communicate(timeout=20)
        must(said == ('', ''), f'the job said {said}')
        return self.process.returncode


def everything(nodes, job_env):
    with Job('127.0.0.1:0', nodes=nodes, job_env=job_env) as job:
        job.expect('all', 'job')
        said = expect([program('hosting'), job.address, 'attached', str(nodes)],
                      env=job.env).out
        must(said == ('here\n' if nodes == 1 else 'spread\n'), f'it said {said}')
        top = job.top()
        where = {row['name']: row['node'] for row in top['elements']}
        expected = {'beside me': nodes - 1, **{f'at {node}': node for node in range(nodes)}}
        must(top['programs'] == 1 and len(where) == len(top['elements']) and
             {'ask', 'answer', 'paged', *(f'own {i}' for i in range(200))} <= set(where) and
             all(where.get(name) == node for name, node in expected.items()) and
             {row['moves'] for row in top['elements'] if row['name'].startswith('own')} == {1},
             f'top says {top}')
        waiting = job.begin('wait', 'observe')
        job.expect('waiting', attached.WAITERS)
        began = time.monotonic()
        must(job.end(signal.SIGTERM) == 0, 'the job ended badly')
        out, _ = waiting.communicate(timeout=10)
        must(out.decode().splitlines() == [LOST] * attached.WAITERS, f'a program said {out}')
        must(time.monotonic() - began < 5, 'the error came late')


def participant(nodes):
    """One node is killed: the other program's operation ends, whichever node the element is at."""
    with Job(nodes=nodes, keep=1) as job:
        victim = job.begin('wait', 'sum')
        job.expect('waiting-sum', 1)
        victim.kill()
        victim.communicate()
        job.expect('waiting-sum', 0)
        time.sleep(1.5)
        job.expect('wait', 'sum', out=f'^{re.escape(LOST)}$')


def of_job(module, test, *args):
    """A test of another module, with a job for its server."""
    was = module.Server
    module.Server = functools.partial(Job, job_env={'ROAM_LOG': 'warn'})
    try:
        test(*args)
    finally:
        module.Server = was


def renamed(module, names):
    tests = {name: (test, args) for group in module.GROUPS.values() for name, test, *args in group()}
    return [(name, of_job, module, tests[name][0], *tests[name][1]) for name in names]


GROUPS = {
    'hosted': lambda: [
        (f'all {nodes} {env.get("ROAM_TRANSPORT", "")}', everything, nodes, env)
        for nodes, env in ((1, {}), (2, {}), (3, {}), (3, {'ROAM_TRANSPORT': 'udp'}))] +
                      [(f'participant of {nodes}', participant, nodes) for nodes in (2, 3, 4)] +
                      renamed(attached, ['many', 'strangers', 'killed mob', 'killed waiting observe',
                                         'killed waiting move'] +
                              [f'killed {how}' for how in ('move', 'observe', 'mob', 'delta',
                                                           'truncate', 'state', 'cancel',
                                                           'enter')]) +
                      renamed(replay, ['histories unix', 'histories tcp', 'flood small',
                                       'flood large', 'rounds', 'timed', 'waits']),
}

if __name__ == '__main__':
    main(GROUPS)
