"""Alignment: the source token that each target token attends to most."""

from __future__ import annotations

from typing import Any

from keras import ops

from tf_transformer.layers.masks import PAD_ID


def align(
    cross_attention: Any, source_ids: Any, target_ids: Any, end_id: int, head: tuple[int, int] | None = None
) -> Any:
    """Reads an alignment from encoder-decoder attention: the source token of the highest weight.

    Args:
        cross_attention: float (batch, layers, heads, target_len, source_len), row i being what the model attends to
            when it chooses `target_ids[i]`.
        source_ids: int (batch, source_len), with the closing token; 0 is padding.
        target_ids: int (batch, target_len), with the closing token; 0 is padding.
        end_id: the closing token; nothing is aligned to it but itself.
        head: the layer and the head whose weights count; the mean of all unless given.

    Returns:
        int32 (batch, target_len): places in the source; -1 at padding, and where the source is empty.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding import align
        >>> weights = np.array([[[[[0.1, 0.8, 0.1], [0.3, 0.2, 0.5]]]]])
        >>> align(weights, np.array([[7, 8, 3]]), np.array([[9, 3]]), end_id=3).numpy().tolist()
        [[1, 2]]
    """
    source_ids, target_ids = ops.convert_to_tensor(source_ids), ops.convert_to_tensor(target_ids)
    weights = ops.cast(cross_attention, "float32")
    weights = ops.mean(weights, axis=(1, 2)) if head is None else weights[:, head[0], head[1]]
    closes = ops.expand_dims(ops.equal(target_ids, end_id), axis=2)
    closing = ops.expand_dims(ops.equal(source_ids, end_id), axis=1)
    is_token = ops.expand_dims(ops.not_equal(source_ids, PAD_ID), axis=1)
    allowed = ops.logical_and(ops.equal(closes, closing), is_token)
    # A column more: in an empty batch there would be none to choose from.
    weights = ops.pad(ops.where(allowed, weights, -1.0), ((0, 0), (0, 0), (0, 1)), constant_values=-1.0)
    places = ops.cast(ops.argmax(weights, axis=-1), "int32")
    there = ops.logical_and(ops.any(allowed, axis=-1), ops.not_equal(target_ids, PAD_ID))
    return ops.where(there, places, -1)
