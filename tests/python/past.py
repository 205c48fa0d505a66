#!/usr/bin/env python3
"""The Python package: all kinds of fields there and back, orders, limits of time, errors, X-functions,
threads, and programs that fork or have handlers of their own.  Under roam run, or alone; each node
ends with a line."""
import array
import ctypes
import faulthandler
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time

import roam


def own(name):
    return f'{name} {roam.node()}'


def fails(error, act, *arguments, says='', **more):
    try:
        act(*arguments, **more)
    except error as caught:
        assert says in str(caught), caught
        return caught
    raise AssertionError(f'no {error.__name__}')


def kinds():
    assert roam.__version__ == roam.version()
    element = roam.Element(own('kinds'), ' u32 , u8[], f64[3], (i8, f32)[2], (u8[4])[2], '
                                         '(u8[], i16[])[], i64, u64, f32[]')
    values = (7, b'sev\0n', [0.5, -1.0, 1e300], [(-128, 2.5), (127, -4.0)], [b'abcd', b'efgh'],
              [(b'x', [1, -2]), (b'', [])], -2 ** 63, 2 ** 64 - 1, [])
    assert element.template == 'u32,u8[],f64[3],(i8,f32)[2],(u8[4])[2],(u8[],i16[])[],i64,u64,f32[]'
    assert element.move(*values) == 1
    assert element.observe() == values
    numbers = roam.Element(own('numbers'), 'u8[], f64[]')
    assert numbers.move('Bjørndalen', array.array('d', [1, 2.5])) == 1
    assert numbers.observe() == ('Bjørndalen'.encode(), [1.0, 2.5])
    for wrong in ((1,), (b'', [], 3), (b'', 'x'), (5.5, [])):
        fails((ValueError, TypeError), numbers.move, *wrong)
    whole = roam.Element(own('whole'), 'u8')
    for wrong in (-1, 256, 1.5, 'a', None):
        fails((roam.OutOfRange, roam.WrongType), whole.move, wrong, says='takes u8, ')
    assert whole.state().last == 0


def wrong_values():
    """A value that its field does not take is nothing else: no tuple, and an error that says where."""
    element = roam.Element(own('wrong'), 'u8[], (u8[2], (u8[])[])[2], f32, i16[3]')
    good = [b'', [(b'ab', []), (b'cd', [b'x'])], 0.5, [1, 2, 3]]
    # The field, what goes there, the error, its place, what the message ends with.
    for at, value, kind, field, says in (
            (0, 5, roam.WrongType, '1', 'takes bytes or a str, not 5 of type int'),
            (0, None, roam.WrongType, '1', 'not None'), (0, 2.5, roam.WrongType, '1', 'type float'),
            (0, True, roam.WrongType, '1', 'type bool'),
            (0, [1, 256], roam.OutOfRange, '1[1]', 'takes u8, 0 to 255, not 256'),
            (0, {1, 2}, roam.WrongType, '1', 'type set'),
            (0, '\ud800', roam.OutOfRange, '1', 'not allowed'),
            (0, array.array('i', [1, 2]), roam.WrongType, '1', 'array of 4 bytes each'),
            (0, bytes(roam.TUPLE_MAX + 1), roam.TooBig, '1', '61184 bytes at most, not 61185'),
            (1, [(2, []), (b'cd', [])], roam.WrongType, '2[0].1', 'a str of 2 bytes, not 2 of type int'),
            (1, [(b'ab', []), (b'abc', [])], roam.WrongSize, '2[1].1', 'of 2 bytes, not 3'),
            (1, [(b'ab', [b'', 7]), (b'cd', [])], roam.WrongType, '2[0].2[1]', 'not 7 of type int'),
            (1, [(b'ab', 'xy'), (b'cd', [])], roam.WrongType, '2[0].2', "a list, not 'xy' of type str"),
            (1, [(b'ab', []), 'xy'], roam.WrongType, '2[1]', "2 values, not 'xy' of type str"),
            (1, [(b'ab', [])], roam.WrongSize, '2', 'a list of 2 values, not 1'),
            (2, 1e300, roam.OutOfRange, '3', 'takes f32, 32 bits, not 1e+300'),
            (2, '1', roam.WrongType, '3', "takes f32, a float, not '1' of type str"),
            (3, [1, 40000, 3], roam.OutOfRange, '4[1]', '-32768 to 32767, not 40000'),
            (3, [1, 2], roam.WrongSize, '4', '3 values, not 2'), (3, 3, roam.WrongType, '4', 'not 3 of'),
            (3, [1, 2.0, 3], roam.WrongType, '4[1]', 'takes i16, an int, not 2.0 of type float')):
        values = list(good)
        values[at] = value
        error = fails(kind, element.move, *values, says=says)
        assert isinstance(error, roam.Error) and error.element == element.name, error
        assert error.field == field and error.size in str(error), error
        assert f'element {element.name}: field {field} of {element.template}' in str(error), error
    fails(roam.WrongSize, element.move, 1, 2, says='takes 4 values, not 2')
    fails(roam.TooBig, element.move, bytes(roam.TUPLE_MAX), *good[1:], says='has 61184 bytes at most, not')
    assert element.state().last == 0
    assert element.move(bytearray(b'x'), [(memoryview(b'ab'), []), ([1, 2], ())], 1, range(3)) == 1
    assert element.observe() == (b'x', [(b'ab', []), (b'\1\2', [])], 1.0, [0, 1, 2])


