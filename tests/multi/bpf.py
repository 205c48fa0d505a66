"""Links of programs in the kernel (BPF): which there are, and which processes have them open.  Other tests
make and close links meanwhile; a test therefore looks for those of its own processes."""
import contextlib
import ctypes
import errno
import glob
import re
import struct


def links():
    """The numbers of all links."""
    found, last = set(), 0
    libc = ctypes.CDLL(None, use_errno=True)
    while True:
        data = ctypes.create_string_buffer(struct.pack('<II', last, 0), 128)
        if libc.syscall(321, 31, data, 128) != 0:  # bpf, BPF_LINK_GET_NEXT_ID
            if ctypes.get_errno() != errno.ENOENT:
                raise OSError(ctypes.get_errno(), 'bpf: links')
            return found
        last = struct.unpack_from('<I', data, 4)[0]
        found.add(last)


def links_of(pids):
    """The numbers of the links that these processes have open."""
    found = set()
    for pid in pids:
        for path in glob.glob(f'/proc/{pid}/fdinfo/*'):
            with contextlib.suppress(OSError), open(path, encoding='ascii') as file:  # it may be closed by now
                found.update(int(number) for number in re.findall(r'^link_id:\s*(\d+)$', file.read(), re.M))
    return found
