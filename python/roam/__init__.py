"""PastSet: processes share elements, ordered sequences of tuples of one template.

    import roam

    tasks = roam.Element('tasks', 'u32, f64[3]')   # binds, makes it if it is new
    tasks.move(7, [0.5, 1, 2])                     # adds a tuple at the end
    number, place = tasks.observe()                # takes the oldest nobody has observed

A template is text: i8 to i64, u8 to u64, f32, f64; [3] and [] behind a field for arrays, as long as
it says or as the tuple says; ( ) around a group of fields.  Numbers are ints and floats, a group is a
tuple, an array a list, but one of u8 is bytes.  include/roam/pastset.h has the meaning of it all.

Programs that `roam run -n 4 python3 program.py` started are the nodes of one job.  Errors are
exceptions, all of them below roam.Error.  Any thread may use an element, and wait there.
"""
import atexit
import collections
import os

from . import _wait
from ._cdef import NUMBERS as _NUMBERS, VERSION as __version__
from ._library import ffi as _ffi, lib as _lib, text as _text
from ._template import Template as _Template

__all__ = ['__version__', 'Cancel', 'Cancelled', 'Element', 'Error', 'Gone', 'Invalid', 'Lost', 'Mismatch',
           'NoSpace', 'Observed', 'Server', 'State', 'StateError', 'Timeout', 'TooBig', 'Unknown', 'barrier', 'finish',
           'node', 'nodes', 'register', 'serve', 'start', 'thread_fini', 'thread_init', 'version']

TUPLE_MAX = _NUMBERS['ROAM_PS_TUPLE_MAX']
UNLIMITED = 2 ** 64 - 1
_TRY = 2 ** 64 - 1  # as a timeout


# --------------------------------------------------------------------------------------- errors

class Error(Exception):
    """What went wrong; `code` is the value of enum roam_err."""

    code = None

    def __init__(self, code, why='', moved=0):
        super().__init__(why or _text(_lib.roam_strerror(code)))
        self.code = code
        self.moved = moved  #: of a mob that ended in its second half: what it moved, or 0


class Invalid(Error, ValueError):
    """Arguments, or a template, that make no sense."""


class StateError(Error, RuntimeError):
    """Not at this point of the program."""


class Unknown(Error, LookupError):
    """A name that is not known: of an X-function, of an option."""


class Mismatch(Error, TypeError):
    """The element has another template, or X-function."""


class Gone(Error, LookupError):
    """The tuple was truncated, or the server has forgotten this program."""


class Lost(Error, ConnectionError):
    """The server is gone, or a participant of an X-function."""


class NoSpace(Error, MemoryError):
    """The memory for tuples is used up."""


class TooBig(Error, ValueError):
    """The tuple is larger than one may be."""


class Timeout(Error, TimeoutError):
    """Not done within the time given."""


class Cancelled(Error):
    """Cancelled by another thread."""


_CLASSES = {_lib.ROAM_EINVAL: Invalid, _lib.ROAM_ESTATE: StateError, _lib.ROAM_EUNKNOWN: Unknown,
            _lib.ROAM_EMISMATCH: Mismatch, _lib.ROAM_EGONE: Gone, _lib.ROAM_ENOSPC: NoSpace,
            _lib.ROAM_ENOMEM: NoSpace, _lib.ROAM_ETOOBIG: TooBig, _lib.ROAM_ETIMEDOUT: Timeout,
            _lib.ROAM_ECANCELED: Cancelled, _lib.ROAM_ELOST: Lost}


def _must(err, why='', moved=0):
    if err != _lib.ROAM_OK:
        raise _CLASSES.get(err, Error)(err, why, moved)


# ---------------------------------------------------------------------------------- the program

_forked = False


def _in_child():
    global _forked
    _forked = True
    _wait.forget()


os.register_at_fork(after_in_child=_in_child)


def _here():
    if _forked:
        raise StateError(_lib.ROAM_ESTATE, 'this process was forked by a node, and is none')


def start():
    """Joins the job; what needs it does so by itself.  Before other threads exist."""
    _here()
    _must(_lib.roam_start())


