"""Lines in windows: all of them in order, full ones of what lies there, at once of what comes."""

import os
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounded import SECONDS, eventually
from tf_transformer.terminal.windows import LONG, grows, is_long, windows


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers()), st.integers(1, 7), st.booleans())
def test_all_in_order(items, size, at_once):
    found = list(windows(iter(items), size, at_once))
    assert [item for window in found for item in window] == items
    assert all(1 <= len(window) <= size for window in found)
    if not at_once:
        assert all(len(window) == size for window in found[:-1])


def test_what_has_come_is_given_though_more_may_come():
    gates = [threading.Event() for _ in range(2)]

    def slow():
        yield from "ab"
        gates[0].wait(SECONDS)
        yield "c"
        gates[1].wait(SECONDS)

    found = windows(slow(), 10, at_once=True)
    begun = []
    while len(begun) < 2:
        begun += next(found)
    gates[0].set()
    assert (begun, next(found)) == (["a", "b"], ["c"])
    gates[1].set()
    assert list(found) == []


def test_no_more_is_read_than_two_windows():
    read = []

    def many():
        for number in range(1000):
            read.append(number)
            yield number

    found = windows(many(), 10, at_once=True)
    next(found)
    time.sleep(0.1)
    assert len(read) <= 10 + 10 + 1 + 1  # given, waiting, in the reader's hand


def test_windows_are_full_where_reading_is_faster():
    read = []

    def many():
        for number in range(100):
            read.append(number)
            yield number
        read.append(None)

    found = windows(many(), 10, at_once=True)
    for end in range(10, 101, 10):
        eventually(lambda end=end: len(read) > end)  # then all of the window waits
        assert len(next(found)) == 10
    assert list(found) == []


def test_an_error_comes_behind_what_came_before_it():
    def failing():
        yield from "abc"
        raise ValueError("no d")

    found, given_so_far = windows(failing(), 2, at_once=True), []
    with pytest.raises(ValueError, match="no d"):
        for window in found:
            given_so_far += window
    assert given_so_far == ["a", "b", "c"]


def test_what_grows_and_what_is_long(tmp_path):
    reading, writing = os.pipe()
    path = tmp_path / "file"
    path.write_bytes(b"x" * LONG)
    with open(reading, "rb") as pipe, open(path, "rb") as file, open(__file__, "rb") as short:
        assert [grows(stream) for stream in (pipe, file, short)] == [True, False, False]
        assert [is_long(stream) for stream in (pipe, file, short)] == [False, True, False]
    os.close(writing)
