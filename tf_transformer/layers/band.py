"""Restricted self-attention (Vaswani et al., 2017, section 4): each position attends to a neighbourhood alone.

The sequence is cut into blocks as long as the window reaches. A block's queries see their own block, the one before and
the one after, of which a mask leaves the band. So time and memory grow with the length, not with its square. A sequence
that is shorter than the window is one block.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.lean_ops import shape_of
from tf_transformer.layers.masks import additive_mask


def band_weights(query: Any, key: Any, attention_mask: Any | None, window: int, dtype: str) -> Any:
    """Works out the softmax over each position's neighbourhood.

    Args:
        query: float (batch, heads, length, key_dim).
        key: float (batch, heads, length, key_dim).
        attention_mask: bool, that broadcasts to (batch, heads, 1, length), or None: which positions may be attended to.
        window: how many positions to each side of its own a position attends to.
        dtype: of the weights.

    Returns:
        (batch, heads, blocks, size, 3 * size): of each block's queries the weights of its three blocks of keys. The
        size is the window, or the length where that is smaller.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.band import band_weights
        >>> x = np.ones((1, 1, 5, 4), "float32")
        >>> band_weights(x, x, None, 2, "float32").shape
        TensorShape([1, 1, 3, 2, 6])
    """
    length = shape_of(key)[2]
    size = _block_size(length, window)
    query = _blocks(query / math.sqrt(query.shape[-1]), size)
    logits = ops.matmul(query, ops.swapaxes(_three_blocks(key, size), -1, -2))
    logits = ops.cast(logits, keras.backend.result_type(logits.dtype, "float32"))
    if attention_mask is None:
        attention_mask = ops.ones((1, 1, 1, length), "bool")
    # Beside the sequence's ends there is nothing to attend to.
    real = _three_blocks(ops.swapaxes(ops.cast(attention_mask, logits.dtype), -1, -2), size)
    real = ops.swapaxes(real, -1, -2)
    offset = ops.arange(3 * size) - size - ops.expand_dims(ops.arange(size), axis=1)
    allowed = ops.logical_and(real > 0, ops.abs(offset) <= window)
    logits = logits + additive_mask(allowed, logits.dtype)
    return ops.cast(ops.softmax(logits, axis=-1), dtype)


def band_output(weights: Any, value: Any) -> Any:
    """Sums values by the weights of `band_weights`: float (batch, heads, length, value_dim)."""
    batch, heads, length, width = shape_of(value)
    output = ops.matmul(weights, _three_blocks(value, shape_of(weights)[-2]))
    return ops.reshape(output, (batch, heads, -1, width))[:, :, :length]


def whole_weights(weights: Any, length: Any) -> Any:
    """The weights of `band_weights` as a matrix, (batch, heads, length, length), with 0 outside the band."""
    batch, heads, blocks, size, _ = shape_of(weights)
    width = (blocks + 2) * size
    # Laid out end to end with rows that are a block longer than the matrix's, each block comes one block later in it.
    rows = ops.transpose(weights, (0, 1, 3, 2, 4))
    rows = ops.pad(rows, [[0, 0]] * 4 + [[0, width + size - 3 * size]])
    flat = ops.reshape(rows, (batch, heads, size, blocks * (width + size)))[..., : blocks * width]
    matrix = ops.transpose(ops.reshape(flat, (batch, heads, size, blocks, width)), (0, 1, 3, 2, 4))
    matrix = ops.reshape(matrix, (batch, heads, blocks * size, width))
    return matrix[:, :, :length, size : size + length]


def _block_size(length: Any, window: int) -> Any:
    """The window, or the length where that is smaller; at least 1."""
    if isinstance(length, int):
        return max(1, min(length, window))
    return ops.clip(length, 1, window)


def _blocks(x: Any, size: Any) -> Any:
    """Cuts (batch, heads, length, width) into (batch, heads, blocks, size, width), the last one filled up with 0."""
    batch, heads, length, width = shape_of(x)
    blocks = -(-length // size)
    x = ops.pad(x, [[0, 0], [0, 0], [0, blocks * size - length], [0, 0]])
    return ops.reshape(x, (batch, heads, blocks, size, width))


def _three_blocks(x: Any, size: Any) -> Any:
    """For each block itself between the one before and the one after: (batch, heads, blocks, 3 * size, width)."""
    blocks = _blocks(x, size)
    number = shape_of(blocks)[2]
    around = ops.pad(blocks, [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]])
    return ops.concatenate([around[:, :, start : start + number] for start in range(3)], axis=3)
