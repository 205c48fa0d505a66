"""Shows that arrays of roam.array are one on all nodes, under locks and barriers, and that touched
ones go through system calls, though the library is loaded at other addresses from node to node.
Prints `arrays right` on node 0."""
import mmap
import os
import tempfile

import numpy

before = [mmap.mmap(-1, 4096 * (os.getpid() % 64 + 1)) for _ in range(2)]  # what the library is loaded below

import roam  # pylint: disable=wrong-import-position


def counts(me, nodes):
    total, lock = roam.array((), 'i8'), roam.Lock()
    marks = roam.array((nodes, 3000), 'i4')
    assert not marks.any() and marks.dtype == numpy.int32
    roam.barrier()
    for _ in range(20):
        with lock:
            total += 1
        if lock.acquire(blocking=False):
            lock.release()
        while not lock.acquire(timeout=0.002):
            pass
        total += 1
        lock.release()
    marks[me] = numpy.arange(3000) + me
    roam.barrier()
    assert total == 40 * nodes
    assert all((marks[node] == numpy.arange(3000) + node).all() for node in range(nodes))
    roam.barrier()
    if me == 0:
        assert lock.acquire()
    roam.barrier()
    if me != 0:
        assert not lock.acquire(blocking=False) and not lock.acquire(timeout=0.001)
    roam.barrier()
    if me == 0:
        lock.release()


def through(table):
    """Writes the array to a file and reads it back, by system calls on its memory."""
    with tempfile.TemporaryFile() as file:
        roam.touch(table)
        table.tofile(file)
        file.seek(0)
        assert (numpy.fromfile(file) == table).all()
        file.seek(0)
        table[:] = 0
        roam.touch(table, write=True)
        assert file.readinto(table) == table.nbytes


def files(me, nodes):
    table = roam.array(5000, 'f8')
    table[5000 * me // nodes:5000 * (me + 1) // nodes] = me + 1
    roam.barrier()
    for turn in range(nodes):  # some protocols have a page at one node at a time
        if turn == me:
            through(table)
        roam.barrier()
    assert table[0] == 1 and table[-1] == nodes
    roam.touch(numpy.zeros(3))


def named(me, nodes):
    lock, numbers = roam.Lock(), range(70)
    for number in numbers if me % 2 == 0 else reversed(numbers):
        found = roam.array((2, 3), 'i4', name=f'named {number}')
        assert found.shape == (2, 3)
        with lock:
            found += 1
    roam.barrier()
    assert all((roam.array(6, 'i4', name=f'named {number}') == nodes).all() for number in numbers)
    for name, kind, wrong in (('named 3', 'i8', roam.Mismatch), ('', 'i4', roam.Invalid),
                              ('named 3\0', 'i4', roam.Invalid), (3, 'i4', roam.WrongType)):
        try:
            roam.array(6, kind, name=name)
        except wrong:
            continue
        raise AssertionError((name, kind))
    roam.barrier()


def refused(me):
    for shape, kind, wrong in ((3, 'O', ValueError), ((-1, 2), 'f8', ValueError), ((-2, -3), 'f8', ValueError),
                               ((2.5, 2), 'f8', TypeError), ((2 ** 60, 8), 'f8', roam.NoMemory)):
        try:
            roam.array(shape, kind)
        except wrong:
            continue
        raise AssertionError((shape, kind))
    assert roam.array(numpy.int64(5)).shape == (5,) and roam.array([numpy.uint8(2), 3]).shape == (2, 3)
    try:
        roam.array(100 + me, 'u1')
        assert me == 0
    except roam.Mismatch as error:
        assert me != 0 and f'asks for {100 + me} bytes, node 0 for 100' in str(error)
    lock = roam.Lock()
    for how in ({'timeout': -2}, {'blocking': False, 'timeout': 1}):
        try:
            lock.acquire(**how)
        except ValueError:
            continue
        raise AssertionError(how)
    try:
        lock.release()
    except roam.Error:
        return
    raise AssertionError('released a lock that was not held')


def main():
    me, nodes = roam.node(), roam.nodes()  # these calls join the job, too
    counts(me, nodes)
    files(me, nodes)
    named(me, nodes)
    refused(me)
    roam.barrier()
    if me == 0:
        print('arrays right')


if __name__ == '__main__':
    main()
