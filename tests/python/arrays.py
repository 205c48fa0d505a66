"""Shows that arrays of roam.array are one on all nodes, under locks and barriers, and that touched
ones go through system calls.  Prints `arrays right` on node 0."""
import tempfile

import numpy

import roam


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


def refused():
    for shape, kind in ((3, 'O'), ((-1, 2), 'f8')):
        try:
            roam.array(shape, kind)
        except ValueError:
            continue
        raise AssertionError((shape, kind))
    lock = roam.Lock()
    try:
        lock.release()
    except roam.Error:
        return
    raise AssertionError('released a lock that was not held')


def main():
    roam.start()
    me, nodes = roam.node(), roam.nodes()
    counts(me, nodes)
    files(me, nodes)
    named(me, nodes)
    refused()
    roam.barrier()
    if me == 0:
        print('arrays right')


if __name__ == '__main__':
    main()
