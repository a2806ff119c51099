"""Prepared pairs are whole, or not there at all: a kill, several processes at once, a full disk, no locks."""

import errno
import itertools
import os
import resource
import signal
import sys
import time

import pytest

from tests.bounded import eventually, started
from tests.data.prepared.small import Counted, contents, numbered, prepare, texts_of
from tests.mistakes import refused
from tf_transformer.data.prepared import preparing
from tf_transformer.data.prepared.store import PreparedPairs
from tf_transformer.errors import UserError

pytestmark = pytest.mark.usefixtures("small_parts")

# It prepares 2,000 pairs, and begins to prepare others, but after 1,000 goes on no more.
SLOW = """
import sys, time
from pathlib import Path
from tests.data.prepared.small import numbered, prepare
from tf_transformer.data.prepared import preparing

preparing.PART = 100

class Pairs:
    def __init__(self, last=-1):
        self.last = last

    def __iter__(self):
        for number, pair in enumerate(numbered(2000)):
            if number == self.last:
                time.sleep(10**6)
            if number % 100 == 0:
                time.sleep(0.05)
            yield pair

prepare(Pairs(), Path(sys.argv[1]))
prepare(Pairs(1000), Path(sys.argv[2]))
"""


def test_two_at_once_make_one_and_one_that_is_killed_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    """This process begins while another is at work, which is killed at the next work that it has begun."""
    both, later = tmp_path / "both", tmp_path / "later"
    parts = later / ".parts-train"
    with started([sys.executable, "-c", SLOW, both / "train", later / "train"]) as other:
        eventually((both / ".parts-train").exists)
        assert not (both / "train").exists()
        assert texts_of(prepare(numbered(2000), both / "train")) == numbered(2000)
        eventually(lambda: len(list(parts.glob("0*.npz"))) >= 5 or other.poll() is not None)
        assert other.poll() is None
    assert {path.name for path in both.iterdir()} == {"train", "lock"}
    assert texts_of(PreparedPairs(both / "train")) == numbered(2000)

    made = len(list(parts.glob("0*.npz")))
    assert 5 <= made < 20 and not (later / "train").exists()
    # One of the parts is damaged, and made again.
    with (parts / "000001.npz").open("r+b") as file:
        file.truncate(1000)
    calls = []
    make_part = preparing.make_part
    monkeypatch.setattr(preparing, "make_part", lambda *given: calls.append(1) or make_part(*given))
    prepare(numbered(2000), later / "train")
    assert len(calls) == 20 - made + 1
    prepare(numbered(2000), tmp_path / "undisturbed")
    assert contents(later / "train") == contents(tmp_path / "undisturbed")
    assert not parts.exists()


def test_parts_of_other_text_or_limits_are_not_gone_on_with(tmp_path, monkeypatch):
    pairs = numbered(450)

    def broken(after):
        yield from pairs[:after]
        raise UserError("the disk is gone")

    class Broken:
        def __iter__(self):
            return broken(350)

    with pytest.raises(UserError, match="the disk is gone"):
        prepare(Broken(), tmp_path / "train")
    changed = [pair if number != 150 else ("new", "neu") for number, pair in enumerate(pairs)]
    prepared = prepare(changed, tmp_path / "train")
    assert texts_of(prepared) == changed
    with pytest.raises(UserError, match="the disk is gone"):
        prepare(Broken(), tmp_path / "train")
    short = prepare(pairs, tmp_path / "train", max_length=12)
    assert texts_of(short) == [pair for pair in pairs if max(map(len, pair)) < 12]


def test_a_full_disk_is_told_in_one_line(tmp_path):
    """No file may have more than some bytes, which is as if the disk were full."""
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for size in (100, 5_000):  # in the first part; where all are put together
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            with pytest.raises(UserError, match="can't be written: File too large") as error:
                prepare(numbered(400), tmp_path / "train")
            assert "\n" not in str(error.value) and not (tmp_path / "train").exists()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert len(prepare(numbered(400), tmp_path / "train")) == 400


def test_many_read_through_what_is_there_at_once(tmp_path):
    class NobodyWaits:
        def print(self, told, **how):
            raise AssertionError(told)

    pairs = Counted(numbered(10), [1])
    prepare(pairs, tmp_path / "train")
    with preparing.locked(tmp_path, NobodyWaits(), shared=True):
        prepare(pairs, tmp_path / "train", console=NobodyWaits())
        with pytest.raises(AssertionError, match="waiting for another process"):
            prepare(pairs, tmp_path / "train", console=NobodyWaits(), tag="de")
    assert pairs.passes == 1


def test_without_locks_nothing_is_prepared(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    told = refused(prepare, numbered(10), tmp_path / "train")
    assert told.startswith(
        f"{tmp_path}: can't be locked (Function not implemented), since its file system has no locks"
    )
    assert told.endswith("choose a folder on another file system with data.prepared")


def test_a_corpus_is_read_ahead_by_some_parts_alone(tmp_path, monkeypatch):
    """However slowly it is tokenised, so that it is never in memory as a whole."""
    read, furthest, done = itertools.count(), [0], []

    class Pairs:
        def __iter__(self):
            for pair in numbered(5000):
                furthest[0] = next(read)
                yield pair

    make_part = preparing.make_part

    def slow(*given):
        time.sleep(0.01)
        done.append(furthest[0] - 100 * len(done))
        return make_part(*given)

    monkeypatch.setattr(preparing, "make_part", slow)
    prepare(Pairs(), tmp_path / "train")
    assert max(done) <= 100 * (2 * len(os.sched_getaffinity(0)) + 3)
