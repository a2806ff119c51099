"""Joins requests that arrive together into batches of like length, which a few threads work on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

# The n-th item of a request stands behind requests that come up to n times this many seconds later, so that a long text
# does not keep everybody else waiting.
SECONDS_AN_ITEM = 0.002


class QueueFull(Exception):
    """More items are waiting than may be; trying again later may help."""


class TooMany(Exception):
    """A request has more items than may ever wait; it has to be split."""


class DeadlineExceeded(Exception):
    """An item was not begun before its deadline."""


@dataclass(eq=False)
class Item:
    """Something to work on, and where its result goes."""

    payload: Any
    key: Hashable
    length: int
    turn: float
    deadline: float
    since: float
    future: Future = field(default_factory=Future)


@dataclass(frozen=True)
class BatchLimits:
    """How batches are put together.

    Attributes:
        tokens: the most of a batch: its items times the longest one's length. A longer item is worked on alone.
        items: the most items of a batch.
        wait: seconds that the first item waits for others while a thread is free; none while all are.
        queue: the most items that wait.
        threads: batches that are worked on at once; at least 2, so that a long item never takes all of them.
    """

    tokens: int = 2048
    items: int = 32
    wait: float = 0.002
    queue: int = 1024
    threads: int = 2


class Batcher:
    """Items wait in one queue; each thread takes the one whose turn it is, and those that are most like it in length.

    Only items with equal keys share a batch. Items whose future was cancelled are left out: so a client that has gone
    costs nothing. An error in a batch of several is no verdict on each of them: they are then worked on one by one.

    Args:
        work: called in a thread with a key and the payloads of a batch; gives a result for each, in order.
        limits: see `BatchLimits`.
        began: called with the items of each batch when it begins, for counting.

    Example:
        >>> batcher = Batcher(lambda key, words: [word.upper() for word in words], BatchLimits())
        >>> futures = batcher.submit([("a", 1), ("dog", 3)], key=None, seconds=10)
        >>> [future.result() for future in futures]
        ['A', 'DOG']
        >>> batcher.stop()
    """

    def __init__(
        self,
        work: Callable[[Any, list[Any]], Sequence[Any]],
        limits: BatchLimits,
        began: Callable[[list[Item]], None] = lambda items: None,
    ) -> None:
        self._work, self.limits, self._began = work, limits, began
        self._waiting: list[Item] = []
        self._changed = threading.Condition()
        self._busy = 0  # threads that work
        self._long = 0  # those that work on an item above the limit
        self._stopped = False
        self._threads = [
            threading.Thread(target=self._run, name=f"batch-{i}", daemon=True) for i in range(max(2, limits.threads))
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """The items that wait."""
        return len(self._waiting)

    def submit(self, payloads: Sequence[tuple[Any, int]], key: Hashable, seconds: float) -> list[Future]:
        """Takes all items of a request, or none.

        Args:
            payloads: each with its length in tokens, as far as that is known.
            key: what the work is done with; only items with equal keys are put together.
            seconds: after which an item that has not been begun is given up with a `DeadlineExceeded`.

        Returns:
            A future for each; cancelled, its item is not worked on.

        Raises:
            TooMany: they are more than may wait at all.
            QueueFull: there is no room for them all now.
        """
        if len(payloads) > self.limits.queue:
            raise TooMany
        now = time.monotonic()
        items = [
            Item(payload, key, length, now + i * SECONDS_AN_ITEM, now + seconds, now)
            for i, (payload, length) in enumerate(payloads)
        ]
        with self._changed:
            if len(self._waiting) + len(items) > self.limits.queue:
                self._drop()  # the threads, which do so too, may all be at work for long
            if self._stopped or len(self._waiting) + len(items) > self.limits.queue:
                raise QueueFull
            self._waiting += items
            self._changed.notify_all()
        return [item.future for item in items]

    def close(self) -> None:
        """Takes no more items and cancels those that wait; the threads end after what they are at."""
        with self._changed:
            self._stopped = True
            for item in self._waiting:
                item.future.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def stop(self, seconds: float = 5.0) -> None:
        """Ends the threads, waiting at most so many seconds for all of them."""
        self.close()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    @property
    def is_alive(self) -> bool:
        """Whether a thread has not ended."""
        return any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while batch := self._take():
            long = self._is_long(batch[0])
            try:
                self._began(batch)
                self._answer(batch)
            finally:
                with self._changed:
                    self._busy -= 1
                    self._long -= long
                    self._changed.notify_all()
            del batch  # while this thread waits, it must not keep texts, or a model that has been replaced

    def _take(self) -> list[Item]:
        """Waits for the next batch; empty when there will be none."""
        with self._changed:
            while not self._stopped:
                self._drop()
                ready = [
                    item for item in self._waiting if self._long < len(self._threads) - 1 or not self._is_long(item)
                ]
                if not ready:
                    self._changed.wait()
                    continue
                first = min(ready, key=lambda item: item.turn)
                batch = self._joined(first, ready)
                left = first.since + self.limits.wait - time.monotonic()
                del first  # as in `_run`
                if left > 0 and self._busy and not self._is_full(batch):
                    del batch
                    self._changed.wait(left)
                    continue
                taken = set(map(id, batch))
                self._waiting = [item for item in self._waiting if id(item) not in taken]
                batch = [item for item in batch if item.future.set_running_or_notify_cancel()]
                if batch:
                    self._busy += 1
                    self._long += self._is_long(batch[0])
                    return batch
            return []

    def _drop(self) -> None:
        """Takes out what nobody waits for any more."""
        now = time.monotonic()
        late = [item for item in self._waiting if item.deadline <= now]
        self._waiting = [item for item in self._waiting if item.deadline > now and not item.future.cancelled()]
        for item in late:
            if item.future.set_running_or_notify_cancel():
                item.future.set_exception(DeadlineExceeded())

    def _is_long(self, item: Item) -> bool:
        return item.length > self.limits.tokens

    def _is_full(self, batch: list[Item]) -> bool:
        longest = max(item.length for item in batch)
        return len(batch) >= self.limits.items or (len(batch) + 1) * longest > self.limits.tokens

    def _joined(self, first: Item, ready: list[Item]) -> list[Item]:
        """The first item, and those with its key that are nearest to it in length."""
        others = [item for item in ready if item.key == first.key and item is not first]
        others.sort(key=lambda item: (abs(item.length - first.length), item.turn))
        batch, longest = [first], first.length
        for item in others:
            widened = max(longest, item.length)
            if len(batch) < self.limits.items and (len(batch) + 1) * widened <= self.limits.tokens:
                batch.append(item)
                longest = widened
        return batch

    def _answer(self, batch: list[Item]) -> None:
        try:
            results = self._work(batch[0].key, [item.payload for item in batch])
            answers = list(zip(batch, results, strict=True))
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
            else:
                for item in batch:
                    self._answer([item])
            return
        for item, result in answers:
            item.future.set_result(result)