def wrong_arguments():
    """Everything the package refuses is below roam.Error; nothing is cut, rounded or taken for more."""
    element = roam.Element(own('arguments'), 'u8')
    for error, act, more in (
            (roam.WrongType, element.observe, {'timeout': '1'}),
            (roam.OutOfRange, element.observe, {'timeout': float('nan')}),
            (roam.WrongType, element.observe, {'cancel': 1}),
            (roam.OutOfRange, element.observe, {'number': -1}),
            (roam.WrongType, element.observe, {'after': 'x'}),
            (roam.WrongType, element.delta, {'most': 1.5}),
            (roam.OutOfRange, element.truncate, {'number': 2 ** 64}),
            (roam.Timeout, element.observe, {'timeout': 1e-12}),  # not for ever
            (roam.Timeout, element.observe, {'timeout': 0, 'peek': 2})):
        assert isinstance(fails(error, act, **more), roam.Error)
    for error, words, more in (
            (roam.WrongType, (5, 'u8'), {}), (roam.WrongType, ('x', None), {}),
            (roam.Invalid, ('arguments\0x', 'u8'), {}), (roam.Invalid, ('x', 'u8\0x9'), {}),
            (roam.Invalid, ('\ud800', 'u8'), {}), (roam.Invalid, ('x', 'u8'), {'place': 'nowhere'}),
            (roam.OutOfRange, ('x', 'u8'), {'place': -1}), (roam.OutOfRange, ('x', 'u8'), {'delta': -1}),
            (roam.Invalid, ('x', 'u8'), {'storage': 3}), (roam.WrongType, ('x', 'u8'), {'function': 3}),
            (roam.WrongType, ('x', 'u8'), {'server': 3}), (roam.Invalid, ('x', 'x9'), {})):
        fails(error, roam.Element, *words, **more)
    assert fails(roam.WrongType, element.mob, 1, source='x') and element.state().last == 0


