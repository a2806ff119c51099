"""Locks between processes, which the system takes back when a process ends, however."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path
from typing import IO

from tf_transformer.errors import UserError, reason

# What a file system without locks says.
_NONE = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


def lock(file: IO, folder: Path, advice: str, *, wait: bool = False, shared: bool = False) -> bool:
    """Locks a file until it is closed.

    Args:
        file: open for reading and writing, as some network file systems want it.
        folder: what it stands for, which an error's message names.
        advice: how to give another folder.
        wait: whether to wait where another process has it locked.
        shared: whether others may have it locked at the same time, if they share it too.

    Returns:
        Whether it is locked; always, where that is waited for.

    Raises:
        UserError: it can't be, as on a file system without locks.

    Example:
        >>> from tempfile import TemporaryFile
        >>> with TemporaryFile() as file:
        ...     lock(file, Path("runs/NAME"), "with --run-dir")
        True
    """
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, operation if wait else operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        why = ", since its file system has no locks; mount it with them (Lustre: -o flock), or"
        raise UserError(
            f"{folder}: can't be locked ({reason(error)}){why if error.errno in _NONE else ';'} choose a folder on "
            f"another file system {advice}"
        ) from None
    return True
