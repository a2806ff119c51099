"""The layers' weights in the form that decoding uses, and the computations of a step.

They are read once for a whole search, and all hypotheses of all sentences are the rows of one matrix, which is what a
processor multiplies best.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from keras import ops

from tf_transformer.layers.attention import MultiHeadAttention
from tf_transformer.layers.lean_ops import shape_of

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel


def read(variable: Any, dtype: str) -> Any:
    return ops.cast(ops.convert_to_tensor(variable), dtype)


def read_dense(layer: Any) -> tuple[Any, Any]:
    return read(layer.kernel, layer.compute_dtype), read(layer.bias, layer.compute_dtype)


def read_query(attention: MultiHeadAttention) -> tuple[Any, Any]:
    """The query's projection with the attention's `1 / sqrt(d_k)` in it."""
    kernel, bias = read_dense(attention.query)
    scale = 1.0 / math.sqrt(attention.key_width)
    return kernel * scale, bias * scale


def read_vocabulary(model: SequenceModel) -> tuple[Any, Any]:
    """The target's embeddings, (vocabulary, d_model), and the projection, (d_model, vocabulary)."""
    embeddings = read(model.decoder.embedding.embeddings, model.compute_dtype)
    if model.share_embeddings == "none":
        return embeddings, read(model.projection.kernel, model.compute_dtype)
    return embeddings, ops.transpose(embeddings)


def apply_dense(x: Any, dense: tuple[Any, Any]) -> Any:
    kernel, bias = dense
    return ops.matmul(x, kernel) + bias


def split_heads(x: Any, beams: Any, heads: int) -> Any:
    """Maps (batch * beams, heads * width) to (batch, heads, beams, width)."""
    x = ops.reshape(x, (-1, beams, heads, x.shape[-1] // heads))
    if isinstance(beams, int) and beams == 1:
        return ops.reshape(x, (-1, heads, 1, x.shape[-1]))
    return ops.transpose(x, (0, 2, 1, 3))


def attend(query: Any, memories: list[tuple[Any, Any]], mask: Any) -> Any:
    """Attends to all of several memories at once.

    Args:
        query: float (batch, heads, beams, width), scaled.
        memories: keys and values, each (batch, heads, its own length, width).
        mask: what is added to the logits, float32 (batch, 1, beams or 1, length of all).

    Returns:
        float (batch * beams, heads * width).
    """
    logits = [ops.matmul(query, ops.swapaxes(keys, -1, -2)) for keys, _ in memories]
    joined = logits[0] if len(logits) == 1 else ops.concatenate(logits, axis=-1)
    weights = ops.cast(ops.softmax(ops.cast(joined, "float32") + mask, axis=-1), query.dtype)
    y, start = None, 0
    for keys, values in memories:
        end = start + shape_of(keys)[2]
        part = ops.matmul(weights[..., start:end], values)
        y, start = part if y is None else y + part, end
    _, heads, _, width = y.shape
    return ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (-1, heads * width))
