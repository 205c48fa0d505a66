#!/usr/bin/env python3
"""The verbs transport over Soft-RoCE, in a throw-away guest (tools/guest); one boot runs a group.  And the
xdp transport on the guest's older kernel, over a switch that loses frames.

usage: verbs.py GROUP [-k PART_OF_A_NAME] [-v]

Without QEMU, or where the kernel's package cannot be had, it is skipped.
"""
import argparse
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'multi'))
import harness  # noqa: E402, pylint: disable=wrong-import-position
import random_run  # noqa: E402, pylint: disable=wrong-import-position

LACKING = 77
VERBS = {'ROAM_TRANSPORT': 'verbs', 'ROAM_VERBS_DEVICE': 'rxe0,rxe1'}
ONE = {'ROAM_TRANSPORT': 'verbs'}
LAST = {'plain': 'ok verbs bare: one-sided'}  # of conform's tests, which end with those of the transport alone
NOBODY = ['/usr/bin/setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']


def grep(pattern):
    """A pattern as `grep -E` knows it."""
    return pattern.replace(r'\d', '[0-9]')


class Group:
    """Cases of one boot: lines of a script, and the programs that they need."""

    def __init__(self, part):
        self.part = part
        self.lines = []
        self.programs = {}

    def program(self, name):
        path = harness.program(name)
        self.programs[os.path.basename(path)] = path
        return os.path.basename(path)

    def _words(self, command, env):
        return [f'{key}={value}' for key, value in env.items()] + \
            [self.program(word[1:]) if word.startswith('@') else word for word in command]

    def run(self, name, command, want, status=0, env=None):
        """`@name` among the words: a program of the build."""
        words = self._words(command, VERBS if env is None else env)
        if self.part in name:
            self.lines.append(shlex.join(['run', name, str(status), grep(want), *words]))

    def while_runs(self, name, command, want, status, nodes, action, env=None):
        words = self._words(command, VERBS if env is None else env)
        if self.part in name:
            self.lines.append(shlex.join(['while_runs', name, str(status), grep(want), str(nodes), action,
                                          *words]))

    def do(self, line):
        self.lines.append(line)


# -------------------------------------------------------------------------------------- groups

def conformance(group):
    """What every transport promises; with loss, as a node without rights, and in little memory."""
    group.run('shown', ['@roam', 'info', 'transports'], 'verbs +works: between hosts, reliable', env={})
    for seal in ('plain', 'auth', 'encrypt'):
        group.run(f'conform {seal}', ['@conform', 'verbs', seal], LAST.get(seal, f'ok verbs {seal}: left'))
    group.run('conform on one device', ['@conform', 'verbs'], LAST['plain'], env=ONE)
    # Three nodes of one process: there is no room for what one-sided operations register, too.
    group.run('conform as nobody in 512 KiB', [*NOBODY, 'prlimit', '--memlock=524288', '@conform', 'verbs'],
              '^skip: one-sided: RLIMIT_MEMLOCK is 512 KiB')
    group.run('conform as nobody', [*NOBODY, 'prlimit', '--memlock=16777216', '@conform', 'verbs'], LAST['plain'])
    group.run('nobody in 16 KiB', [*NOBODY, 'prlimit', '--memlock=16384', '@fft', '-p2', '-m10'],
              '^roam: ROAM_TRANSPORT=verbs: RLIMIT_MEMLOCK is 16 KiB', 1)
    group.run('nobody in 64 KiB', [*NOBODY, 'prlimit', '--memlock=65536', '@fft', '-p4', '-m10'],
              r'^roam: .*KiB cannot be registered with rxe\d: .*RLIMIT_MEMLOCK is 64 KiB', 1)
    group.run('no such device', ['@fft', '-p2', '-m10'], 'no RDMA device is called rxe7', 1,
              env={**ONE, 'ROAM_VERBS_DEVICE': 'rxe7'})
    group.run('no such address', ['@fft', '-p2', '-m10'], 'no RDMA device has this address', 1,
              env={**ONE, 'ROAM_VERBS_DEVICE': '10.77.0.9'})
    group.run('by address', ['@fft', '-p2', '-m10', '-t'], 'verified ok',
              env={**ONE, 'ROAM_VERBS_DEVICE': '10.77.0.2'})
    group.do('ip addr del 10.77.0.1/24 dev v0')
    group.run('no GID', ['@fft', '-p2', '-m10'], 'rxe0: no GID of port 1 is an IPv4 address', 1,
              env={**ONE, 'ROAM_VERBS_DEVICE': 'rxe0'})
    group.do('ip link set v0 down')
    # The other end of the cable goes down with it, sooner or later; then it can be the one that is named.
    group.run('port down', ['@fft', '-p2', '-m10'], r'rxe\d: port 1 is down', 1,
              env={**ONE, 'ROAM_VERBS_DEVICE': 'rxe0'})
    group.do('rdma link delete rxe0; rdma link delete rxe1')
    group.run('no device', ['@fft', '-p2', '-m10'], 'no RDMA device: /sys/class/infiniband is empty', 1,
              env=ONE)
    group.run('no device, shown', ['@roam', 'info', 'transports'],
              'verbs +missing: no RDMA device: /sys/class/infiniband is empty', env={})