def finish():
    """Leaves the job, when all do; at the end of the program at the latest."""
    if not _forked:
        _must(_lib.roam_finish())


# Threads that wait in C must not meet an interpreter that is going away.
atexit.register(finish)


def node():
    """This node's number."""
    return _lib.roam_node()


def nodes():
    """Nodes of the job."""
    return _lib.roam_nodes()


def barrier():
    """Waits until all nodes have called it."""
    _here()
    _must(_lib.roam_barrier_all())


def thread_init():
    """Makes the calling thread one that synchronises: counted by barrier, and let to elements in
    pages.  thread_fini before it ends."""
    _here()
    _must(_lib.roam_thread_init())


def thread_fini():
    _must(_lib.roam_thread_fini())


def version():
    return _text(_lib.roam_version())


_registered = []


def register(name, function=None, arg=None, *, match=None):
    """Makes an X-function known on this node: `function`, of a reduction, or `match`, of a filter, is
    the address of a C function as combine or match in struct roam_ps_function (roam/pastset.h); an
    int, a pointer of cffi or ctypes.  `arg` is an address, too."""
    _here()
    made = _ffi.new('struct roam_ps_function *')
    kept = _ffi.new('char[]', name.encode())
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
    """A tuple's values, and its number; `skipped`: the ones after the number given were truncated;
    `moved`: the number of the tuple that mob moved."""

    number = moved = 0
    skipped = False


class Cancel:
    """Ends operations that wait: those that were given it."""

    def __init__(self):
        self._c = _ffi.new('struct roam_ps_cancel *')

    def cancel(self):
        _lib.roam_ps_cancel(self._c)


def _timeout(seconds):
    if seconds is None:
        return 0
    return min(int(seconds * 1e9), _TRY - 1) if seconds > 0 else _TRY


def _options(place, delta, forget, storage, memory, function, participants):
    options = _ffi.new('struct roam_ps_options *')
    storages = {'server': _lib.ROAM_PS_SERVER, 'pages': _lib.ROAM_PS_PAGES}
    kept = None
    if place == 'creator':
        options.place = _lib.ROAM_PS_CREATOR
    elif place != 'hash':
        options.place, options.node = _lib.ROAM_PS_NODE, place
    if storage not in storages:
        raise Invalid(_lib.ROAM_EINVAL, f'there is no such storage as {storage}')
    options.storage, options.memory = storages[storage], memory
    options.delta, options.forget = delta or 0, forget
    if function is not None:
        kept = _ffi.new('char[]', function.encode())
        options.function, options.participants = kept, participants
    return options, kept


class Server:
    """A `roam past serve`, or a node that serves, that the program attaches to: HOST:PORT, or the path of a Unix socket, and
    the file with the key; None: the one that ROAM_PS_KEY names.  It makes no node of the program.

        with roam.Server('./tuples') as server:
            tasks = roam.Element('tasks', 'u32', server=server)
    """

    def __init__(self, address, key=None):
        made = _ffi.new('struct roam_ps_server **')
        err = _lib.roam_ps_attach(os.fsencode(address), _ffi.NULL if key is None else
                                  os.fsencode(key), made)
        _must(err, _text(_lib.roam_ps_why()))
        self.address = address
        self._c = _ffi.gc(made[0], _lib.roam_ps_detach)

    def __repr__(self):
        return f'<roam.Server {self.address}>'

    def detach(self):
        """Leaves the server: operations under way and later ones are Lost."""
        c, self._c = self._c, None
        if c is not None:
            _ffi.release(c)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.detach()


def serve(address, key=None):
    """Lets programs attach to this node of a job as to a `roam past serve`: with roam.Server, or from
    other languages.  Returns the address as they may use it.  The key is made if there is no file."""
    _here()
    room = _ffi.new('char[]', 300)
    _must(_lib.roam_ps_serve(os.fsencode(address), _ffi.NULL if key is None else os.fsencode(key), room,
                             300), _text(_lib.roam_ps_why()))
    return _text(room)


