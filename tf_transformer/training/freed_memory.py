"""Memory that one training step frees stays with the process, for the next step."""

from __future__ import annotations

import ctypes
import os
import sys

# Parameters of glibc's mallopt, from its malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> bool:
    """Makes this process keep freed memory instead of returning it to the system after each training step.

    glibc maps large blocks from the system and unmaps them when they are freed. A step frees and asks for the same
    tensors again, so each step pays for new pages, which the system has to fill with zeros. Kept, they are paid for
    once; the process holds the memory of its largest step until it ends.

    To be called before TensorFlow starts its threads. Does nothing if malloc is not glibc's, or if the
    environment already configures it (`MALLOC_*` or `GLIBC_TUNABLES`).

    Returns:
        Whether freed memory is kept from now on.

    Example:
        >>> kept = keep_freed_memory()
        >>> import tensorflow as tf
    """
    told = any(name.startswith("MALLOC_") for name in os.environ) or "glibc.malloc" in os.getenv("GLIBC_TUNABLES", "")
    # Other libraries of C have no such function.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if told or mallopt is None:
        return False
    # Only the main arena, of which there is one, can grow to more than 64 MiB without mapping.
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: -1, _ARENA_MAX: 1}
    return all([mallopt(parameter, value) == 1 for parameter, value in settings.items()])
