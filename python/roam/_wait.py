"""Operations that wait in C, and Ctrl-C.  Python handles a signal only in its main thread, between two
steps of the program, and a wait in C is one step.  Therefore, while the main thread waits, another
thread reads what signals write to Python's wake-up descriptor, and cancels the operation; Python then
handles the signal."""
import signal
import socket
import threading

from ._library import ffi, lib


class _Waker:
    """The thread, made when first needed."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.lock = threading.Lock()
        self.cancel = None  # of the operation under way
        threading.Thread(target=self._serve, name='roam', daemon=True).start()

    def _serve(self):
        while self.ours.recv(64):
            with self.lock:
                if self.cancel is not None:
                    lib.roam_ps_cancel(self.cancel)


_waker = None


def forget():
    """Called in a forked child, which does not have the thread."""
    global _waker
    _waker = None


def _call(element, request):
    """The operation's error, and whether a signal cancelled it."""
    global _waker
    if _waker is None:
        _waker = _Waker()
    cancel = request.cancel = ffi.new('struct roam_ps_cancel *')
    _waker.cancel = cancel
    before = signal.set_wakeup_fd(_waker.theirs.fileno(), warn_on_full_buffer=False)
    try:
        err = lib.roam_ps_call(element, request)
    finally:
        signal.set_wakeup_fd(before)
        with _waker.lock:  # the thread is not in C any more: the program may end
            _waker.cancel = None
        request.cancel = ffi.NULL
    return err, cancel.cancelled != 0


def run(element, request):
    """The operation's outcome."""
    if request.cancel != ffi.NULL or threading.current_thread() is not threading.main_thread():
        return lib.roam_ps_call(element, request)
    moved = 0
    while True:
        err, signalled = _call(element, request)
        # Python has called the signal's handler by now, which may have raised KeyboardInterrupt.
        moved = moved or request.moved
        if err != lib.ROAM_ECANCELED or not signalled:
            request.moved = moved
            return err
        if request.moved:  # a mob, in its second half
            element, request.op = getattr(request, 'from'), lib.ROAM_PS_OBSERVE
