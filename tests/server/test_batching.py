"""The batcher alone: every item answered once, in batches within their limits, late and gone ones dropped."""

import concurrent.futures
import gc
import threading
import time
import weakref
from concurrent.futures import CancelledError
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounded import SECONDS, begun, eventually
from tf_transformer.server import batching
from tf_transformer.server.batching import Batcher, BatchLimits, DeadlineExceeded, QueueFull, TooMany

wait = partial(concurrent.futures.wait, timeout=SECONDS)
LATER = 10 * SECONDS  # a deadline that no test reaches


class Gate:
    """Work that waits until it is let go, and remembers its batches."""

    def __init__(self, open_: bool = False) -> None:
        self.batches: list[tuple] = []
        self.go = threading.Event()
        if open_:
            self.go.set()
        self.began = threading.Semaphore(0)

    def __call__(self, key, payloads):
        self.batches.append((key, list(payloads)))
        self.began.release()
        assert self.go.wait(SECONDS)
        return [(key, payload) for payload in payloads]


def occupy(batcher: Batcher, gate: Gate, threads: int = 2) -> list:
    """Gives each thread something to work on, alone."""
    futures = []
    for i in range(threads):
        futures += batcher.submit([(f"first {i}", 1)], ("first", i), LATER)
        assert gate.began.acquire(timeout=SECONDS)
    return futures


items = st.tuples(st.integers(), st.integers(1, 60))
requests = st.lists(st.tuples(st.sampled_from("ab"), st.lists(items, max_size=6)), max_size=12)


@given(requests=requests, most=st.integers(1, 5), tokens=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_every_item_is_answered_once_in_batches_within_the_limits(requests, most, tokens):
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(tokens=tokens, items=most, wait=0))
    occupied = occupy(batcher, gate)
    length_of = {}
    futures = []
    for number, (key, payloads) in enumerate(requests):
        named = [((number, i, value), length) for i, (value, length) in enumerate(payloads)]
        length_of |= dict(named)
        futures += zip(named, [key] * len(named), batcher.submit(named, key, LATER), strict=True)
    assert len(batcher) == len(futures)
    gate.go.set()
    for (payload, _), key, future in futures:
        assert future.result(SECONDS) == (key, payload)
    wait(occupied)
    batcher.stop()
    batches = gate.batches[2:]
    assert sorted(payload for _, batch in batches for payload in batch) == sorted(length_of)
    for _, batch in batches:
        lengths = [length_of[payload] for payload in batch]
        assert len(batch) <= most
        assert len(batch) == 1 or len(batch) * max(lengths) <= tokens


def test_like_lengths_share_a_batch_and_the_first_to_come_is_first():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(tokens=1000, items=3, wait=0))
    occupied = occupy(batcher, gate)
    futures = [f for n in (10, 90, 11, 91, 12, 92) for f in batcher.submit([(n, n)], None, LATER)]
    gate.go.set()
    wait([*occupied, *futures])
    batcher.stop()
    assert sorted(sorted(batch) for _, batch in gate.batches[2:]) == [[10, 11, 12], [90, 91, 92]]


def test_a_text_above_the_limit_is_alone_and_leaves_a_thread_to_the_others():
    long_one = threading.Event()

    def work(key, payloads):
        if payloads == ["long"]:
            assert long_one.wait(SECONDS)
        return payloads

    batcher = Batcher(work, BatchLimits(tokens=100, wait=0))
    longs = [f for _ in range(5) for f in batcher.submit([("long", 101)], None, LATER)]
    short = [f for i in range(50) for f in batcher.submit([(i, 5)], None, LATER)]
    assert [f.result(SECONDS) for f in short] == list(range(50))
    assert not any(f.done() for f in longs)
    long_one.set()
    assert [f.result(SECONDS) for f in longs] == ["long"] * 5
    batcher.stop()


def test_a_request_of_many_sentences_does_not_keep_a_short_one_waiting(monkeypatch):
    monkeypatch.setattr(batching, "time", SimpleNamespace(monotonic=lambda: 0.0))  # both come at the same time
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(items=4, wait=0))
    occupied = occupy(batcher, gate)
    many = batcher.submit([(i, 5) for i in range(200)], None, LATER)
    (one,) = batcher.submit([("one", 50)], None, LATER)
    gate.go.set()
    wait([*occupied, *many, one])
    batcher.stop()
    place = next(i for i, (_, batch) in enumerate(gate.batches) if "one" in batch)
    assert place < 10  # of some 52 batches


@pytest.fixture
def blocking():
    """Makes batchers, of whose threads one is at something else, and the list of their other batches."""
    other, batchers = threading.Event(), []

    def made(**limits):
        batches, began = [], threading.Event()

        def work(key, payloads):
            if key == "other":
                began.set()
                assert other.wait(SECONDS)
            else:
                batches.append(sorted(payloads))
            return payloads

        batchers.append(Batcher(work, BatchLimits(**limits)))
        batchers[-1].submit([("other", 5)], "other", LATER)
        assert began.wait(SECONDS)
        return batchers[-1], batches

    yield made
    other.set()
    for batcher in batchers:
        batcher.stop()


