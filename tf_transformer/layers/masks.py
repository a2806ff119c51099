"""Masks: boolean, True where a query may attend to a key.

A mask given to a layer has shape (batch, query_len or 1, key_len), or (batch, heads or 1, query_len, key_len) where
the heads differ.
"""

from __future__ import annotations

from typing import Any

from keras import ops

PAD_ID = 0

# Added to a forbidden connection's logit. Any logit below 1e22 in size vanishes beside it in float32, so that the
# weight is exactly 0, and a row with nothing to attend to becomes uniform instead of NaN.
FORBIDDEN = -1e30


def padding_mask(ids: Any) -> Any:
    """Lets every query attend to the real tokens of a sequence only.

    Args:
        ids: token ids, int (batch, length); 0 is padding.

    Returns:
        bool (batch, 1, length): False at padding. A layer's attention takes it for all heads and queries;
        `scaled_dot_product_attention`, which knows no axis but by its place, is given `padding_mask(ids)[:, None]`.

    Example:
        >>> from tf_transformer import padding_mask
        >>> padding_mask([[7, 6, 0]]).numpy().tolist()
        [[[True, True, False]]]
    """
    return ops.expand_dims(ops.not_equal(ops.convert_to_tensor(ids), PAD_ID), axis=1)


def token_weights(ids: Any) -> Any:
    """Counts real tokens: float32 of the ids' shape, 1 at a token and 0 at padding."""
    return ops.cast(ops.not_equal(ids, PAD_ID), "float32")


def look_ahead_mask(length: Any) -> Any:
    """Lets position i attend to positions 0..i and to no later one.

    Args:
        length: the sequence's length, an int or a scalar int tensor.

    Returns:
        bool (1, length, length).

    Example:
        >>> from tf_transformer import look_ahead_mask
        >>> look_ahead_mask(2).numpy().tolist()
        [[[True, False], [True, True]]]
    """
    position = ops.arange(length)
    return ops.expand_dims(position[:, None] >= position[None, :], axis=0)


def combine_masks(first: Any | None, second: Any | None) -> Any | None:
    """What both masks allow; None allows everything."""
    if first is None:
        return second
    if second is None:
        return first
    first, second = with_heads(first), with_heads(second)
    return ops.logical_and(first, second)


def with_heads(mask: Any) -> Any:
    """Gives a (batch, query_len, key_len) mask its axis of heads."""
    mask = ops.convert_to_tensor(mask, dtype="bool")
    if len(mask.shape) not in (3, 4):
        # One of two axes would broadcast, and mean something else.
        raise ValueError(
            "a mask must have shape (batch, query_len or 1, key_len) or (batch, heads or 1, query_len or 1, key_len), "
            f"got {tuple(mask.shape)}"
        )
    return ops.expand_dims(mask, axis=1) if len(mask.shape) == 3 else mask


def additive_mask(allowed: Any, dtype: str = "float32") -> Any:
    """What is added to logits, so that only what is allowed gets weight: 0 there, `FORBIDDEN` elsewhere.

    Args:
        allowed: bool, any shape.
        dtype: of the logits.

    Example:
        >>> additive_mask([True, False]).numpy()
        array([ 0.e+00, -1.e+30], dtype=float32)
    """
    # Of two plain numbers Keras would make its default type: float16, in which the one is infinite, or float64.
    nothing, forbidden = (ops.convert_to_tensor(x, "float32") for x in (0.0, FORBIDDEN))
    return ops.cast(ops.where(allowed, nothing, forbidden), dtype)
