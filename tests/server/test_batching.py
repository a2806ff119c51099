"""The batcher alone: every item answered once, in batches within their limits, late and gone ones dropped."""

import concurrent.futures
import threading
import time
from concurrent.futures import CancelledError
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.server.batching import Batcher, BatchLimits, DeadlineExceeded, QueueFull, TooMany

wait = partial(concurrent.futures.wait, timeout=60)


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
        assert self.go.wait(10)
        return [(key, payload) for payload in payloads]


def occupy(batcher: Batcher, gate: Gate) -> list:
    """Gives each thread something to work on, alone."""
    futures = []
    for i in range(2):
        futures += batcher.submit([(f"first {i}", 1)], ("first", i), 60)
        assert gate.began.acquire(timeout=10)
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
        futures += zip(named, [key] * len(named), batcher.submit(named, key, 60), strict=True)
    assert len(batcher) == len(futures)
    gate.go.set()
    for (payload, _), key, future in futures:
        assert future.result(10) == (key, payload)
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
    futures = [f for n in (10, 90, 11, 91, 12, 92) for f in batcher.submit([(n, n)], None, 60)]
    gate.go.set()
    wait([*occupied, *futures])
    batcher.stop()
    assert sorted(sorted(batch) for _, batch in gate.batches[2:]) == [[10, 11, 12], [90, 91, 92]]


def test_a_text_above_the_limit_is_alone_and_leaves_a_thread_to_the_others():
    long_one = threading.Event()

    def work(key, payloads):
        if payloads == ["long"]:
            assert long_one.wait(10)
        return payloads

    batcher = Batcher(work, BatchLimits(tokens=100, wait=0))
    longs = [f for _ in range(5) for f in batcher.submit([("long", 101)], None, 60)]
    short = [f for i in range(50) for f in batcher.submit([(i, 5)], None, 60)]
    assert [f.result(10) for f in short] == list(range(50))
    assert not any(f.done() for f in longs)
    long_one.set()
    assert [f.result(10) for f in longs] == ["long"] * 5
    batcher.stop()


def test_a_request_of_many_sentences_does_not_keep_a_short_one_waiting():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(items=4, wait=0))
    occupied = occupy(batcher, gate)
    many = batcher.submit([(i, 5) for i in range(200)], None, 60)
    (one,) = batcher.submit([("one", 50)], None, 60)
    gate.go.set()
    wait([*occupied, *many, one])
    batcher.stop()
    place = next(i for i, (_, batch) in enumerate(gate.batches) if "one" in batch)
    assert place < 10  # of some 52 batches


def test_what_comes_within_the_wait_is_put_together():
    other = threading.Event()
    batches = []

    def work(key, payloads):
        batches.append(sorted(payloads))
        assert key is None or other.wait(10)
        return payloads

    batcher = Batcher(work, BatchLimits(items=8, wait=0.3))
    began = time.monotonic()
    wait(batcher.submit([(0, 5)], None, 60))
    assert time.monotonic() - began < 0.2  # while nothing is worked on, nobody is waited for
    (blocked,) = batcher.submit([(100, 5)], "other", 60)
    time.sleep(0.05)
    began = time.monotonic()
    first = batcher.submit([(1, 5)], None, 60)
    time.sleep(0.05)
    second = batcher.submit([(i, 5) for i in range(2, 8)], None, 60)
    wait([*first, *second])
    assert 0.25 < time.monotonic() - began < 1
    began = time.monotonic()
    wait(batcher.submit([(i, 5) for i in range(8)], None, 60))
    assert time.monotonic() - began < 0.2  # a full batch waits for nobody
    other.set()
    blocked.result(10)
    batcher.stop()
    assert batches == [[0], [100], list(range(1, 8)), list(range(8))]


def test_a_cancelled_item_is_not_worked_on_and_a_late_one_is_told():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(wait=0))
    occupied = occupy(batcher, gate)
    gone, late, fine = (
        batcher.submit([(word, 1)], None, s)[0] for word, s in (("gone", 60), ("late", 0.01), ("ok", 60))
    )
    assert gone.cancel()
    time.sleep(0.05)
    gate.go.set()
    assert fine.result(10) == (None, "ok")
    with pytest.raises(DeadlineExceeded):
        late.result(10)
    wait(occupied)
    batcher.stop()
    assert [batch for _, batch in gate.batches[2:]] == [["ok"]]


def test_a_full_queue_takes_all_of_a_request_or_none():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(queue=3, wait=0))
    occupied = occupy(batcher, gate)
    two = batcher.submit([(1, 1), (2, 1)], None, 60)
    with pytest.raises(QueueFull):
        batcher.submit([(3, 1), (4, 1)], None, 60)
    assert len(batcher) == 2
    three = batcher.submit([(3, 1)], None, 60)
    with pytest.raises(TooMany):
        batcher.submit([(i, 1) for i in range(4)], None, 60)
    gate.go.set()
    wait([*occupied, *two, *three])
    assert len(batcher) == 0
    assert batcher.submit([(3, 1), (4, 1)], None, 60)[1].result(10) == (None, 4)
    batcher.stop()


def test_an_error_is_only_that_items_own():
    def work(key, payloads):
        if "bad" in payloads:
            raise ValueError("bad")
        return payloads

    batcher = Batcher(work, BatchLimits(wait=0.05))
    good, bad, better = batcher.submit([("good", 1), ("bad", 1), ("better", 1)], None, 60)
    assert (good.result(10), better.result(10)) == ("good", "better")
    with pytest.raises(ValueError, match="bad"):
        bad.result(10)
    wrong = Batcher(lambda key, payloads: [], BatchLimits(wait=0))
    with pytest.raises(ValueError, match="argument"):
        wrong.submit([("a", 1)], None, 60)[0].result(10)
    batcher.stop()
    wrong.stop()


def test_the_end_answers_what_is_begun_and_cancels_the_rest():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(wait=0))
    occupied = occupy(batcher, gate)
    (waiting,) = batcher.submit([(1, 1)], None, 60)
    threading.Timer(0.1, gate.go.set).start()
    batcher.stop()
    assert [f.result(0)[1] for f in occupied] == ["first 0", "first 1"]
    with pytest.raises(CancelledError):
        waiting.result(0)
    with pytest.raises(QueueFull):
        batcher.submit([(1, 1)], None, 60)


def test_threads_keep_nothing_of_what_they_have_done():
    import gc
    import weakref

    class Text(str):
        __slots__ = ("__weakref__",)

    batcher = Batcher(lambda key, payloads: payloads, BatchLimits(wait=0))
    text = Text("a text")
    reference = weakref.ref(text)
    batcher.submit([(text, 1)], None, 60)[0].result(10)
    del text
    for _ in range(100):
        gc.collect()
        if reference() is None:
            break
        time.sleep(0.02)
    assert reference() is None
    batcher.stop()


def test_it_stops_within_the_time_for_all_threads_together():
    gate = Gate()
    batcher = Batcher(gate, BatchLimits(threads=4, wait=0))
    occupied = occupy(batcher, gate)
    began = time.monotonic()
    batcher.stop(0.5)
    assert 0.4 < time.monotonic() - began < 0.9
    assert batcher.is_alive
    gate.go.set()
    wait(occupied)
    batcher.stop()
    assert not batcher.is_alive