def orders():
    element = roam.Element(own('orders'), 'u64', place='creator')
    assert element.node == roam.node()
    for i in range(1, 6):
        assert element.move(i * i) == i
    assert element.observe(last=True, peek=True) == (25,)
    assert element.observe() == (1,) and element.observe(after=2) == (9,)
    assert element.observe(number=4).number == 4
    assert element.state()[:3] == (2, 5, 1)
    element.observe(last=True, skip=True)
    assert element.state().first == 6
    element.truncate(4)
    survivor = element.observe(after=1)
    assert survivor.skipped and survivor.number == 4
    fails(roam.Gone, element.observe, number=3)
    fails(roam.Invalid, element.observe, number=3, last=True)
    fails(roam.Invalid, element.observe, skip=True)
    element.truncate()
    assert element.state().oldest == 6
    again = roam.Element(own('orders'), 'u64')
    assert again.state() == element.state()


def times():
    one = roam.Element(own('times'), 'i32', delta=1)
    other = roam.Element(own('other times'), 'u8[]')
    begun = time.monotonic()
    fails(TimeoutError, one.observe, timeout=0.02)
    assert time.monotonic() - begun >= 0.02
    fails(roam.Timeout, one.observe, timeout=0)
    one.move(1)
    assert fails(roam.Timeout, one.mob, 2, source=other, timeout=0.005).moved == 0
    assert fails(roam.Timeout, other.mob, '3', source=roam.Element(own('none'), 'u8'),
                 timeout=0.005).moved == 1
    one.delta(5)
    got = other.mob('4', source=one)
    assert got == (1,) and got.moved == 2 and got.number == 1
    assert other.mob('5', timeout=9) == (b'3',)
    fails(roam.Invalid, one.delta, 0)
    stop = roam.Cancel()
    threading.Timer(0.02, stop.cancel).start()
    fails(roam.Cancelled, one.observe, cancel=stop)
    assert one.move(6) == 2


def errors():
    roam.Element(own('errors'), 'i32')
    fails(roam.Mismatch, roam.Element, own('errors'), 'f32', says='has the template i32, not f32')
    fails(roam.Invalid, roam.Element, 'bad', 'i32, x9', says='at character 6: a field should follow')
    fails(roam.Invalid, roam.Element, 'bad', 'i32', place=99, says='there is no node 99')
    fails(roam.Invalid, roam.Element, 'bad', 'i32', storage='tape')
    fails(roam.Invalid, roam.Element, 'n' * 256, 'i32')
    fails(roam.Unknown, roam.Element, 'bad', 'i32', function='mean', participants=2, says='mean')
    fails(roam.Invalid, roam.Element, 'bad', 'i32', function='sum', says='participants')
    long = roam.Element(own('long'), 'u8[]')
    fails(roam.TooBig, long.move, bytes(roam.TUPLE_MAX - 3))
    most = os.urandom(roam.TUPLE_MAX - 4)
    long.move(most)
    assert long.observe() == (most,)


def threads():
    """Threads that wait hold no other up; each tuple goes to one."""
    bag = roam.Element('bag', 'u32', delta=4, forget=True)
    got = []

    def take():
        while True:
            task, = bag.observe()
            if task == 0:
                return
            got.append(task)

    takers = [threading.Thread(target=take) for _ in range(3)]
    for taker in takers:
        taker.start()
    for task in range(300, -3, -1):
        bag.move(max(task, 0))
    for taker in takers:
        taker.join()
    total = roam.Element('taken', 'i64[2]', function='sum', participants=roam.nodes())
    assert total.mob([sum(got), len(got)])[0] == [roam.nodes() * 300 * 301 // 2,
                                                  roam.nodes() * 300]


def matches():
    element = roam.Element(own('match'), 'u32, u8[]', function='match')
    for i in range(6):
        element.move(i % 2, str(i))
    assert element.observe(like=(1, '')) == (1, b'1')
    assert element.observe(like=(0, '4'), fields=2) == (0, b'4')
    fails(roam.Timeout, element.observe, like=(0, '3'), fields=3, timeout=0)
    assert element.observe() == (0, b'0')
    fails(roam.Invalid, element.observe, like=(1, ''), last=True)


