"""How much memory is in use: unlike what a process has of the system, it does not depend on what was freed before."""

import ctypes

import pytest

NEEDS_MALLINFO = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="asks glibc 2.33 or newer how much memory is in use"
)


class _Mallinfo2(ctypes.Structure):
    """Of these, `hblkhd` are bytes in use in blocks of their own, and `uordblks` all others in use."""

    names = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]
    _fields_ = [(name, ctypes.c_size_t) for name in names]


def memory_in_use() -> int:
    """Bytes of this process that malloc has given and nobody has freed; Python's small objects are not among them."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return info.uordblks + info.hblkhd
