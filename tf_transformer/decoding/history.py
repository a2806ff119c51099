"""The entries of a cache, one for each hypothesis and step; a history says which of them a hypothesis descends from."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.lean_ops import shape_of, take

# Steps between two tidyings of a cache of fixed size (`rounds.py`), where a step writes all entries of its round again.
FIXED_ROUND = 8


def settled_room(steps: Any, beams: int) -> Any:
    """How many settled entries a cache of fixed size has for each row.

    The hypotheses of a row descend mostly from the same entries, one for each position.
    """
    return steps + 8 * (beams - 1)


def extend(history: Any, position: Any, fixed: bool) -> Any:
    """Adds to each hypothesis's history, bool (rows, beams, entries), its own entry at the next position.

    A fixed history ends with a place for each entry of a round.
    """
    rows, beams, entries = shape_of(history)
    beam = ops.arange(beams, dtype="int32")
    if fixed:
        place = entries - FIXED_ROUND * beams + position % FIXED_ROUND * beams + beam
        own = ops.equal(place[:, None], ops.arange(entries, dtype="int32"))
        return ops.logical_or(history, own)
    own = ops.equal(beam[:, None], beam[None, :])
    return ops.concatenate([history, ops.broadcast_to(own, (rows, beams, beams))], axis=2)


def append(entries: Any, new: Any, axis: int, position: Any, slots: Any | None) -> Any:
    """Adds the entries of a position, one for each hypothesis, to those of the positions before.

    Args:
        entries: what a cache holds, with its entries along `axis`; those of a round, in a cache of fixed size.
        new: the position's, of the same shape but for `axis`.
        axis: where the entries are.
        position: scalar int, from 0.
        slots: int32 (FIXED_ROUND,), the numbers from 0, of a cache of fixed size; None of one that grows.
    """
    if slots is None:
        return ops.concatenate([entries, new], axis=axis)
    # Written with operations that every TensorFlow has, also a server's: those of XLA alone would not load there.
    *before, _ = shape_of(entries)[: axis + 1]
    behind = shape_of(entries)[axis + 1 :]
    by_position = ops.reshape(entries, (*before, FIXED_ROUND, shape_of(new)[axis], *behind))
    here = ops.reshape(ops.equal(slots, position % FIXED_ROUND), (-1, *[1] * (1 + len(behind))))
    return ops.reshape(ops.where(here, ops.expand_dims(new, axis), by_position), shape_of(entries))


def pick_entries(history: Any, entries: Any) -> Any:
    """Of a history, bool (rows, beams, entries), the given entries of each row, int32 (rows, n)."""
    rows, beams, length = shape_of(history)
    starts = ops.reshape(ops.arange(rows * beams, dtype="int32") * length, (rows, beams, 1))
    return take(ops.reshape(history, (-1,)), starts + ops.expand_dims(entries, axis=1))


def unknown_zero() -> Any:
    """0, the length of what a loop makes longer; a TensorFlow graph's loop would hold on to a length that it knows."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.raw_ops.PlaceholderWithDefault(input=0, shape=())  # whose value is never taken for known
    return ops.convert_to_tensor(0, "int32")
