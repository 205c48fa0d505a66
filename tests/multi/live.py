#!/usr/bin/env python3
"""`roam past top` in a terminal: drawn anew in time and when the terminal's size changes, with the
rates of a known load; it ends at q, Ctrl-C and SIGTERM and leaves the terminal as it was.

usage: live.py [-k PART_OF_A_NAME] [GROUP]...
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from attached import Server, must
from harness import Wrong, clean_env, expect, main, program
from hosted import Job

CLEAR = '\033[H\033[J'
RATE = 200
SILENCE = 0.15  # a screen is written in one piece


class Terminal:
    """A terminal with `roam past top` in it, for the time of a `with`."""

    def __init__(self, server, rows, columns, *words):
        self.size = (rows, columns)
        self.command = [program('roam'), 'past', 'top', server.address, *words]
        self.env = clean_env(server.env)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def __enter__(self):
        self.master, self.slave = pty.openpty()
        self.resize(*self.size)
        self.modes = termios.tcgetattr(self.slave)

        def own():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(self.command, env=self.env, stdin=self.slave,
                                        stdout=self.slave, stderr=self.slave, preexec_fn=own)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def screen(self, what='', seconds=20):
        """Waits for the next screen that contains this text, until it is complete."""
        end = time.monotonic() + seconds
        said = ''
        while time.monotonic() < end:
            if select.select([self.master], [], [], SILENCE)[0]:
                said += os.read(self.master, 65536).decode().replace('\r\n', '\n')
                continue
            text = said.rpartition(CLEAR)[2].rstrip('\n')
            if CLEAR in said and re.search(what, text, re.MULTILINE):
                return text.split('\n')
        raise Wrong(f'no screen with {what!r}: {said[-500:]!r}')

    def ended(self):
        must(self.process.wait(5) == 0, f'it ended with {self.process.returncode}')
        must(termios.tcgetattr(self.slave) == self.modes, 'the terminal is not as it was')


def row(lines, name):
    found = [line.split() for line in lines if line.endswith('  ' + name)]
    must(len(found) == 1, f'not one row of {name}: {lines}')
    return found[0]


def rates():
    """A program that moves and observes so many times a second."""
    with Server() as server, Terminal(server, 30, 130, '--every', '1') as top:
        load = subprocess.Popen(server.command('rate', RATE), env=clean_env(server.env), text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2):
            top.screen('  rated$')  # the first sample covers less than a second
        seen = []
        for _ in range(3):
            words = row(top.screen('  rated$'), 'rated')
            must(words[:1] == [str(int(words[1]) + 1)] and words[4] == '-', f'it says {words}')
            seen.append((int(words[6]), int(words[7])))
        said = load.communicate(timeout=10)[0].split()
        must(load.returncode == 0, f'{load.returncode}')
        for moves, observes in seen:
            must(abs(moves - observes) <= 2, f'rates {seen}')
        mean = sum(moves for moves, _ in seen) / len(seen)
        must(0.7 * float(said[0]) < mean < 1.4 * float(said[0]), f'{seen}, in truth {said}')
        os.write(top.master, b'q')
        top.ended()


def nodes():
    """For a job that serves, shows the elements of all nodes, with a column for the node."""
    with Job(nodes=3) as job, Terminal(job, 60, 100, '--every', '0.5') as top:
        expect([program('hosting'), job.address, 'attached', '3'], env=job.env)
        lines = top.screen('  at 2$')
        must(lines[2].split()[:2] == ['NODE', 'LAST'] and all(len(line) <= 100 for line in lines),
             f'{lines}')
        for node in range(3):
            words = row(lines, f'at {node}')
            must(words[:3] == [str(node), '1', '1'], f'it says {words}')
        os.write(top.master, b'q')
        top.ended()


def size():
    """As many rows as there is room for, none longer than the terminal; redrawn at once when that
    changes."""
    with Server() as server:
        for i in range(12):
            server.expect('named', f'element with a long name, of {i}')
        with Terminal(server, 10, 80, '--every', '2') as top:
            lines = top.screen()
            must(len(lines) == 9 and all(len(line) <= 80 for line in lines), f'{lines}')
            must('FIRST' not in lines[2] and lines[3].endswith('  element with '), f'{lines}')
            began = time.monotonic()
            top.resize(30, 130)
            lines = top.screen('FIRST')
            must(time.monotonic() - began < 4, 'it was not drawn at once')
            must(len(lines) == 15 and lines[3].endswith('of 0'), f'{lines}')
            os.write(top.master, b'x\x03')
            top.ended()


def ends():
    """Ends while it waits for the next look, which is far off, and when the server is gone."""
    with Server() as server:
        for how in (b'q', b'Q', b'\x03', signal.SIGTERM, signal.SIGHUP):
            with Terminal(server, 20, 100, '--every', '100') as top:
                time.sleep(0.3)
                began = time.monotonic()
                if isinstance(how, bytes):
                    os.write(top.master, how)
                else:
                    top.process.send_signal(how)
                top.ended()
                must(time.monotonic() - began < 2, f'{how} was heard late')
        with Terminal(server, 20, 100, '--every', '0.5') as top:
            top.screen()
            server.end(signal.SIGTERM)
            must(top.process.wait(10) == 1, 'no error')
            must(termios.tcgetattr(top.slave) == top.modes, 'the terminal is not as it was')
            server.start()


GROUPS = {'live': lambda: [('rates', rates), ('nodes', nodes), ('size', size), ('ends', ends)]}

if __name__ == '__main__':
    main(GROUPS)
