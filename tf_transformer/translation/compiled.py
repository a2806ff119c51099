"""A search that XLA has compiled for batches of a few shapes, beside the one that takes any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tensorflow as tf

from tf_transformer.tokenizers.base import END_ID

# What batches are padded to: a sentence's tokens with the closing one, and sentences.
LENGTHS = (16, 32, 64, 128)
ROWS = (1, 2, 4, 8, 16, 32)
# Up to so many hypotheses in a batch the program was the faster search on every machine it was measured on, or as fast
# (docs/decoding.md has the figures).
MOST_HYPOTHESES = 8

Found = tuple[tf.Tensor, ...]  # ids (rows, hypotheses, length), scores (rows, hypotheses)


def rows_that_pay(beam_size: int) -> tuple[int, ...]:
    """The sizes of batches, in sentences, for which a search with this beam is worth compiling.

    >>> rows_that_pay(1), rows_that_pay(4), rows_that_pay(20)
    ((1, 2, 4, 8), (1, 2), (1,))
    """
    return tuple(rows for rows in ROWS if rows * beam_size <= MOST_HYPOTHESES) or ROWS[:1]


class CompiledSearch(tf.Module):
    """Searches with a program that XLA compiled, where it was warmed up for the batch's shape, else as ever.

    XLA makes one program of a whole search, in which no operation has to be started on its own. It compiles one for
    each shape, which takes seconds; so a shape is compiled when `warm_up` asks for it, and never while somebody waits
    for a translation. A variable remembers what is warm, in a SavedModel too.

    Args:
        fixed: maps source ids, int32 (rows, length), to ids, scores, and whether each row was done, bool (rows,), in
            memory of a fixed size. Rows of padding alone are done at once.
        growing: maps source ids of any shape to ids and scores, the same but for rounding.
        max_length: the most tokens of a source.
    """

    def __init__(
        self, fixed: Callable[[tf.Tensor], Found], growing: Callable[[tf.Tensor], Found], max_length: int
    ) -> None:
        super().__init__()
        self.lengths = tf.constant([n for n in LENGTHS if n <= max_length] or [max_length])
        self.rows = tf.constant(ROWS)
        self.warm = tf.Variable(tf.zeros([len(ROWS), len(self.lengths)], tf.bool), trainable=False, name="warm")
        matrix = [tf.TensorSpec([None, None], tf.int32)]
        self._fixed = tf.function(fixed, input_signature=matrix, autograph=False, jit_compile=True)
        # Kept a call: its thousands of operations, inlined into branches not taken, would each be passed by.
        self._growing = tf.function(
            growing, input_signature=matrix, autograph=False, experimental_attributes={"_noinline": True}
        )

    def __call__(self, source_ids: tf.Tensor) -> Found:
        """Translates source ids, int32 (rows, length)."""
        rows, length = tf.unstack(tf.shape(source_ids))
        # More than twice the rows would cost more than the other search.
        fits = ((self.rows >= rows) & (self.rows <= 2 * rows))[:, None] & (self.lengths >= length) & self.warm
        places = tf.where(fits)  # the smallest first
        return tf.cond(
            tf.shape(places)[0] > 0,
            lambda: self._search(source_ids, tf.gather(self.rows, places[0, 0]), tf.gather(self.lengths, places[0, 1])),
            lambda: self._growing(source_ids),
        )

    @contextmanager
    def cold(self) -> Iterator[None]:
        """Nothing is warm inside: what is written down there is not compiled where it will be loaded."""
        warm = self.warm.read_value()
        self.warm.assign(tf.zeros_like(warm))
        try:
            yield
        finally:
            self.warm.assign(warm)

    def _search(self, source_ids: tf.Tensor, rows: tf.Tensor, length: tf.Tensor) -> Found:
        shape = tf.shape(source_ids)
        padded = tf.pad(source_ids, [[0, rows - shape[0]], [0, length - shape[1]]])
        ids, scores, done = (each[: shape[0]] for each in self._fixed(padded))

        def search_again() -> Found:
            """For the rows whose translation is longer than there was room for."""
            places = tf.where(~done)
            found, found_scores = self._growing(tf.gather(source_ids, places[:, 0]))
            longest = tf.maximum(tf.shape(ids)[2], tf.shape(found)[2])
            wide, wide_found = (tf.pad(x, [[0, 0], [0, 0], [0, longest - tf.shape(x)[2]]]) for x in (ids, found))
            return (
                tf.tensor_scatter_nd_update(wide, places, wide_found),
                tf.tensor_scatter_nd_update(scores, places, found_scores),
            )

        return tf.cond(tf.reduce_all(done), lambda: (ids, scores), search_again)

    def warm_up(self, rows: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Compiles the search for batches of so many rows, int32 (n,), with sources of so many tokens, int32 (n,).

        Returns:
            Which of these batches the compiled search takes from now on, bool (n,): not those that are larger or longer
            than any it is made for.
        """

        def one(index: tf.Tensor, taken: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            fits = (self.rows >= rows[index])[:, None] & (self.lengths >= lengths[index])
            places = tf.where(fits)
            known = tf.shape(places)[0] > 0
            tf.cond(known, lambda: self._compile(places[0]), lambda: tf.no_op())
            return index + 1, taken | (known & (tf.range(tf.size(rows)) == index))

        return tf.while_loop(
            lambda index, _: index < tf.size(rows), one, (0, tf.zeros_like(rows, tf.bool)), parallel_iterations=1
        )[1]

    def _compile(self, place: tf.Tensor) -> tf.Operation:
        shape = tf.stack([tf.gather(self.rows, place[0]), tf.gather(self.lengths, place[1])])
        closing = tf.fill([shape[0], 1], END_ID)
        # Nothing but closing tokens: nothing is to be translated, so that only the compilation takes time.
        found = self._fixed(tf.pad(closing, [[0, 0], [0, shape[1] - 1]]))
        here = tf.scatter_nd(place[None], tf.constant([True]), tf.shape(self.warm, tf.int64))
        with tf.control_dependencies(found):
            return self.warm.assign(self.warm | here).op
