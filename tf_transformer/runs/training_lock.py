"""The lock of a run's folder: one process trains in it at a time."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tf_transformer.errors import UserError, WorkerLost
from tf_transformer.files.locks import lock

logger = logging.getLogger(__name__)

# How to choose another folder for a run.
ANOTHER = "with --run-dir"
# How long to wait for the lock of a machine that may have died: NFS keeps it for some 90 seconds.
LOCK_SECONDS = 120
# Begins the name of a file by which workers see whether the file system has locks.
PROBE = ".lock-probe-"


def check_can_be_locked(folder: Path, nearest: Path) -> None:
    """Raises a UserError where the file system has no locks.

    Args:
        folder: the run's folder, which may not be there yet.
        nearest: a folder of the same file system that is there. Several workers may look at the same time.

    Raises:
        OSError: no file can be made there.
    """
    with tempfile.TemporaryFile(dir=nearest, prefix=PROBE) as file:
        lock(file, folder, ANOTHER)


def is_probe(path: Path) -> bool:
    """Whether a file is only there to see that it can be locked; NFS keeps one that is removed under another name."""
    return path.name.startswith((PROBE, ".nfs"))


@contextmanager
def training_lock(path: Path, folder: Path, patience: float) -> Iterator[None]:
    """Within it, no other process trains in a folder; the system unlocks it when the process ends, however.

    Where the folder's training has ended while its lock was waited for, there is nothing to lock.

    Args:
        path: the file of the lock.
        folder: the run's folder.
        patience: how many seconds to wait for a process of another machine, whose lock may outlive it.

    Raises:
        UserError: another process of this machine trains there, or the file can't be locked.
        WorkerLost: one of another machine does, or did when that machine died.
    """
    began, told = time.monotonic(), False
    while True:
        # Opened each time: where the training has ended meanwhile, its lock's file is gone.
        file = _opened(path)
        if file is None:
            yield  # it is for the caller to see that nothing is left to train
            return
        with file:
            if lock(file, folder, ANOTHER):
                if not _is_still(file, path):
                    continue
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n{_machine()}\n")
                file.flush()
                yield
                return
            holder, machine = _holder(file)
        if machine in ("", _machine()):
            raise UserError(
                f"{folder}: another process is training here ({holder}); wait until it ends, or choose another folder "
                f"{ANOTHER}"
            )
        if time.monotonic() - began >= patience:
            raise WorkerLost(
                f"{folder}: locked by another machine ({holder}): wait until the training there ends or, if the "
                f"machine has died, two minutes, and give the same command again; or choose another folder {ANOTHER}"
            )
        if not told:
            logger.warning("%s: locked by another machine (%s); waiting for %g s", folder, holder, patience)
            told = True
        time.sleep(1)


def _opened(path: Path) -> TextIO | None:
    """The file of a lock, made where it is missing; None if its folder is."""
    try:
        return open(path, "a+", encoding="utf-8")
    except FileNotFoundError:
        return None


def _is_still(file: TextIO, path: Path) -> bool:
    """Whether an open file is the one of this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _machine() -> str:
    """Tells this machine, since its last start, from others; a name may be that of a machine that this one replaces."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux
        return socket.gethostname()


def _holder(file: TextIO) -> tuple[str, str]:
    """What a lock says of the process that has locked it, and of its machine; nothing of one that has just done so."""
    file.seek(0)
    process, machine, *_ = [*file.read().splitlines(), "", ""]
    return process or "just started", machine
