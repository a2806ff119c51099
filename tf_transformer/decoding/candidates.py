"""The most likely next tokens that are allowed."""

from __future__ import annotations

from typing import Any

from keras import ops

from tf_transformer.layers.lean_ops import shape_of, take
from tf_transformer.layers.masks import PAD_ID

IMPOSSIBLE = -float("inf")


def likeliest(
    logits: Any,
    count: Any,
    position: Any,
    end_id: int,
    min_length: Any = 1,
    forced: Any | None = None,
    among: Any | None = None,
) -> tuple[Any, Any]:
    """The likeliest next tokens of each hypothesis: at least `count` that are allowed, where there are so many.

    Padding never is, and the closing token not before `min_length`. Log-probabilities are the model's: what is
    forbidden takes nothing away from the rest.

    Args:
        logits: float (hypotheses, vocabulary).
        count: how many, an int or a scalar int tensor.
        position: scalar int, where the tokens will stand.
        end_id: the token that closes a sequence.
        min_length: the fewest tokens of a sequence, the closing one counted; a scalar.
        forced: int (hypotheses,), the one token that is allowed; 0 where all are.
        among: the logits with -inf for tokens that are not allowed; all are unless given.

    Returns:
        Log-probabilities, float32 (hypotheses, count + 2, or the vocabulary where it is smaller), from the highest down
        but for those of tokens that are not allowed, which are -inf; and the tokens, int32, of the same shape.
    """
    logits = ops.cast(logits, "float32")
    among = logits if among is None else ops.cast(among, "float32")
    # Two more than asked for, since padding and the closing token may drop out.
    values, ids = top_k(among, ops.minimum(count + 2, logits.shape[-1]))
    # Not the first of `values`: XLA would look that up again for every logit.
    highest = ops.max(logits, axis=-1, keepdims=True)
    normaliser = highest + ops.log(ops.sum(ops.exp(logits - highest), axis=-1, keepdims=True))
    too_early = ops.less(position + 1, min_length)
    banned = ops.logical_or(ops.equal(ids, PAD_ID), ops.logical_and(ops.equal(ids, end_id), too_early))
    values = ops.where(banned, IMPOSSIBLE, values - normaliser)
    if forced is None:
        return values, ids
    forced = ops.expand_dims(forced, axis=1)
    is_first = ops.equal(ops.arange(shape_of(ids)[1]), 0)
    alone = ops.where(is_first, pick(logits, forced) - normaliser, IMPOSSIBLE)
    is_forced = ops.not_equal(forced, PAD_ID)
    return ops.where(is_forced, alone, values), ops.where(is_forced, forced, ids)


def top_k(x: Any, k: Any) -> tuple[Any, Any]:
    """The k highest values of each row and their places, from the highest down.

    Like `ops.top_k`, whose time is spent on looking at every value of a long row one by one. Here only those chunks
    are looked at that have the k highest maxima: the k highest values are in them.

    Args:
        x: float (rows, size).
        k: how many, at most `size`; an int or a scalar int tensor.

    Returns:
        Values and places, int32, each (rows, k).
    """
    size = x.shape[-1]
    chunk = max(d for d in range(1, 129) if size % d == 0)
    chunks = size // chunk
    if chunk < 8 or chunks < 8:
        return ops.top_k(x, k)
    x = ops.reshape(x, (-1, chunks, chunk))
    rows = shape_of(x)[0]
    _, best = ops.top_k(ops.max(x, axis=-1), ops.minimum(k, chunks))
    values, at = ops.top_k(ops.reshape(pick(x, best), (rows, -1)), k)
    return values, pick(best, at // chunk) * chunk + at % chunk


def pick(x: Any, places: Any) -> Any:
    """What stands at `places`, int32 (rows, n), in each row of `x`, (rows, size, ...): (rows, n, ...)."""
    rows, size, *rest = shape_of(x)
    starts = ops.expand_dims(ops.arange(rows, dtype="int32") * size, axis=1)
    return take(ops.reshape(x, (rows * size, *rest)), places + starts)


def length_penalty(length: Any, alpha: Any, offset: float = 5.0) -> Any:
    """`((5 + length) / 6)^alpha`, by which a hypothesis's log-probability is divided (Wu et al., 2016, equation 14).

    Args:
        length: tokens, the closing one counted.
        alpha: 0 for none; the paper has 0.6.
        offset: replaces the 5, and one more than it the 6; with 0 this is `length^alpha`, of
            which nothing is 1.

    Example:
        >>> float(length_penalty(7, alpha=1.0))
        2.0
        >>> float(length_penalty(7, alpha=1.0, offset=0.0))
        7.0
    """
    length = ops.cast(length, "float32")
    if not offset:
        length = ops.maximum(length, 1.0)
    return ops.power((offset + length) / (offset + 1.0), ops.cast(alpha, "float32"))


def forced_token(prefix: Any, position: Any) -> Any:
    """The tokens that must stand at `position`, int (rows,), 0 where any may, for a prefix int (rows, length)."""
    length = shape_of(prefix)[1]
    here = ops.equal(ops.arange(length, dtype="int32"), position)
    return ops.sum(ops.where(here, prefix, 0), axis=1)
