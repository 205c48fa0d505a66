#!/usr/bin/env python3
"""roam.Server: elements of `roam past serve`.

usage: attached.py ADDRESS PID
"""
import os
import signal
import sys
import threading

import roam

ADDRESS, PID = sys.argv[1], int(sys.argv[2])


def fails(kind, act, what=''):
    try:
        act()
    except kind as error:
        assert what in str(error), error
        return
    raise AssertionError(f'no {kind.__name__}')


def child(bag):
    """What its parent is attached to is none of its own."""
    fails(roam.StateError, lambda: bag.move(1, b''))
    with roam.Server(ADDRESS) as server:
        assert roam.Element('bag', 'u32, u8[]', server=server).state().last == 100
    print('child in order', flush=True)
    os._exit(0)


def main():
    here = roam.Server(ADDRESS)
    bag = roam.Element('bag', 'u32, u8[]', server=here, delta=2)
    with roam.Server(ADDRESS, os.environ['ROAM_PS_KEY']) as there:
        other = roam.Element('bag', 'u32, u8[]', server=there)
        mover = threading.Thread(target=lambda: [bag.move(i, b'x' * i) for i in range(100)])
        mover.start()
        assert [other.observe() for _ in range(100)] == [(i, b'x' * i) for i in range(100)]
        mover.join()
        fails(roam.Mismatch, lambda: roam.Element('bag', 'i8', server=there), 'u32,u8[], not i8')
        fails(roam.Invalid, lambda: roam.Element('p', 'i8', server=there, storage='pages'))
        fails(roam.Timeout, lambda: bag.observe(timeout=0.01))
    fails(roam.Lost, other.state)
    fails(roam.StateError, lambda: roam.Element('bag', 'u32, u8[]', server=there))
    fails(roam.Lost, lambda: roam.Server(ADDRESS + '-not'), 'no server at')
    fails(roam.Invalid, lambda: roam.Server('nowhere'), 'HOST:PORT')
    pid = os.fork()
    if pid == 0:
        child(bag)
    assert os.waitpid(pid, 0)[1] == 0
    sums = [roam.Element('sum', 'i64', server=here, function='sum', participants=2)
            for _ in range(2)]
    sums[0].move(3)
    assert sums[1].mob(4) == (7,) == sums[0].observe()
    threading.Timer(0.05, os.kill, (PID, signal.SIGKILL)).start()
    fails(roam.Lost, bag.observe)
    print('attached in order')


if __name__ == '__main__':
    main()
