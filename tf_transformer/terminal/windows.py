"""Lines in windows: of a file full ones, of a pipe or a terminal what has come."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from itertools import islice
from queue import Queue
from threading import Thread
from typing import NamedTuple, TypeVar

T = TypeVar("T")

# Batches whose lines are sorted by length together, to keep padding small.
WINDOW_BATCHES = 16

# So many bytes are some thousands of sentences.
LONG = 2**18


class _End(NamedTuple):
    """The end of the lines, or what ended them."""

    error: BaseException | None = None


def grows(stream: io.BufferedIOBase) -> bool:
    """Whether lines come one by one, as from a pipe or a terminal, instead of lying there."""
    state = _state(stream)
    return state is not None and not stat.S_ISREG(state.st_mode)


def is_long(stream: io.BufferedIOBase) -> bool:
    """Whether it is a file of some thousands of sentences or more."""
    state = _state(stream)
    return state is not None and stat.S_ISREG(state.st_mode) and state.st_size >= LONG


def _state(stream: io.BufferedIOBase) -> os.stat_result | None:
    try:
        return os.fstat(stream.fileno())
    except OSError:  # none of the system's, but bytes in memory
        return None


def windows(items: Iterator[T], size: int, at_once: bool) -> Iterator[list[T]]:
    """Puts items together, in their order.

    Args:
        items: what to put together. With `at_once` another thread reads it, from now on.
        size: the most items in a window.
        at_once: whether a window is what has come by the time that it is asked for, one item at least; else it is full.

    Returns:
        The windows. What an iterator raises is raised behind the window of the items before it; of full windows, in
        place of that window.

    Example:
        >>> [len(window) for window in windows(iter(range(10)), 4, at_once=False)]
        [4, 4, 2]
        >>> sum(windows(iter(range(10)), 4, at_once=True), start=[]) == list(range(10))
        True
    """
    if not at_once:
        return iter(lambda: list(islice(items, size)), [])
    arrived: Queue[T | _End] = Queue(size)

    def read() -> None:
        try:
            for item in items:
                arrived.put(item)
            arrived.put(_End())
        except BaseException as error:
            arrived.put(_End(error))

    # Where the command ends sooner than its input, nobody waits for what may never come.
    Thread(target=read, daemon=True).start()
    return _what_arrives(arrived, size)


def _what_arrives(arrived: Queue[T | _End], size: int) -> Iterator[list[T]]:
    window: list[T] = []
    while True:
        if len(window) == size or (window and arrived.empty()):
            yield window
            window = []
        item = arrived.get()
        if isinstance(item, _End):
            if window:
                yield window
            if item.error:
                raise item.error
            return
        window.append(item)
