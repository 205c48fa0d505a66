"""The C library."""
import cffi

from . import _cdef

NAME = 'libroam-late.so.0'

ffi = cffi.FFI()
ffi.cdef(_cdef.CDEF)
try:
    lib = ffi.dlopen(NAME)
except OSError as error:
    raise ImportError(f'{error}; roam is to be installed (ninja install), or LD_LIBRARY_PATH to '
                      f'say where its {NAME} is') from None


def text(value):
    return ffi.string(value).decode(errors='replace')


if text(lib.roam_version()) != _cdef.VERSION:
    raise ImportError(f'{NAME} is of version {text(lib.roam_version())}, the package of '
                      f'{_cdef.VERSION}')
