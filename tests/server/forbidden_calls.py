"""Loads NumPy where the system refuses calls, as a systemd unit's SystemCallFilter does; of x86-64 Linux.

python -m tests.server.forbidden_calls EPERM
"""

import ctypes
import errno
import struct
import sys

MBIND = 237  # of the group @resources; OpenBLAS, in NumPy's wheel, calls it as it is loaded
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # instructions of the kernel's packet filter
KILL, REFUSE, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # what it may return; REFUSE with an errno
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def refuse(call: int, verdict: int) -> None:
    """From here on a system call ends in the verdict."""
    steps = [(LOAD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, call), (RETURN, 0, 0, verdict), (RETURN, 0, 0, ALLOW)]
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(instructions))
    system = ctypes.CDLL(None, use_errno=True)
    for words in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0)):
        if system.prctl(*words):
            raise OSError(ctypes.get_errno(), "no filter of system calls can be set")


if __name__ == "__main__":
    refuse(MBIND, REFUSE | getattr(errno, sys.argv[1]) if sys.argv[1:] else KILL)
    import numpy as np

    print((np.ones((300, 300)) @ np.ones((300, 300))).sum())
