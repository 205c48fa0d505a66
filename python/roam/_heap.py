"""NumPy arrays in the shared heap, and locks."""
import math
import operator
import os

from . import _arguments
from ._errors import Mismatch, NoMemory, StateError, must as _must
from ._library import ffi as _ffi, lib as _lib

_forked = False
_together = False  # the nodes have met: from then on one of them may allocate by itself


def _in_child():
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_in_child)


def _here():
    if _forked:
        raise StateError(_lib.ROAM_ESTATE, 'this process was forked by a node, and is none')


def _block(size):
    """The address of a block that all nodes ask for together: node 0 allocates, and all learn it."""
    global _together
    _here()
    _must(_lib.roam_start())
    if not _together:
        _must(_lib.roam_barrier_all())
        _together = True
    told = _ffi.new('int64_t[2]')
    why = _lib.ROAM_OK
    if _lib.roam_node() == 0:
        block = _lib.roam_alloc(size)
        if block == _ffi.NULL:
            why = _lib.roam_errno()
        told[0], told[1] = int(_ffi.cast('intptr_t', block)), size
    _must(_lib.roam_reduce(told, 2, _lib.ROAM_INT64, _lib.ROAM_SUM))
    if told[1] != size:
        raise Mismatch(_lib.ROAM_EMISMATCH, f'this node asks for {size} bytes, node 0 for {told[1]}: all '
                       'nodes make the same arrays and locks, in the same order')
    if told[0] == 0:
        _must(why)
        raise NoMemory(_lib.ROAM_ENOMEM, 'node 0 could not allocate')
    return _ffi.cast('void *', told[0])


def _named(name, size):
    """The address of the block of this name."""
    _here()
    _must(_lib.roam_start())
    block = _lib.roam_root(_arguments.text('name', name), size, _lib.ROAM_WRITE)
    if block == _ffi.NULL:
        _must(_lib.roam_errno())
    return block


def array(shape, dtype='f8', name=None):
    """A NumPy array of zeros in the shared heap.  All nodes call it, in the same order, with the same
    shape and type, one thread of each; it is a barrier, and Mismatch on nodes that ask for another size
    than node 0 does.  With a `name`, of 47 bytes at most, any node may call it at any time: the first
    call makes the array, later ones find it, Mismatch if it has another size.  The memory lasts until
    the job ends.  Needs NumPy."""
    import numpy

    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise ValueError('Python objects cannot be shared: give the array a type of numbers')
    try:
        shape = (operator.index(shape),)
    except TypeError:
        shape = tuple(operator.index(extent) for extent in shape)
    if any(extent < 0 for extent in shape):
        raise ValueError(f'negative dimensions in {shape}')
    count = math.prod(shape)
    size = max(count * kind.itemsize, 1)
    if size >= 2 ** 63:
        raise NoMemory(_lib.ROAM_ENOMEM, f'an array of {size} bytes')
    block = _block(size) if name is None else _named(name, size)
    return numpy.frombuffer(_ffi.buffer(block, size), kind, count).reshape(shape)


def touch(items, write=False):
    """Brings the array's memory to this node, so that a system call may read it, or, with `write`,
    write to it.  It may leave again at the next barrier or lock; under sequentially consistent
    protocols at any time: there a copy (items.copy()) is sure.  Other arrays are left as they are."""
    import numpy

    _here()
    low, high = numpy.lib.array_utils.byte_bounds(items) if hasattr(numpy.lib, 'array_utils') \
        else numpy.byte_bounds(items)
    err = _lib.roam_touch(_ffi.cast('void *', low), high - low,
                          _lib.ROAM_WRITE if write else _lib.ROAM_READ)
    if err != _lib.ROAM_ENOTOURS:
        _must(err)


class Lock:
    """A lock of all nodes, with acquire and release as threading.Lock has them.  All nodes make it, in
    the same order.  What was written before it was released is there for the next that acquires it."""

    def __init__(self):
        self._name = _block(64)

    def acquire(self, blocking=True, timeout=-1):
        """Whether the lock was taken.  timeout: in seconds; -1: no limit."""
        _here()
        if timeout != -1 and (not blocking or timeout < 0):
            raise ValueError(f'timeout {timeout}' + ('' if blocking else ' of a call that does not wait'))
        if not blocking:
            err, refused = _lib.roam_trylock(self._name), _lib.ROAM_EBUSY
        elif timeout == -1:
            err, refused = _lib.roam_lock(self._name), None
        else:
            until = _lib.roam_clock_us() + int(timeout * 1e6)
            err, refused = _lib.roam_lock_until(self._name, until), _lib.ROAM_ETIMEDOUT
        if err == refused:
            return False
        _must(err)
        return True

    def release(self):
        _here()
        _must(_lib.roam_unlock(self._name))

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()
