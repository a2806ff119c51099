"""Batches of prepared pairs: whole ones put together by NumPy from the mapped files.

Not by Grain with ArrayRecord, which fetches and transforms one record after another in Python. In batches of 1,000,
shuffled, Grain 0.2.18 gave 900 records a second of CPU from an ArrayRecord file, and 4,400 from arrays in memory; this
gives 500,000 pairs (benchmarks/data.py). Nor does it know batches of like length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.data.batching import bucket_bounds, made_ahead, rows_of_batch
from tf_transformer.data.prepared.order import TrainingOrder, cut
from tf_transformer.data.prepared.store import PreparedPairs
from tf_transformer.tokenizers.base import END_ID, START_ID
from tf_transformer.training.alignment import with_alignment

Batch = tuple[tuple[np.ndarray, np.ndarray], np.ndarray | dict[str, np.ndarray]]


class PreparedBatches:
    """Batches like those of `make_batches`, of prepared pairs; of aligned ones with alignments beside the labels.

    Args:
        prepared: the pairs.
        batch_tokens: Maximum number of positions on each side of a batch, including padding.
        max_length: Maximum number of tokens on each side of a pair, including START or END.
        row_multiple: Each batch's number of rows is a multiple of this; rows of padding fill up the last one.
        fixed_shapes: Whether all batches of a bucket have the same shape.
    """

    def __init__(
        self,
        prepared: PreparedPairs,
        *,
        batch_tokens: int,
        max_length: int,
        row_multiple: int = 1,
        fixed_shapes: bool = False,
    ) -> None:
        self._prepared, self._row_multiple, self._fixed_shapes = prepared, row_multiple, fixed_shapes
        self._bounds = bucket_bounds(max_length)
        self._rows = [rows_of_batch(bound, batch_tokens, row_multiple) for bound in self._bounds]

    def once(self) -> tf.data.Dataset:
        """Each pair once, the shortest first."""
        buckets = self._buckets()
        starts, of_batches = cut(np.bincount(buckets, minlength=len(self._bounds)), self._rows)
        pairs = np.argsort(buckets, kind="stable")

        def batches() -> Iterator[tuple[np.ndarray, int]]:
            for number, bucket in enumerate(of_batches):
                yield pairs[starts[number] : starts[number + 1]], int(bucket)

        return self._dataset(batches, len(of_batches))

    def endless(self, seed: int, weights: Sequence[float] = (1.0,)) -> EndlessBatches:
        """Epochs without end, each in an order of its own; `weights` are those of the sources, see `TrainingOrder`."""
        numbers = [source.counts.kept for source in self._prepared.manifest.sources]
        sources = list(zip(numbers, weights, strict=True))
        return EndlessBatches(self, TrainingOrder(self._buckets(), self._rows, sources, seed))

    def padding_share(self, batches: Iterable[tuple[np.ndarray, int]]) -> float:
        """The share of the positions of some batches that hold no token, from 0 to 1."""
        sides = [side.lengths() for side in (self._prepared.source, self._prepared.target)]
        tokens = positions = 0
        for pairs, bucket in batches:
            for lengths in (side[pairs] for side in sides):
                rows, width = self._shape(len(pairs), bucket)
                tokens += int(lengths.sum())
                positions += rows * (width or int(lengths.max()))
        return 1 - tokens / positions

    def dataset(self, batches: Callable[[], Iterator[tuple[np.ndarray, int]]]) -> tf.data.Dataset:
        """What `fit` takes, of batches without end."""
        return self._dataset(batches, tf.data.INFINITE_CARDINALITY)

    def _dataset(self, batches: Callable[[], Iterator[tuple[np.ndarray, int]]], number: int) -> tf.data.Dataset:
        ids = tf.TensorSpec((None, None), tf.int32)
        links = tf.TensorSpec((None, None, None), tf.uint8)
        labels = with_alignment(ids, links) if self._prepared.links else ids
        dataset = tf.data.Dataset.from_generator(
            lambda: (self._batch(*each) for each in batches()), output_signature=((ids, ids), labels)
        )
        return made_ahead(dataset).apply(tf.data.experimental.assert_cardinality(number))

    def _batch(self, pairs: np.ndarray, bucket: int) -> Batch:
        rows, width = self._shape(len(pairs), bucket)
        source_ids, source_lengths = self._prepared.source.rows(pairs, width)
        labels, target_lengths = self._prepared.target.rows(pairs, width)
        target_ids = np.roll(labels, 1, axis=1)  # what comes from the end is padding: there is room for END
        target_ids[:, 0] = START_ID
        each = np.arange(len(pairs))
        source_ids[each, source_lengths] = END_ID
        labels[each, target_lengths] = END_ID

        def filled(batch: np.ndarray) -> np.ndarray:
            return np.pad(batch, [(0, rows - len(pairs))] + [(0, 0)] * (batch.ndim - 1))

        inputs = filled(source_ids), filled(target_ids)
        if not self._prepared.links:
            return inputs, filled(labels)
        links = self._prepared.links.matrices(pairs, labels.shape[1], source_ids.shape[1])
        return inputs, with_alignment(filled(labels), filled(links))

    def _shape(self, pairs: int, bucket: int) -> tuple[int, int | None]:
        """The rows of a batch of so many pairs, and its width if that is not its longest sentence's."""
        if self._fixed_shapes:
            return self._rows[bucket], self._bounds[bucket]
        return pairs + -pairs % self._row_multiple, None

    def _buckets(self) -> np.ndarray:
        return np.searchsorted(self._bounds, self._prepared.lengths()).astype(np.uint8)


class EndlessBatches:
    """The batches of a training, of which those after any step are found at once."""

    def __init__(self, batches: PreparedBatches, order: TrainingOrder) -> None:
        self._batches, self._order = batches, order

    def from_step(self, step: int) -> tf.data.Dataset:
        """The batches after so many steps, without end."""
        return self._batches.dataset(lambda: self._order.batches_from(step))

    def padding_share(self) -> float:
        """How much of the first epoch's batches is padding, from 0 to 1."""
        epoch = self._order.epoch(self._order.find(0)[0])
        return self._batches.padding_share(epoch.batch(place) for place in range(len(epoch.order)))
