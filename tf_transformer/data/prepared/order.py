"""The order of training: which pairs an epoch has, and which of them are a batch, as a function of the seed.

An epoch shuffles the whole corpus, cuts it into batches of like length, and shuffles the batches. So the batches of
any step are found without those before it, the same ones on every machine.

Random numbers are the raw ones of PCG64, sorted. NumPy keeps these the same from one version to the next; what its
`Generator` makes of them, such as a permutation, it may change (NumPy's NEP 19).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

# To be raised whenever a step gets other batches than before: runs that were begun with another order then say so.
ORDER = 2

# Each use of random numbers has a stream of its own.
_PAIRS, _BATCHES, _SOURCE = range(3)


@dataclass(frozen=True)
class Epoch:
    """The batches of one epoch.

    Attributes:
        pairs: the numbers of its pairs, int32 (pairs,), batch by batch.
        starts: where each batch begins among them, and the last one's end, int64 (batches + 1,).
        buckets: the bucket that each batch was cut from, int64 (batches,).
        order: the batches as they are to come, int64 (batches,).
    """

    pairs: np.ndarray
    starts: np.ndarray
    buckets: np.ndarray
    order: np.ndarray

    def batch(self, place: int) -> tuple[np.ndarray, int]:
        """The pairs and the bucket of the batch that comes at a place of the epoch."""
        number = self.order[place]
        return self.pairs[self.starts[number] : self.starts[number + 1]], int(self.buckets[number])


class TrainingOrder:
    """Epochs without end, and the place of each step in them.

    Args:
        buckets: the bucket of each pair, integers (pairs,); those of a source follow each other.
        rows: how many pairs a batch of each bucket has.
        sources: of each source how many pairs it has, and its weight: how often each of its pairs comes in an epoch,
            in the mean. With 1 each comes once; with 0.5 one half of them, and in the next epoch the other.
        seed: decides the order.

    Example:
        >>> order = TrainingOrder(np.array([0, 0, 0, 1]), rows=[2, 1], sources=[(4, 1.0)], seed=1)
        >>> [len(pairs) for pairs, bucket in itertools.islice(order.batches_from(0), 3)]
        [2, 1, 1]
    """

    def __init__(
        self, buckets: np.ndarray, rows: Sequence[int], sources: Sequence[tuple[int, float]], seed: int
    ) -> None:
        self._buckets = buckets.astype(np.uint8)  # there are some dozens
        self._rows, self._sources, self._seed = rows, sources, seed
        self._ends: list[int] = []  # the number of batches up to the end of each epoch, as far as was asked
        self._rounds: dict[int, tuple[int, np.ndarray]] = {}  # of each source the latest one, and its number

    def batches_from(self, step: int) -> Iterator[tuple[np.ndarray, int]]:
        """The pairs and the bucket of each batch after a number of steps, without end."""
        epoch, place = self.find(step)
        for number in itertools.count(epoch):
            batches = self.epoch(number)
            for each in range(place, len(batches.order)):
                yield batches.batch(each)
            place = 0

    def find(self, step: int) -> tuple[int, int]:
        """The epoch that the batch after so many steps is in, and its place there."""
        if all(weight == int(weight) for _, weight in self._sources):  # all epochs have the same pairs
            return divmod(step, self._number_of_batches(0))
        while not self._ends or self._ends[-1] <= step:
            before = self._ends[-1] if self._ends else 0
            self._ends.append(before + self._number_of_batches(len(self._ends)))
        epoch = int(np.searchsorted(self._ends, step, side="right"))
        return epoch, step - (self._ends[epoch - 1] if epoch else 0)

    def epoch(self, number: int) -> Epoch:
        """The batches of an epoch."""
        drawn = self._drawn(number)
        buckets = self._buckets[drawn]
        # Sorted by bucket, and by a random number within it.
        keys = (buckets.astype(np.uint64) << np.uint64(56)) | (self._random(len(drawn), _PAIRS, number) >> np.uint64(8))
        pairs = drawn[np.argsort(keys, kind="stable")]
        starts, of_batches = cut(np.bincount(buckets, minlength=len(self._rows)), self._rows)
        return Epoch(pairs, starts, of_batches, self._permutation(len(of_batches), _BATCHES, number))

    def _number_of_batches(self, epoch: int) -> int:
        counts = np.bincount(self._buckets[self._drawn(epoch)], minlength=len(self._rows))
        return len(cut(counts, self._rows)[1])

    def _drawn(self, epoch: int) -> np.ndarray:
        """The pairs of an epoch, unshuffled. Each source draws from permutations of its own, one after another."""
        drawn, first_pair = [np.zeros(0, np.int32)], 0
        for source, (number, weight) in enumerate(self._sources):
            begin, end = (math.floor(each * weight * number) for each in (epoch, epoch + 1))
            while begin < end:
                permutation, place = divmod(begin, number)
                taken = min(end - begin, number - place)
                some = np.arange(number) if taken == number else self._round(source, permutation)
                drawn.append((some[place : place + taken] + first_pair).astype(np.int32))
                begin += taken
            first_pair += number
        return np.concatenate(drawn)

    def _round(self, source: int, permutation: int) -> np.ndarray:
        """A source's permutation of a number, int32; the latest is kept, since an epoch may take a small part of it."""
        kept, pairs = self._rounds.get(source, (None, None))
        if kept != permutation:
            pairs = self._permutation(self._sources[source][0], _SOURCE, source, permutation).astype(np.int32)
            self._rounds[source] = permutation, pairs
        return pairs

    def _permutation(self, number: int, *stream: int) -> np.ndarray:
        return np.argsort(self._random(number, *stream), kind="stable")

    def _random(self, number: int, *stream: int) -> np.ndarray:
        """Random 64-bit numbers, uint64 (number,)."""
        return np.random.PCG64(np.random.SeedSequence([self._seed, *stream])).random_raw(number)


def cut(counts: np.ndarray, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Cuts pairs, sorted by bucket, into batches.

    What is left of a bucket goes on into the first batch of the next one that has pairs. Where it would fill that by
    itself, since batches of longer pairs have fewer rows, it is a batch of its own.

    Args:
        counts: how many pairs each bucket has.
        rows: how many a batch of each bucket has.

    Returns:
        Where each batch begins, and the last one's end, int64 (batches + 1,); and the bucket of each, int64 (batches,).

    Example:
        >>> cut(np.array([8, 0, 2]), rows=[3, 3, 2])
        (array([ 0,  3,  6,  8, 10]), array([0, 0, 0, 2]))
        >>> cut(np.array([7, 0, 2]), rows=[3, 3, 2])
        (array([0, 3, 6, 8, 9]), array([0, 0, 2, 2]))
    """
    starts, buckets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    ends = np.cumsum(counts)
    filled = np.flatnonzero(counts)
    begin = 0
    for place, bucket in enumerate(filled):
        number = (int(ends[bucket]) - begin) // rows[bucket]
        starts.append(begin + rows[bucket] * np.arange(number))
        buckets.append(np.full(number, bucket))
        begin += rows[bucket] * number
        left = int(ends[bucket]) - begin
        is_last = place == len(filled) - 1
        if left and (is_last or left >= rows[filled[place + 1]]):
            starts.append(np.array([begin]))
            buckets.append(np.array([bucket]))
            begin += left
    return np.concatenate([*starts, [int(counts.sum())]]), np.concatenate(buckets)