def test_what_comes_within_the_wait_is_put_together(blocking):
    """The wait is longer than the test; a full batch needs no end of it."""
    batcher, batches = blocking(items=8, wait=LATER)
    first = batcher.submit([(1, 5)], None, LATER)
    time.sleep(0.05)  # in which it would be begun if it did not wait
    second = batcher.submit([(i, 5) for i in range(2, 8)], None, LATER)
    time.sleep(0.05)
    assert batches == [] and not any(future.done() for future in [*first, *second])
    third = batcher.submit([(8, 5)], None, LATER)
    assert [future.result(SECONDS) for future in [*first, *second, *third]] == list(range(1, 9))
    assert batches == [list(range(1, 9))]


def test_the_wait_ends(blocking):
    batcher, batches = blocking(items=8, wait=0.2)
    began = time.monotonic()
    assert batcher.submit([(1, 5)], None, LATER)[0].result(SECONDS) == 1
    assert time.monotonic() - began >= 0.2
    assert batches == [[1]]


def test_while_nothing_is_worked_on_nobody_is_waited_for():
    batcher = Batcher(lambda key, payloads: payloads, BatchLimits(items=8, wait=LATER))
    assert batcher.submit([(0, 5)], None, LATER)[0].result(SECONDS) == 0
    batcher.stop()


def test_a_cancelled_item_is_not_worked_on_and_a_late_one_is_told():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(wait=0))
    occupied = occupy(batcher, gate)
    gone, late, fine = (
        batcher.submit([(word, 1)], None, s)[0] for word, s in (("gone", LATER), ("late", 0.01), ("ok", LATER))
    )
    assert gone.cancel()
    time.sleep(0.05)
    gate.go.set()
    assert fine.result(SECONDS) == (None, "ok")
    with pytest.raises(DeadlineExceeded):
        late.result(SECONDS)
    wait(occupied)
    batcher.stop()
    assert [batch for _, batch in gate.batches[2:]] == [["ok"]]


def test_a_full_queue_takes_all_of_a_request_or_none():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(queue=3, wait=0))
    occupied = occupy(batcher, gate)
    two = batcher.submit([(1, 1), (2, 1)], None, LATER)
    with pytest.raises(QueueFull):
        batcher.submit([(3, 1), (4, 1)], None, LATER)
    assert len(batcher) == 2
    three = batcher.submit([(3, 1)], None, LATER)
    with pytest.raises(TooMany):
        batcher.submit([(i, 1) for i in range(4)], None, LATER)
    gate.go.set()
    wait([*occupied, *two, *three])
    assert len(batcher) == 0
    assert batcher.submit([(3, 1), (4, 1)], None, LATER)[1].result(SECONDS) == (None, 4)
    batcher.stop()


def test_what_nobody_waits_for_takes_no_room():
    """While all threads are at work none of them takes it out of the queue."""
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(queue=3, wait=0))
    occupied = occupy(batcher, gate)
    for future in batcher.submit([(1, 1), (2, 1)], None, LATER):
        assert future.cancel()
    (late,) = batcher.submit([(3, 1)], None, 0.0)
    fine = batcher.submit([("a", 1), ("b", 1), ("c", 1)], None, LATER)
    with pytest.raises(DeadlineExceeded):
        late.result(0)
    gate.go.set()
    wait(occupied)
    assert [future.result(SECONDS) for future in fine] == [(None, "a"), (None, "b"), (None, "c")]
    batcher.stop()


def test_an_error_is_only_that_items_own():
    def work(key, payloads):
        if "bad" in payloads:
            raise ValueError("bad")
        return payloads

    batcher = Batcher(work, BatchLimits(wait=0.05))
    good, bad, better = batcher.submit([("good", 1), ("bad", 1), ("better", 1)], None, LATER)
    assert (good.result(SECONDS), better.result(SECONDS)) == ("good", "better")
    with pytest.raises(ValueError, match="bad"):
        bad.result(SECONDS)
    wrong = Batcher(lambda key, payloads: [], BatchLimits(wait=0))
    with pytest.raises(ValueError, match="argument"):
        wrong.submit([("a", 1)], None, LATER)[0].result(SECONDS)
    batcher.stop()
    wrong.stop()


def test_the_end_answers_what_is_begun_and_cancels_the_rest():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(wait=0))
    occupied = occupy(batcher, gate)
    (waiting,) = batcher.submit([(1, 1)], None, LATER)
    stopping = begun(lambda: batcher.stop(SECONDS))
    eventually(waiting.cancelled)
    gate.go.set()
    stopping.result(SECONDS)
    assert [f.result(0)[1] for f in occupied] == ["first 0", "first 1"]
    with pytest.raises(CancelledError):
        waiting.result(0)
    with pytest.raises(QueueFull):
        batcher.submit([(1, 1)], None, LATER)


def test_threads_keep_nothing_of_what_they_have_done():
    class Text(str):
        __slots__ = ("__weakref__",)

    batcher = Batcher(lambda key, payloads: payloads, BatchLimits(wait=0))
    text = Text("a text")
    reference = weakref.ref(text)
    batcher.submit([(text, 1)], None, LATER)[0].result(SECONDS)
    del text

    def is_gone():
        gc.collect()
        return reference() is None

    eventually(is_gone)
    batcher.stop()


def test_it_stops_within_the_time_for_all_threads_together():
    """With a time for each of them it would take a hundred seconds."""
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(threads=200, wait=0))
    occupied = occupy(batcher, gate, 200)
    began = time.monotonic()
    batcher.stop(0.5)
    assert 0.5 <= time.monotonic() - began < 50
    assert batcher.is_alive
    gate.go.set()
    wait(occupied)
    batcher.stop(SECONDS)
    assert not batcher.is_alive
