"""The exceptions: all below Error, a class for each kind of error."""
from ._library import lib as _lib, text as _text


class Error(Exception):
    """What went wrong; `code` is the value of enum roam_err."""

    code = None
    moved = 0       #: of a mob that ended in its second half: the number that it moved, or 0
    element = None  #: the name of the element
    field = None    #: of a value that no tuple can hold: its place in the template, such as '2[0].1'
    size = None     #: what that field takes, in words

    def __init__(self, code, why='', moved=0, element=None):
        why = why or _text(_lib.roam_strerror(code))
        named = element is None or why.startswith('element ')
        super().__init__(why if named else f'element {element}: {why}')
        self.code = code
        self.moved = moved
        self.element = element


class Invalid(Error, ValueError):
    """Invalid arguments, or an invalid template."""


class WrongType(Error, TypeError):
    """A value or an argument of a wrong type."""


class WrongSize(Invalid):
    """More or fewer values than a field takes, or than the template has fields."""


class OutOfRange(Invalid):
    """A number that its field, or the argument, cannot hold."""


class StateError(Error, RuntimeError):
    """Not allowed at this point of the program."""


class Unknown(Error, LookupError):
    """A name that is not known: of an X-function, of an option."""


class Unsupported(Error, NotImplementedError):
    """Not supported by this kernel, build or protocol."""


class Mismatch(Error, TypeError):
    """The element has another template, or X-function; the array has another size."""


class Gone(Error, LookupError):
    """The tuple was truncated, or the server has forgotten this program."""


class Lost(Error, ConnectionError):
    """The server is gone, or a participant of an X-function; or the server does not answer, and
    whether the operation was done is not known."""


class Peer(Error, ConnectionError):
    """Another node of the job failed."""


class Protocol(Error, ConnectionError):
    """The peer is not a server of elements, or has another version."""


class WrongKey(Error, PermissionError):
    """The server has another key."""


class NoSpace(Error, MemoryError):
    """The memory for tuples is used up."""


class NoMemory(NoSpace):
    """The program's own memory, or the shared heap, is used up."""


class Busy(Error, BlockingIOError):
    """Too many operations are in progress, or a lock is held."""


class System(Error, OSError):
    """A system call failed."""


class TooBig(Error, ValueError):
    """The tuple is too large."""


class Timeout(Error, TimeoutError):
    """Not done within the time given."""


class Cancelled(Error):
    """Cancelled by another thread."""


_CLASSES = {_lib.ROAM_EINVAL: Invalid, _lib.ROAM_ENOMEM: NoMemory, _lib.ROAM_ESTATE: StateError,
            _lib.ROAM_EUNSUPPORTED: Unsupported, _lib.ROAM_EUNKNOWN: Unknown,
            _lib.ROAM_EAGAIN: Busy, _lib.ROAM_ESYSTEM: System, _lib.ROAM_EPEER: Peer,
            _lib.ROAM_EPROTO: Protocol, _lib.ROAM_ENOSPC: NoSpace, _lib.ROAM_EGONE: Gone,
            _lib.ROAM_ETIMEDOUT: Timeout, _lib.ROAM_ECANCELED: Cancelled,
            _lib.ROAM_EMISMATCH: Mismatch, _lib.ROAM_ETOOBIG: TooBig, _lib.ROAM_EKEY: WrongKey,
            _lib.ROAM_ELOST: Lost, _lib.ROAM_EBUSY: Busy}


def must(err, why='', moved=0, element=None):
    """Raises the error that the C library returned, if it is one."""
    if err != _lib.ROAM_OK:
        raise _CLASSES.get(err, Error)(err, why, moved, element)