def random_env(rng):
    return {**VERBS, 'ROAM_SEAL': rng.choice(['off', 'auto', 'auth', 'encrypt']),
            'ROAM_VERBS_DEVICE': rng.choice(['rxe0,rxe1', 'rxe1', 'auto'])}


def random_program(group, protocol, seed, with_env):
    models = harness.protocols()
    beside = [name for name in models if random_run.beside(protocol, models, name)]
    env, command = random_run.drawn(seed, protocol, 'shm', beside)
    env.pop('ROAM_ONESIDED')
    command = [os.path.basename(word) if os.path.exists(word) else word for word in command]
    command[0] = group.program('random')
    if '--roam' in command:
        command[command.index('--roam') + 1] = '/guest/bin/' + group.program('roam')
    if models[protocol] == 'ScC':
        command += ['--scoped', '1']
    group.run(f'random {protocol} {seed}', command, '^right',
              env={**env, **with_env, 'ROAM_PROTOCOL': protocol})


def random_programs(group):
    """Random programs of protocols of each kind; PastSet; kernels."""
    models = harness.protocols()
    for protocol in models:
        for seed in range(1, 4 if protocol in harness.kinds().values() else 2):
            random_program(group, protocol, seed, random_env(random.Random(f'{protocol} {seed}')))
    for seal in ('auto', 'encrypt'):
        group.run(f'tuples {seal}', ['@tuples-pi', '-p3', '-m', 'tuples'], 'verified ok', env={**VERBS, 'ROAM_SEAL': seal})
    kinds = harness.kinds()
    for protocol, kernel, words in ((kinds['default'], 'fft', ['-p2', '-m10', '-t']),
                                    (harness.those(homes='moving')[0], 'lu', ['-p3', '-n64', '-t']),
                                    (kinds['default'], 'radix', ['-p3', '-n8192', '-t']),
                                    (kinds['twins'], 'ocean', ['-p2', '-n18', '-c'])):
        group.run(f'{kernel} {protocol}', [f'@{kernel}', *words], 'verified ok',
                  env={**VERBS, 'ROAM_PROTOCOL': protocol})
    group.run('rounds', ['@rounds', 'all', '3', '4'], '4 rounds right')
    group.run('auto takes it unsealed', ['@fft', '-p2', '-m10', '-t'], 'verified ok',
              env={'ROAM_TRANSPORT': 'auto', 'ROAM_SEAL': 'off'})