def served():
    """Another connection of this program's to its own node; a filter of its own, in C."""
    if 'LONGEST' not in os.environ:
        return
    alike = ctypes.CDLL(os.environ['LONGEST'])
    functions = ctypes.addressof(ctypes.c_char.in_dll(alike, 'roam_ps_functions'))
    words = ctypes.cast(functions, ctypes.POINTER(ctypes.c_void_p))
    roam.register('even or odd', match=words[7])  # the second one's .match; each has four words
    assert words[4] and words[5] is None and words[6] is None and words[7]
    element = roam.Element(own('filter'), 'u8', function='even or odd', place='creator')
    for i in range(6):
        element.move(i)
    assert element.observe(like=(1,), fields=2) == (1,)
    with tempfile.TemporaryDirectory() as place:
        key = os.path.join(place, 'key')
        at = roam.serve(os.path.join(place, 'socket'), key)
        fails(roam.StateError, roam.serve, at, key)
        with roam.Server(at, key) as server:
            attached = roam.Element(own('filter'), 'u8', function='even or odd', server=server)
            assert attached.node == roam.node()
            for node in range(roam.nodes()):
                assert roam.Element(own(f'on {node}'), 'u8', place=node, server=server).node == node
            assert roam.Element(own('here'), 'u8', place='creator', server=server).node == roam.node()
            fails(roam.Invalid, roam.Element, 'on', 'u8', place=99, server=server,
                  says=f'there is no node 99, the job has {roam.nodes()}')
            assert attached.observe(like=(3,), fields=2) == (3,)
            assert attached.observe() == (0,)
        assert element.observe(like=(0,), fields=2) == (2,)


def rounds():
    total = roam.Element('sum', 'i64, f64', function='sum', participants=roam.nodes())
    most = roam.Element('max', 'i64', function='max', participants=roam.nodes())
    for i in range(100):
        assert total.mob(i + roam.node(), 0.5) == (i * roam.nodes() + sum(range(roam.nodes())),
                                                   roam.nodes() / 2)
        assert most.move(i * roam.node()) == i + 1
    for i in range(16):
        assert most.observe() == (i * (roam.nodes() - 1),)
    roam.barrier()


def paged():
    element = roam.Element('paged', 'u32, f64[500]', storage='pages')
    if roam.node() == 0:
        for i in range(20):
            element.move(i, range(500))
    roam.barrier()
    for i in range(1, 21):
        assert element.observe(number=i) == (i - 1, list(range(500)))
    roam.barrier()


def forked(queue):
    try:
        roam.Element('forked', 'u8')
    except roam.StateError as error:
        queue.put(str(error))


def forks():
    """Children of a node are none, and their ends concern no node."""
    assert subprocess.run([sys.executable, '-c', 'import roam; print(roam.nodes())'], check=True,
                          stdout=subprocess.PIPE, timeout=30,
                          env={key: value for key, value in os.environ.items()
                               if key != 'ROAM_BOOT'}).stdout == b'1\n'
    for status in (0, 3):
        child = os.fork()
        if child == 0:
            sys.exit(status)
        assert os.waitpid(child, 0)[1] == status << 8
    context = multiprocessing.get_context('fork')
    queue = context.Queue()
    process = context.Process(target=forked, args=(queue,))
    process.start()
    assert 'forked by a node' in queue.get(timeout=30)
    process.join()
    assert process.exitcode == 0


def main():
    faulthandler.enable()
    fails(roam.Invalid, roam.Element, '', 'i32')
    for part in (kinds, wrong_values, wrong_arguments, orders, times, errors, threads, matches, served, rounds, paged, forks, rounds_again):
        part()
    print(f'node {roam.node()} of {roam.nodes()} ended in order', flush=True)


def rounds_again():
    """After the forks the job is as it was."""
    roam.barrier()
    total = roam.Element('again', 'u32', function='sum', participants=roam.nodes())
    assert total.mob(1) == (roam.nodes(),)


if __name__ == '__main__':
    main()
