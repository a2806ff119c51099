"""Makes Ctrl-C, and SIGTERM where the same command goes on, end it within about a second at any time.

Imports only the standard library until SIGTERM has come.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STATUS = 128 + signal.SIGINT
GRACE_SECONDS = 1.0


@contextmanager
def ctrl_c_ends() -> Iterator[None]:
    """Within it, Ctrl-C ends the process with status 130, without a traceback.

    Python's own KeyboardInterrupt does not: where it comes while C++ calls Python (an extension that is being imported,
    a function that is being traced), it is dropped or becomes another error; where it comes while Python waits for C++
    or for threads at work, it takes effect when those are done. So it has one second to clean up. Then a thread, which
    the system's signal wakes whatever the main thread is at, ends the process.

    Whoever sets a handler of its own, as a training does that saves its state, has all the time that it takes. Where
    Ctrl-C is ignored, as by what a shell starts in the background, it stays so.
    """
    if signal.getsignal(signal.SIGINT) != signal.default_int_handler:
        yield
        return
    came = threading.Event()

    tell = sys.unraisablehook

    def tell_what_came_before(unraisable: sys.UnraisableHookArgs) -> None:
        """A signal in `__del__` or in a callback of the garbage collector would have its traceback printed."""
        if not (came.is_set() or _terminated.is_set()):
            tell(unraisable)

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.set()
        raise KeyboardInterrupt

    def watch() -> None:
        while number := os.read(reading, 1):
            handled = {interrupt: STATUS, _terminate: os.EX_TEMPFAIL, _end: os.EX_TEMPFAIL}
            status = handled.get(signal.getsignal(number[0]))
            if status is not None:
                time.sleep(GRACE_SECONDS)
                os._exit(status)
        os.close(reading)

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGINT, interrupt)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.unraisablehook = tell_what_came_before
    try:
        yield
    finally:
        if came.is_set():
            os._exit(STATUS)  # whatever came of it; Python's own end would wait for threads at work
        sys.unraisablehook = tell
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(writing)  # which ends the thread


@contextmanager
def sigterm_preempts() -> Iterator[None]:
    """Within it, or in a command that it decorates, SIGTERM raises `Preempted`: the same command, given again, goes on.

    Inside of `ctrl_c_ends` the process has one second to clean up then, as after Ctrl-C. Whoever sets a handler of its
    own, as a training does that saves its state, has all the time that it takes. Where SIGTERM is handled or ignored
    already, it stays so.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    _terminated.clear()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if not _terminated.is_set():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        else:  # whatever came of it
            signal.signal(signal.SIGTERM, _end)
            from tf_transformer.errors import Preempted

            raise Preempted("stopped by SIGTERM; to continue, give the same command again") from None


_terminated = threading.Event()  # whether SIGTERM has come within `sigterm_preempts`


class _Terminated(BaseException):
    """Stops what SIGTERM came in; no `except Exception` on the way takes it for an error of its own."""


def _terminate(number: int, frame: FrameType | None) -> None:
    _terminated.set()
    raise _Terminated


def _end(number: int, frame: FrameType | None) -> None:
    """A second SIGTERM, as where a scheduler sends it to each process; the process is ending already."""