def card_reads(group):
    """Pages that cards read at their homes: one READ each; where none may be read; random programs, kernels."""
    cards = harness.those('one_sided')
    quiet = {**VERBS, 'ROAM_PREFETCH': '0'}
    for protocol in cards:
        group.run(f'reads {protocol}', ['@reads', '2', 'yes'], 'one READ for each page',
                  env={**quiet, 'ROAM_PROTOCOL': protocol})
    group.run('three nodes', ['@reads', '3', 'yes'], 'one READ for each page', env=quiet)
    group.run('on one device', ['@reads', '2', 'yes'], 'one READ for each page', env={**quiet, 'ROAM_VERBS_DEVICE': 'rxe0'})
    for what, env in (('sealed', {'ROAM_SEAL': 'auth'}), ('encrypted', {'ROAM_SEAL': 'encrypt'}),
                      ('by messages', {'ROAM_ONESIDED': '0'}), ('races looked for', {'ROAM_CHECK': 'race'})):
        group.run(f'no reads, {what}', ['@reads', '2', 'no'], 'no READs', env={**quiet, **env})
    for protocol in cards:
        group.run(f'writes {protocol}', ['@writes', '3', 'yes'], 'changes written by cards',
                  env={**quiet, 'ROAM_PROTOCOL': protocol})
    group.run('writes of many stretches', ['@writes', '3', 'no'], 'no changes written by cards',
              env={**quiet, 'ROAM_CARD_SEGMENTS': '1'})
    for what, env in (('sealed', {'ROAM_SEAL': 'auth'}), ('by messages', {'ROAM_ONESIDED': '0'}),
                      ('races looked for', {'ROAM_CHECK': 'race'}), ('as wanted', {'ROAM_CARD_SEGMENTS': '0'})):
        group.run(f'no writes, {what}', ['@writes', '3', 'no'], 'no changes written by cards', env={**quiet, **env})
    group.run('no reads, no memory', ['@reads', '3', 'no'], 'no READs', env={**quiet, 'ROAM_VERBS_MEMORY': '1'})
    # Areas of a part each, and room for one part: keys come back, and parts are deregistered.
    for protocol in cards:
        group.run(f'more than there is room for, {protocol}', ['@reads', '2', 'yes', '4'], 'one READ for each page',
                  env={**quiet, 'ROAM_PROTOCOL': protocol, 'ROAM_VERBS_MEMORY': '1'})
    group.run('little memory', ['@radix', '-p3', '-n65536', '-t'], 'verified ok', env={**VERBS, 'ROAM_VERBS_MEMORY': '2'})
    group.run('nobody in 512 KiB', [*NOBODY, 'prlimit', '--memlock=524288', '@fft', '-p2', '-m10', '-t'], 'verified ok')
    for protocol in cards:
        default = protocol == harness.kinds()['default']
        for seed in range(11, 15 if default else 12):
            random_program(group, protocol, seed, VERBS)
        for kernel, words in (('fft', ['-p3', '-m10', '-t']), ('radix', ['-p3', '-n8192', '-t'])):
            if not default and kernel == 'fft':
                continue
            group.run(f'{kernel} {protocol}', [f'@{kernel}', *words], 'verified ok',
                      env={**VERBS, 'ROAM_PROTOCOL': protocol})
    # Two hosts, which are this one, of two nodes each: these share memory, the others have cards.
    group.do("printf '#!/bin/sh\\nshift\\nexec \"$@\"\\n' >/tmp/rsh; chmod +x /tmp/rsh")
    mixed = {'ROAM_TRANSPORT': 'auto', 'ROAM_SEAL': 'off', 'ROAM_RSH': '/tmp/rsh', 'ROAM_VERBS_DEVICE': 'rxe0,rxe1'}
    on = ['@roam', 'run', '-n', '4', '-H', 'a:2,b:2']
    group.run('two nodes a host', [*on, '@reads', '4', 'far', '1'], 'one READ for each page', env={**mixed, 'ROAM_PREFETCH': '0'})
    group.run('radix, two nodes a host', [*on, '@radix', '-p4', '-n8192', '-t'], 'verified ok', env=mixed)
    for pages, memory in (('0', '0'), ('4', '2')):
        group.run(f'rounds, {pages} copies kept', ['@rounds', 'all', '3', '4'], '4 rounds right',
                  env={**VERBS, 'ROAM_CACHE_PAGES': pages, 'ROAM_VERBS_MEMORY': memory})


