"""PastSet: processes share elements, ordered sequences of tuples of one template.

    import roam

    tasks = roam.Element('tasks', 'u32, f64[3]')   # binds to it; creates it if it is new
    tasks.move(7, [0.5, 1, 2])                     # appends a tuple
    number, place = tasks.observe()                # takes the oldest unobserved tuple

A template is text: i8 to i64, u8 to u64, f32, f64; [3] behind a field for an array of that length, []
for an array whose length each tuple has; ( ) around a group of fields.  Numbers are ints and floats, a
group is a tuple, an array is a list (any sequence will do), an array of u8 is bytes, or a str as UTF-8.
If a field does not take a value, the error is WrongType, WrongSize or OutOfRange, and nothing is moved;
the error's `element`, `field` ('2[0].1') and `size` say where, and what the field takes.
include/roam/pastset.h explains elements and operations.

The nodes can also share NumPy arrays in one heap, and locks:

    grid = roam.array((1000, 1000), 'f8')          # zeros; every node makes the same arrays, in order
    lock = roam.Lock()                             # so with locks
    with lock:
        grid[roam.node()] += 1
    roam.barrier()
    totals = roam.array(100, 'f8', name='totals')  # one node makes it, others find it, in any order

What a node wrote into an array is there for another one after a barrier, or after a lock that both
held, one after the other.  Before a system call reads or writes an array's memory (tofile, fromfile,
sockets), call roam.touch(array), since such calls fail where the node has no access.

Programs started by `roam run -n 4 python3 program.py` are the nodes of one job.  Errors are exceptions,
all of them below roam.Error.  Any thread may use an element, and wait there.
"""
import atexit
import collections
import os

from . import _arguments, _wait
from ._cdef import NUMBERS as _NUMBERS, VERSION as __version__
from ._errors import (Busy, Cancelled, Error, Gone, Invalid, Lost, Mismatch, NoMemory, NoSpace,
                      OutOfRange, Peer, Protocol, StateError, System, Timeout, TooBig, Unknown,
                      Unsupported, WrongKey, WrongSize, WrongType, must as _must)
from ._heap import Lock, array, touch
from ._library import ffi as _ffi, lib as _lib, text as _text
from ._template import Template as _Template

__all__ = ['__version__', 'Busy', 'Cancel', 'Cancelled', 'Element', 'Error', 'Gone', 'Invalid', 'Lock', 'Lost',
           'Mismatch', 'NoMemory', 'NoSpace', 'Observed', 'OutOfRange', 'Peer', 'Protocol', 'Server', 'State',
           'StateError', 'System', 'Timeout', 'TooBig', 'Unknown', 'Unsupported', 'WrongKey',
           'WrongSize', 'WrongType', 'array', 'barrier', 'finish', 'node', 'nodes', 'register', 'serve',
           'start', 'thread_fini', 'thread_init', 'touch', 'version']

TUPLE_MAX = _NUMBERS['ROAM_PS_TUPLE_MAX']
UNLIMITED = 2 ** 64 - 1
_TRY = 2 ** 64 - 1  # as a timeout


# ---------------------------------------------------------------------------------- the program

_forked = False
_finished = False


def _in_child():
    global _forked
    _forked = True
    _wait.forget()


os.register_at_fork(after_in_child=_in_child)


def _here():
    if _forked:
        raise StateError(_lib.ROAM_ESTATE, 'this process was forked by a node, and is none')


def start():
    """Joins the job.  Calls that need the job do so themselves.  Call it before other threads exist."""
    _here()
    _must(_lib.roam_start())


def finish():
    """Leaves the job when all nodes do.  The end of the program calls it."""
    global _finished
    if not _forked:
        _finished = True
        _must(_lib.roam_finish())


# Threads that wait in C must not return into an interpreter that is ending.
atexit.register(finish)


def _join():
    """Before roam has started there is one node, 0."""
    if not _forked and not _finished:
        start()


