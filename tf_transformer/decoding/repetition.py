"""Which tokens would repeat what a hypothesis has said already."""

from __future__ import annotations

from typing import Any

from keras import ops

from tf_transformer.layers.lean_ops import shape_of
from tf_transformer.layers.masks import PAD_ID


def ends_of_repeats(tokens: Any, position: Any, size: Any) -> Any:
    """The tokens that would end an n-gram which a hypothesis already holds (Paulus et al., 2018, section 2.5).

    Args:
        tokens: int32 (..., length), each hypothesis's tokens before `position`; what stands behind them is not read.
        position: scalar int, where the next token will stand.
        size: n, at least 1, an int or a scalar int tensor; with 1 no token may come twice.

    Returns:
        int32 (..., length): such tokens, each as often as it would repeat one, and 0 elsewhere.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding.repetition import ends_of_repeats
        >>> ends_of_repeats(np.array([[5, 6, 7, 5, 6, 0]], "int32"), 5, size=3).numpy().tolist()  # 5 6 7 was there
        [[0, 0, 7, 0, 0, 0]]
    """
    place = ops.arange(shape_of(tokens)[-1], dtype="int32")
    # An n-gram ends at each of these places; it is repeated if all before its last token is what stands last now.
    is_end = ops.logical_and(place >= size - 1, place < position)
    repeats = ops.logical_and(is_end, ops.ones_like(tokens, "bool"))

    def compare(back: Any, repeats: Any) -> Any:
        last = ops.sum(ops.where(ops.equal(place, position - back), tokens, 0), axis=-1, keepdims=True)
        return ops.logical_and(repeats, ops.equal(ops.roll(tokens, back, axis=-1), last))

    repeats = ops.fori_loop(1, ops.minimum(size, position), compare, repeats)  # beyond them there are no ends
    return ops.where(repeats, tokens, PAD_ID)


def without_repeats(logits: Any, tokens: Any, position: Any, size: Any) -> Any:
    """Logits, float (hypotheses, vocabulary), with -inf for what would repeat an n-gram of so many tokens.

    Args:
        logits: the next token's.
        tokens: int32 (hypotheses, length), or with several axes in front, as `ends_of_repeats` takes them.
        position: scalar int, where the next token will stand.
        size: n; 0 for logits as they are, an int or a scalar int tensor.
    """
    if isinstance(size, int) and size == 0:
        return logits

    def exclude() -> Any:
        excluded = ends_of_repeats(ops.reshape(tokens, (-1, shape_of(tokens)[-1])), position, size)
        rows = ops.broadcast_to(ops.arange(shape_of(excluded)[0], dtype="int32")[:, None], shape_of(excluded))
        places = ops.reshape(ops.stack([rows, excluded], axis=-1), (-1, 2))  # the padding is never chosen anyway
        values = ops.full((shape_of(places)[0],), -float("inf"), logits.dtype)
        return ops.scatter_update(logits, places, values)

    return exclude() if isinstance(size, int) else ops.cond(size > 0, exclude, lambda: logits)