def bad_days(group):
    """A node that stops, or is killed; loss and delay; a cable that is cut."""
    deaths = ['@roam', 'run', '-n', '3', '@deaths', 'run', '3', '1', 'never', 'barrier']
    soon = {**VERBS, 'ROAM_DEADLINE': '2'}
    group.while_runs('a node stops', deaths, r'node 1 has been silent for [23]\.\d s, longer than', 1, 3,
                     'kill -STOP $(pid_of 1)', env=soon)
    group.while_runs('a node is killed', deaths, r'^roam: node 1 .*(killed|SIGKILL|signal 9)', 137, 3,
                     'kill -KILL $(pid_of 1)', env=soon)
    group.do('tc qdisc add dev v0 root netem loss 2%; tc qdisc add dev v1 root netem loss 1% delay 1ms')
    group.do('tc qdisc show dev v0 | grep -q netem || wrong "loss" "no netem"')
    group.run('fft with loss', ['@fft', '-p2', '-m10', '-t'], 'verified ok', env={**soon, 'ROAM_DEADLINE': '5'})
    group.run('reads with loss', ['@reads', '2', 'yes'], 'one READ for each page',
              env={**soon, 'ROAM_DEADLINE': '5', 'ROAM_PREFETCH': '0'})
    group.run('writes with loss', ['@writes', '2', 'yes'], 'changes written by cards',
              env={**soon, 'ROAM_DEADLINE': '5', 'ROAM_PREFETCH': '0'})
    group.do('tc qdisc del dev v0 root; tc qdisc del dev v1 root')
    group.while_runs('the cable is cut', deaths, r'node \d has been silent for \d\.\d s, longer than', 1, 3,
                     'ip link set v0 down', env=soon)


def frames(group):
    """Sockets of AF_XDP: two hosts and a switch, which are namespaces; loss, long frames, a killed node."""
    for number, name in enumerate(('gs', 'ga', 'gb', 'gc')):
        group.do(f'ip netns add {name}; ip -n {name} link set lo up')
        if number == 0:
            group.do('ip -n gs link add br0 type bridge; ip -n gs addr add 10.78.0.9/24 dev br0; '
                     'ip -n gs link set br0 up')
            continue
        group.do(f'ip -n gs link add v{name} type veth peer name eth0 netns {name}; '
                 f'ip -n gs link set v{name} master br0 up; ip -n {name} addr add 10.78.0.{number}/24 dev eth0; '
                 f'ip -n {name} link set eth0 up')
    # Busybox, which starts the commands, would run its own ip.
    xdp = {'ROAM_TRANSPORT': 'xdp', 'ROAM_RSH': '/usr/bin/ip netns exec', 'ROAM_LOG': 'info'}
    on = ['/usr/bin/ip', 'netns', 'exec', 'gs', '@roam', 'run', '-n', '2', '-H', 'ga,gb']
    none = 'for i in ga gb gc; do ip -n $i link show eth0 | grep -q xdp && wrong "{}" "a program is left"; done; true'

    def jobs(what, modes=('generic', 'native')):
        for mode in modes:
            group.run(f'fft {mode}{what}', [*on, '@fft', '-p2', '-m10', '-t'], 'verified ok',
                      env={**xdp, 'ROAM_XDP_MODE': mode})
            group.do(none.format(f'fft {mode}{what}'))

    group.run('xdp shown', ['@roam', 'info', 'transports'], 'xdp +works: between hosts', env={})
    jobs('')
    group.run('fft over it', [*on, '@fft', '-p2', '-m10', '-t'], '2 nodes on 2 hosts, .* over xdp$', env=xdp)
    random_words = ['@random', '--seed', '1', '--nodes', '2', '--threads', '2', '--roam', '/guest/bin/roam',
                    '--hosts', 'ga,gb']
    for protocol in harness.kinds().values():
        if harness.protocols()[protocol] != 'ScC':
            group.run(f'xdp random {protocol}', ['/usr/bin/ip', 'netns', 'exec', 'gs', *random_words], '^right',
                      env={**xdp, 'ROAM_PROTOCOL': protocol})
    # This kernel has no links for programs of tc: those of PastSet are of XDP, one at an interface.
    shown = {'ROAM_TRANSPORT': 'udp', 'ROAM_SEAL': 'off', 'ROAM_PS_KERNEL': 'eth0', 'ROAM_RSH': '/usr/bin/ip netns exec',
             'ROAM_STATS': '/tmp/stats.json'}
    at = ['/usr/bin/ip', 'netns', 'exec', 'gs', '@roam', 'run', '-n', '3', '-H']
    group.run('shown', [*at, 'ga,gb,gc', '@shown', '10', '300'], 'shown ok', env=shown)
    group.do(r'''tr -d ' \n' </tmp/stats.json | grep -Eq '"ps_looks":\[0,[1-9][0-9]{2,},[1-9][0-9]{2,}\]' ||'''
             ''' wrong shown "$(grep -A4 ps_looks /tmp/stats.json)"''')
    group.do(none.format('shown'))
    group.run('shown by one of two', [*at, 'ga,gb', '@shown', '3', '50'],
              r'node \d: ROAM_PS_KERNEL=eth0 has no effect: .* \(before Linux 6.6 an interface has one such program\)$',
              env=shown)
    for name in ('ga', 'gb'):
        group.do(f'tc -n gs qdisc add dev v{name} root netem loss 3% delay 200us reorder 5%')
    group.do('tc -n gs qdisc show dev vga | grep -q netem || wrong "loss" "no netem"')
    jobs(' with loss')
    for name in ('ga', 'gb'):
        group.do(f'tc -n gs qdisc del dev v{name} root')
        group.do(f'ip -n {name} link set eth0 mtu 9000; ip -n gs link set v{name} mtu 9000')
    jobs(' by long frames', ['generic'])
    # This kernel cannot join the chunks of a frame, nor does its veth cut long ones for a program.
    group.run('fft native by long frames', [*on, '@fft', '-p2', '-m10', '-t'],
              r'\(eth0: attaching a program: Numerical result out of range\)$', 1,
              env={**xdp, 'ROAM_XDP_MODE': 'native'})
    group.while_runs('xdp node killed', [*on, '@deaths', 'run', '2', '1', 'never', 'barrier'],
                     'node 1 .*killed by signal 9', 137, 2,
                     'ip -n ga link show eth0 | grep -q xdp || echo "not attached" >>/tmp/said; kill -KILL $(pid_of 1)',
                     env=xdp)
    group.do('grep -q "^not attached" /tmp/said && wrong "xdp node killed" "no program was attached"')
    group.do(none.format('xdp node killed'))