def node():
    """This node's number."""
    _join()
    return _lib.roam_node()


def nodes():
    """The number of nodes of the job."""
    _join()
    return _lib.roam_nodes()


def barrier():
    """Waits until all nodes have called it."""
    _here()
    _must(_lib.roam_barrier_all())


def thread_init():
    """Registers the calling thread as one that synchronises: barrier counts it, and it may use elements
    in pages.  Call thread_fini before it ends."""
    _here()
    _must(_lib.roam_thread_init())


def thread_fini():
    _must(_lib.roam_thread_fini())


def version():
    return _text(_lib.roam_version())


_registered = []


def register(name, function=None, arg=None, *, match=None):
    """Registers an X-function on this node.  `function` (of a reduction) or `match` (of a filter) is the
    address of a C function like combine or match in struct roam_ps_function (roam/pastset.h): an int,
    or a pointer of cffi or ctypes.  `arg` is an address, too."""
    _here()
    made = _ffi.new('struct roam_ps_function *')
    kept = _ffi.new('char[]', _arguments.text('name', name))
    made.name = kept
    made.combine = _ffi.cast('void (*)(void *, void *, const void *, size_t)', _address(function))
    made.match = _ffi.cast(
        'bool (*)(void *, uint64_t, const void *, size_t, const void *, size_t)', _address(match))
    made.arg = _ffi.cast('void *', _address(arg))
    _must(_lib.roam_ps_register(made))
    _registered.append((kept, function, arg, match))


def _address(pointer):
    if pointer is None:
        return 0
    if isinstance(pointer, (int, _ffi.CData)):
        return int(pointer) if isinstance(pointer, int) else int(_ffi.cast('uintptr_t', pointer))
    import ctypes  # pylint: disable=import-outside-toplevel
    return ctypes.cast(pointer, ctypes.c_void_p).value


# ------------------------------------------------------------------------------------- elements

State = collections.namedtuple('State', 'first last oldest delta bytes waiting')


class Observed(tuple):
    """A tuple's values, and its number; `skipped`: tuples behind the given number were truncated;
    `moved`: the number of the tuple that mob moved."""

    number = moved = 0
    skipped = False


class Cancel:
    """Ends the waiting operations to which it was passed."""

    def __init__(self):
        self._c = _ffi.new('struct roam_ps_cancel *')

    def cancel(self):
        _lib.roam_ps_cancel(self._c)


def _options(place, delta, forget, storage, memory, function, participants):
    options = _ffi.new('struct roam_ps_options *')
    storages = {'server': _lib.ROAM_PS_SERVER, 'pages': _lib.ROAM_PS_PAGES}
    kept = None
    if place == 'creator':
        options.place = _lib.ROAM_PS_CREATOR
    elif place != 'hash':
        if isinstance(place, str):
            raise Invalid(_lib.ROAM_EINVAL,
                          f"place is 'hash', 'creator' or a node's number, not {place!r}")
        options.place = _lib.ROAM_PS_NODE
        options.node = _arguments.number('place', place, most=2 ** 32 - 1)
    if not isinstance(storage, str) or storage not in storages:
        raise Invalid(_lib.ROAM_EINVAL, f'there is no such storage as {storage}')
    options.storage = storages[storage]
    options.memory = _arguments.number('memory', memory)
    options.delta = 0 if delta is None else _arguments.number('delta', delta)
    options.forget = bool(forget)
    if function is not None:
        kept = _ffi.new('char[]', _arguments.text('function', function))
        options.function = kept
        options.participants = _arguments.number('participants', participants, most=2 ** 32 - 1)
    return options, kept


def _path(name, value):
    try:
        return _arguments.text(name, os.fspath(value)) if not isinstance(value, bytes) else value
    except TypeError:
        return _arguments.text(name, value)


def _key(file):
    return _ffi.NULL if file is None else _path('key', file)


