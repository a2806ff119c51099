"""Waiting with an end: what never comes fails its test, and does not hang the run.

A test waits for what must come, never for a time: on a machine that does much else, any thread or process may stand
still for many seconds at any place.
"""

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

# Longer than anything takes on a busy machine.
SECONDS = 240.0


def begun(work: Callable[[], T]) -> Future[T]:
    """Begins some work in a thread that keeps no process from ending; its result has to be asked for within a time."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def within(work: Callable[[], T], seconds: float = SECONDS) -> T:
    """What a call gives that could block for ever, such as `readline`; a TimeoutError where it does."""
    return begun(work).result(seconds)


def eventually(condition: Callable[[], Any], seconds: float = SECONDS, every: float = 0.02) -> None:
    """Waits until the condition holds, at which it looks every so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(every)


@contextmanager
def free_port() -> Iterator[int]:
    """A port of this machine that nobody else is given meanwhile, as one that is free just now might be.

    A socket has it that does not listen; another one may, where both allow that an address is used again.
    """
    with socket.socket() as keeping:
        keeping.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeping.bind(("127.0.0.1", 0))
        yield keeping.getsockname()[1]


@contextmanager
def started(words: list, **options: Any) -> Iterator[subprocess.Popen]:
    """A process that is killed at the end, should it still run: `Popen` alone would wait for it."""
    with subprocess.Popen(words, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def turned_on() -> None:
    """`preexec_fn` of a process that is sent Ctrl-C, which a shell turns off for what it starts in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