GROUPS = {'conform': conformance, 'random': random_programs, 'reads': card_reads, 'bad': bad_days, 'xdp': frames}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('group', choices=GROUPS)
    parser.add_argument('-k', dest='part', default='')
    parser.add_argument('-v', dest='verbose', action='store_true')
    parser.add_argument('-t', dest='seconds', type=int, default=220)
    args = parser.parse_args()
    group = Group(args.part)
    GROUPS[args.group](group)
    with tempfile.NamedTemporaryFile('w', suffix='.sh') as script:
        script.write('. /guest/bin/runner.sh\n' + ('keep=1\n' if args.verbose else '') +
                     '\n'.join(group.lines) + '\nexit $failed\n')
        script.flush()
        files = [word for path in (*group.programs.values(), os.path.join(HERE, 'runner.sh'))
                 for word in ('-f', path)]
        done = subprocess.run([os.path.join(ROOT, 'tools', 'guest', 'run'), '-t', str(args.seconds),
                               '-f', f'{script.name}:/guest/bin/cases.sh', *files,
                               *(['-v'] if args.verbose else []), 'sh', '/guest/bin/cases.sh'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    sys.stdout.write(done.stdout)
    if done.returncode == LACKING:
        print(f'skip: guest: {done.stdout.strip()}')
        return LACKING
    wanted = sum(line.startswith(('run', 'while_runs')) for line in group.lines)
    right = len(re.findall(r'^ok .* \(\d+ s\)$', done.stdout, re.MULTILINE))
    print(f'{right} of {wanted} cases right')
    return 0 if done.returncode == 0 and right == wanted > 0 else 1


if __name__ == '__main__':
    sys.exit(main())