class Server:
    """A connection to `roam past serve`, or to a node that serves.  The address is HOST:PORT, or the path
    of a Unix socket; `key` is the file with the key, None: the file that ROAM_PS_KEY names.  The program
    does not become a node.

        with roam.Server('./tuples') as server:
            tasks = roam.Element('tasks', 'u32', server=server)
    """

    def __init__(self, address, key=None):
        made = _ffi.new('struct roam_ps_server **')
        err = _lib.roam_ps_attach(_path('address', address), _key(key), made)
        _must(err, _text(_lib.roam_ps_why()))
        self.address = address
        self._c = _ffi.gc(made[0], _lib.roam_ps_detach)

    def __repr__(self):
        return f'<roam.Server {self.address}>'

    def detach(self):
        """Leaves the server: operations in progress and later ones raise Lost."""
        c, self._c = self._c, None
        if c is not None:
            _ffi.release(c)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.detach()


def serve(address, key=None):
    """Lets programs attach to this node of a job as to a `roam past serve`: with roam.Server, or from
    other languages.  Returns the address for them.  Makes the key file if it does not exist."""
    _here()
    room = _ffi.new('char[]', 300)
    _must(_lib.roam_ps_serve(_path('address', address), _key(key), room, 300),
          _text(_lib.roam_ps_why()))
    return _text(room)