class Element:
    """A binding to the element of that name, which is made if it is new: then the options count.

    place         'hash', 'creator', or the number of a node; at a Server, 'creator' is the node that serves
    delta         DeltaValue; None: unlimited
    forget        observed tuples make room for new ones
    storage       'server' or 'pages'; memory: bytes of the heap, for 'pages'
    function      an X-function's name; participants: in it, each of whom has a binding of its own
    server        a Server that has the element; None: the nodes of the job
    """

    def __init__(self, name, template, *, place='hash', delta=None, forget=False, storage='server',
                 memory=0, function=None, participants=0, server=None):
        self._attached = server is not None
        self._check()
        made = _ffi.new('struct roam_ps_element **')
        options, kept = _options(place, delta, forget, storage, memory, function, participants)
        words = (_ffi.NULL if name is None else name.encode(), template.encode(), options, made)
        if not self._attached:
            err = _lib.roam_ps_enter(*words)
        elif server._c is None:
            raise StateError(_lib.ROAM_ESTATE, 'the program has left the server')
        else:
            err = _lib.roam_ps_enter_at(server._c, *words)
        del kept
        _must(err, _text(_lib.roam_ps_why()))
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
        """The node that it lives at."""
        return _lib.roam_ps_node(self._c)

    # ---------------------------------------------------------------------------- operations

    def move(self, *values, timeout=None, cancel=None):
        """Adds a tuple, and returns its number.  Waits while DeltaValue forbids it, at most so many
        seconds."""
        request = self._request(_lib.ROAM_PS_MOVE, timeout, cancel)
        data = self._fill(request, values)
        self._call(request, data)
        return request.moved

    def observe(self, *, number=None, after=None, last=False, like=None, fields=1, peek=False,
                skip=False, timeout=None, cancel=None):
        """Reads a tuple and tags it as observed: the oldest that nobody has observed; or that of a
        number; or the first after a number; or the last; or, of an element with the function 'match'
        or a program's own filter, the oldest that nobody has observed and that is like a tuple,
        (1, 'x') say, in the outermost fields whose bits are set in `fields`.  peek: does not tag
        it.  skip, with last: tags all older ones.  Waits until it is there."""
        request = self._request(_lib.ROAM_PS_OBSERVE, timeout, cancel)
        wanted = [what for what in (number, after) if what is not None]
        pattern = None
        if len(wanted) + bool(last) + (like is not None) > 1:
            raise Invalid(_lib.ROAM_EINVAL, 'one of number, after, last and like')
        if like is not None:
            request.which = _lib.ROAM_PS_MATCH
            request.number = fields
            pattern = self._fill(request, like)
        elif last:
            request.which = _lib.ROAM_PS_LAST
        elif wanted:
            request.which = _lib.ROAM_PS_NUMBER if after is None else _lib.ROAM_PS_NEXT
            request.number = wanted[0]
        request.flags = peek * _NUMBERS['ROAM_PS_PEEK'] | skip * _NUMBERS['ROAM_PS_SKIP']
        return self._observed(request, (self._room(request), pattern))

    def mob(self, *values, source=None, timeout=None, cancel=None):
        """Moves a tuple, then observes one of `source`, or of the element itself."""
        source = self if source is None else source
        request = self._request(_lib.ROAM_PS_MOB, timeout, cancel)
        data = self._fill(request, values)
        setattr(request, 'from', source._c)  # a word of Python's
        return self._observed(request, (source._room(request), data), source)

    def delta(self, most):
        """Sets DeltaValue, the most by which Last + 1 may exceed First."""
        request = self._request(_lib.ROAM_PS_DELTA)
        request.number = most
        self._call(request)

    def truncate(self, number=None):
        """Removes all tuples with lower numbers; all there are."""
        request = self._request(_lib.ROAM_PS_TRUNCATE)
        request.number = UNLIMITED if number is None else number
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
        request.timeout_ns = _timeout(timeout)
        if cancel is not None:
            request.cancel = cancel._c
        return request

    def _fill(self, request, values):
        data = _ffi.from_buffer(self._template.pack(values))
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
        _must(err, moved=request.moved)

    def _observed(self, request, kept, source=None):
        self._call(request, kept)
        template = (source or self)._template
        made = Observed(template.unpack(_ffi.buffer(request.buffer, request.got)))
        made.number, made.moved, made.skipped = request.observed, request.moved, request.skipped
        return made
