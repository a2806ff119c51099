"""Batches that are worked on in parts: one after another to save memory, or side by side, a core each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tf_transformer.layers.lean_ops import shape_of


class Parts(NamedTuple):
    """A batch in equal parts.

    Attributes:
        data: the batch's tensors, in any structure, each (turns, parallel, rows of a part, ...).
        turns: how many times parts are worked on, one after another.
        parallel: how many parts are worked on each time, side by side.
    """

    data: Any
    turns: int
    parallel: int


def split(data: Any, rows: Any, turns: int, parallel: int) -> Parts:
    """Splits a batch, tensors (rows, ...) in any structure, into `turns * parallel` parts.

    Example:
        >>> import tensorflow as tf
        >>> from tf_transformer.training.parts import split
        >>> split(tf.constant([5, 6, 7]), 3, turns=2, parallel=1).data.numpy().tolist()
        [[[5, 6]], [[7, 0]]]
    """
    number = turns * parallel
    size = -(-rows // number)

    def split_one(ids: Any) -> Any:
        # Rows of padding fill up the last part; they count nowhere.
        padded = tf.pad(ids, [[0, number * size - rows], *[[0, 0]] * (len(ids.shape) - 1)])
        return tf.reshape(padded, (turns, parallel, size, *shape_of(ids)[1:]))

    return Parts(tf.nest.map_structure(split_one, data), turns, parallel)


def loss_and_gradients(
    loss_of: Callable[[Any], Any], parts: Parts, weights: list[Any], scale_loss: Callable[[Any], Any]
) -> tuple[Any, list[Any]]:
    """Adds up the losses of all parts, and the gradients.

    Args:
        loss_of: gives a part's loss, a float32 scalar.
        parts: as `split` gives them.
        weights: what the gradients are of.
        scale_loss: gives what a loss's gradients are those of, as an optimizer has it.

    Returns:
        The loss, and the gradients of `scale_loss` of it, one for each weight.
    """
    if parts.turns == 1:
        return _of_turn(0, loss_of, parts, weights, scale_loss)

    def add_turn(turn: Any, loss: Any, gradients: Any) -> tuple[Any, ...]:
        more, more_gradients = _of_turn(turn, loss_of, parts, weights, scale_loss)
        return turn + 1, loss + more, [a + b for a, b in zip(gradients, more_gradients, strict=True)]

    start = (0, 0.0, [tf.zeros(weight.shape, weight.dtype) for weight in weights])
    # One turn at a time: the memory of several would be what accumulation is to save.
    _, loss, gradients = tf.while_loop(lambda turn, *_: turn < parts.turns, add_turn, start, parallel_iterations=1)
    return loss, gradients


def _of_turn(
    turn: Any, loss_of: Callable, parts: Parts, weights: list[Any], scale_loss: Callable
) -> tuple[Any, list[Any]]:
    """The same of the parts that are worked on side by side."""
    # Nothing in one of them needs another's results, so TensorFlow runs them at once.
    data = [tf.nest.map_structure(lambda ids, i=i: ids[turn, i], parts.data) for i in range(parts.parallel)]
    losses, gradients = zip(*(_of_part(loss_of, part, weights, scale_loss) for part in data), strict=True)
    return tf.add_n(losses), [tf.add_n(of_weight) for of_weight in zip(*gradients, strict=True)]


def _of_part(loss_of: Callable, part: Any, weights: list[Any], scale_loss: Callable) -> tuple[Any, list[Any]]:
    with tf.GradientTape() as tape:
        loss = loss_of(part)
        scaled = scale_loss(loss)
    # A weight that the loss doesn't depend on, which a model of one's own may have, has no gradient to add up.
    found = zip(weights, tape.gradient(scaled, weights), strict=True)
    return loss, [tf.zeros(weight.shape, weight.dtype) if one is None else one for weight, one in found]
