#!/usr/bin/env python3
"""Runs a command as a container does by default: what Docker's and Podman's profile refuses is
refused, no capabilities but theirs, and 64 KiB of locked memory.

usage: confined.py COMMAND [ARGUMENT]...
"""
import ctypes
import os
import resource
import struct
import sys

# x86-64 numbers of the calls that the profile refuses, or ties to capabilities that containers
# lack.
REFUSED = {
    'ptrace-like': {'kcmp': 312, 'pidfd_getfd': 438, 'process_madvise': 440},
    'memory': {'userfaultfd': 323, 'mbind': 237, 'set_mempolicy': 238, 'get_mempolicy': 239,
               'migrate_pages': 256, 'move_pages': 279},
    'io_uring': {'io_uring_setup': 425, 'io_uring_enter': 426, 'io_uring_register': 427},
    'keys': {'add_key': 248, 'request_key': 249, 'keyctl': 250},
    'tracing': {'perf_event_open': 298, 'bpf': 321, 'lookup_dcookie': 212, 'fanotify_init': 300},
    'system': {'mount': 165, 'umount2': 166, 'pivot_root': 155, 'swapon': 167,
               'swapoff': 168, 'reboot': 169, 'sethostname': 170, 'setdomainname': 171, 'iopl': 172,
               'ioperm': 173, 'init_module': 175, 'delete_module': 176, 'quotactl': 179,
               'acct': 163, 'settimeofday': 164, 'kexec_load': 246,
               'unshare': 272, 'setns': 308, 'open_by_handle_at': 304, 'clock_settime': 227,
               'finit_module': 313, 'kexec_file_load': 320, 'vhangup': 153},
}
PERSONALITY, CLONE, CLONE3 = 135, 56, 435
PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xffffffff)
NEW_NAMESPACES = 0x7e020000
KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)  # capabilities of a container
EPERM, ENOSYS = 1, 38
ALLOW, ERRNO = 0x7fff0000, 0x00050000
LOAD, EQUAL, SET, RETURN = 0x20, 0x15, 0x45, 0x06  # of classic BPF
NUMBER, ARGUMENT = 0, 16                           # in struct seccomp_data
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_CAPBSET_DROP = 38, 22, 24


def program():
    """The filter's instructions."""
    code = [(LOAD, 0, 0, NUMBER)]
    for number in sorted(number for group in REFUSED.values() for number in group.values()):
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | EPERM)]
    code += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | ENOSYS)]
    code += [(EQUAL, 0, 4, CLONE), (LOAD, 0, 0, ARGUMENT), (SET, 0, 1, NEW_NAMESPACES),
             (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, 2 + 2 * len(PERSONALITIES), PERSONALITY), (LOAD, 0, 0, ARGUMENT)]
    for value in PERSONALITIES:
        code += [(EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW)]
    return code + [(RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]


def confine():
    """This process, and all that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        for capability in range(64):
            if capability not in KEPT:
                libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    most = 65536 if hard == resource.RLIM_INFINITY else min(65536, hard)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
    code = b''.join(struct.pack('HBBI', *line) for line in program())
    kept = ctypes.create_string_buffer(code)
    filters = struct.pack('HxxxxxxQ', len(code) // 8, ctypes.addressof(kept))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(filters), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), 'seccomp')


if __name__ == '__main__':
    confine()
    os.execvp(sys.argv[1], sys.argv[1:])