class Element:
    """A binding to the element with this name.  The element is created if it is new; the options apply
    then.

    place         'hash', 'creator', or the number of a node; at a Server, 'creator' is the node that serves
    delta         DeltaValue; None: unlimited
    forget        observed tuples make room for new ones
    storage       'server' or 'pages'; memory: bytes of the heap, for 'pages'
    function      an X-function's name; participants: their number, each has its own binding
    server        the Server that has the element; None: the nodes of the job
    timeout       seconds in which the server must answer; None: 10
    """

    def __init__(self, name, template, *, place='hash', delta=None, forget=False, storage='server',
                 memory=0, function=None, participants=0, server=None, timeout=None):
        self._attached = server is not None
        if self._attached:
            _arguments.one_of('server', server, Server)
        self._check()
        made = _ffi.new('struct roam_ps_element **')
        options, kept = _options(place, delta, forget, storage, memory, function, participants)
        options.timeout_ns = _arguments.timeout(timeout, 0, _TRY)
        words = (_ffi.NULL if name is None else _arguments.text('name', name),
                 _arguments.text('template', template), options, made)
        if not self._attached:
            err = _lib.roam_ps_enter(*words)
        elif server._c is None:
            raise StateError(_lib.ROAM_ESTATE, 'the program has left the server')
        else:
            err = _lib.roam_ps_enter_at(server._c, *words)
        del kept
        _must(err, _text(_lib.roam_ps_why()), element=template if name is None else name)
        self._c = _ffi.gc(made[0], _lib.roam_ps_leave)
        self._template = _Template(_text(_lib.roam_ps_template(self._c)))
        self.name = self._template.text if name is None else name

    def __repr__(self):
        return f'<roam.Element {self.name}: {self.template}>'

    def _check(self):
        if not self._attached:
            _here()

    @property
    def template(self):
        return self._template.text

    @property
    def node(self):
        """The node at which the element lives."""
        return _lib.roam_ps_node(self._c)

    # ---------------------------------------------------------------------------- operations

    def move(self, *values, timeout=None, cancel=None):
        """Appends a tuple, and returns its number.  Waits while DeltaValue forbids it, at most `timeout`
        seconds."""
        request = self._request(_lib.ROAM_PS_MOVE, timeout, cancel)
        data = self._fill(request, values)
        self._call(request, data)
        return request.moved

    def observe(self, *, number=None, after=None, last=False, like=None, fields=1, peek=False,
                skip=False, timeout=None, cancel=None):
        """Reads a tuple and tags it as observed: the oldest unobserved one; or the one with this number;
        or the first after a number; or the last; or, in an element with the function 'match' or a
        program's own filter, the oldest unobserved one that matches a tuple such as (1, 'x') in the
        outermost fields whose bits are set in `fields`.  peek: does not tag it.  skip, with last: tags
        all older ones, too.  Waits until the tuple is there."""
        request = self._request(_lib.ROAM_PS_OBSERVE, timeout, cancel)
        wanted = [what for what in (number, after) if what is not None]
        pattern = None
        if len(wanted) + bool(last) + (like is not None) > 1:
            raise Invalid(_lib.ROAM_EINVAL, 'one of number, after, last and like')
        if like is not None:
            request.which = _lib.ROAM_PS_MATCH
            request.number = _arguments.number('fields', fields)
            pattern = self._fill(request, like)
        elif last:
            request.which = _lib.ROAM_PS_LAST
        elif wanted:
            request.which = _lib.ROAM_PS_NUMBER if after is None else _lib.ROAM_PS_NEXT
            request.number = _arguments.number('number' if after is None else 'after', wanted[0])
        request.flags = (bool(peek) * _NUMBERS['ROAM_PS_PEEK'] |
                         bool(skip) * _NUMBERS['ROAM_PS_SKIP'])
        return self._observed(request, (self._room(request), pattern))

    def mob(self, *values, source=None, timeout=None, cancel=None):
        """Moves a tuple, then observes one of `source`, or of the element itself."""
        source = self if source is None else _arguments.one_of('source', source, Element)
        request = self._request(_lib.ROAM_PS_MOB, timeout, cancel)
        data = self._fill(request, values)
        setattr(request, 'from', source._c)  # `from` is a keyword of Python
        return self._observed(request, (source._room(request), data), source)

    def delta(self, most):
        """Sets DeltaValue, the most by which Last + 1 may exceed First."""
        request = self._request(_lib.ROAM_PS_DELTA)
        request.number = _arguments.number('delta', most)
        self._call(request)

    def truncate(self, number=None):
        """Removes all tuples with lower numbers; without a number all tuples."""
        request = self._request(_lib.ROAM_PS_TRUNCATE)
        request.number = UNLIMITED if number is None else _arguments.number('number', number)
        self._call(request)

    def state(self):
        request = self._request(_lib.ROAM_PS_STATE)
        self._call(request)
        return State(*(getattr(request.state, name) for name in State._fields))

    # ------------------------------------------------------------------------------ the call

    @staticmethod
    def _request(operation, timeout=None, cancel=None):
        request = _ffi.new('struct roam_ps_request *')
        request.op = operation
        request.timeout_ns = _arguments.timeout(timeout, 0, _TRY)
        if cancel is not None:
            request.cancel = _arguments.one_of('cancel', cancel, Cancel)._c
        return request

    def _fill(self, request, values):
        data = _ffi.from_buffer(self._template.pack(values, self.name))
        request.tuple, request.bytes = data, len(data)
        return data

    @staticmethod
    def _room(request):
        room = _ffi.new('char[]', TUPLE_MAX)
        request.buffer, request.limit = room, TUPLE_MAX
        return room

    def _call(self, request, kept=None):
        self._check()
        err = _wait.run(self._c, request)
        del kept
        _must(err, self._why(err, request), request.moved, self.name)

    @staticmethod
    def _why(err, request):
        """What the error's own text leaves out."""
        if err not in (_lib.ROAM_ENOSPC, _lib.ROAM_ETOOBIG):
            return ''
        size = request.bytes if err == _lib.ROAM_ENOSPC else request.got
        return f'{_text(_lib.roam_strerror(err))}: a tuple of {size} bytes'

    def _observed(self, request, kept, source=None):
        self._call(request, kept)
        template = (source or self)._template
        made = Observed(template.unpack(_ffi.buffer(request.buffer, request.got)))
        made.number, made.moved, made.skipped = request.observed, request.moved, request.skipped
        return made
