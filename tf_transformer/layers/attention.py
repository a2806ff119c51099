"""Scaled dot-product attention and multi-head attention (Vaswani et al., 2017, section 3.2)."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.arguments import check_heads, check_rates, check_window
from tf_transformer.layers.band import band_output, band_weights, whole_weights
from tf_transformer.layers.dense import Dense
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.lean_ops import shape_of
from tf_transformer.layers.masks import additive_mask, with_heads


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any | None = None,
    return_attention_scores: bool = False,
) -> Any:
    """Computes `softmax(Q K^T / sqrt(d_k)) V`, the paper's equation 1.

    The softmax is computed in float32 (or better) whatever the inputs' dtype, since masked float16 logits would
    overflow.

    Args:
        query: float (batch, heads, query_len, key_dim).
        key: float (batch, heads, key_len, key_dim).
        value: float (batch, heads, key_len, value_dim).
        attention_mask: bool, anything that broadcasts to (batch, heads, query_len, key_len); True = may attend. A
            query that may attend to nothing gets a finite output. A mask without an axis of heads, such as that of
            `padding_mask`, is one for layers: write `padding_mask(ids)[:, None]`, since the first of three axes
            counts as the heads here.
        return_attention_scores: whether to return the weights too.

    Returns:
        float (batch, heads, query_len, value_dim); with `return_attention_scores` a pair of it and the weights
        (batch, heads, query_len, key_len).

    Raises:
        ValueError: the first of the mask's three axes is not that of the heads.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import scaled_dot_product_attention
        >>> x = np.ones((1, 1, 3, 4), "float32")
        >>> scaled_dot_product_attention(x, x, x).shape
        TensorShape([1, 1, 3, 4])
    """
    query, value = ops.convert_to_tensor(query), ops.convert_to_tensor(value)
    if attention_mask is not None:
        attention_mask = ops.convert_to_tensor(attention_mask)
        _check_first_axis(attention_mask, query)
    # The weights get its dtype, and as whole numbers they would be 0.
    value = ops.cast(value, keras.backend.result_type(value.dtype, float))
    weights = _attention_weights(query, key, attention_mask, value.dtype)
    output = ops.matmul(weights, value)
    return (output, weights) if return_attention_scores else output


def _check_first_axis(mask: Any, query: Any) -> None:
    """Refuses a (batch, query_len or 1, key_len) mask, whose batch would be taken for the heads, where that shows."""
    heads = query.shape[1] if len(query.shape) == 4 else None
    if len(mask.shape) == 3 and heads is not None and mask.shape[0] not in (None, 1, heads):
        raise ValueError(
            f"attention_mask with three axes must be (heads or 1, query_len or 1, key_len), got {tuple(mask.shape)} "
            f"for {heads} heads; give one mask for each sentence as attention_mask[:, None]"
        )


def _attention_weights(query: Any, key: Any, attention_mask: Any | None, dtype: str) -> Any:
    """The softmax of equation 1, (batch, heads, query_len, key_len), as `dtype`."""
    query, key = ops.convert_to_tensor(query), ops.convert_to_tensor(key)
    # The query is scaled, not the logits: it is smaller, and float16 logits are kept from overflowing.
    query = query / math.sqrt(query.shape[-1])
    logits = ops.matmul(query, ops.swapaxes(key, -1, -2))
    logits = ops.cast(logits, keras.backend.result_type(logits.dtype, "float32"))
    if attention_mask is not None:
        # Adding a small (batch, 1, query_len or 1, key_len) tensor is cheaper than selecting in the large one.
        logits = logits + additive_mask(attention_mask, logits.dtype)
    return ops.cast(ops.softmax(logits, axis=-1), dtype)


@keras.saving.register_keras_serializable(package="tf_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Attends with several heads at once (section 3.2.2).

    `Concat(head_1, ..., head_h) W_O` with `head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)`. The heads' projections of
    one kind are one matrix, in the sub-layers `query`, `key`, `value` and `output_projection`.

    Args:
        d_model: width of the output.
        num_heads: number of heads, h.
        key_dim: width of a head's queries and keys, d_k; `d_model / num_heads` unless given.
        value_dim: width of a head's values, d_v; `d_model / num_heads` unless given.
        attention_dropout_rate: share of the attention weights that is dropped in training.
        window: in self-attention, how many positions to each side of its own a position attends to; all unless given.
            Time and memory then grow with the length and not with its square.

    Raises:
        ValueError: sizes that are not positive, `num_heads` not dividing `d_model` where heads' widths aren't given, or
            a rate out of range.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import MultiHeadAttention
        >>> x = np.ones((1, 60, 512), "float32")
        >>> output, weights = MultiHeadAttention(512, 8)(x, x, return_attention_scores=True)
        >>> output.shape, weights.shape
        (TensorShape([1, 60, 512]), TensorShape([1, 8, 60, 60]))
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        attention_dropout_rate: float = 0.0,
        window: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = check_window(window)
        (self.attention_dropout_rate,) = check_rates(attention_dropout_rate=attention_dropout_rate)
        d_model, num_heads, key_dim, value_dim = check_heads(d_model, num_heads, key_dim, value_dim)
        self.d_model = d_model
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.key_width = key_dim or d_model // num_heads
        self.value_width = value_dim or d_model // num_heads
        self.query = Dense(num_heads * self.key_width, name="query", dtype=self.dtype_policy)
        self.key = Dense(num_heads * self.key_width, name="key", dtype=self.dtype_policy)
        self.value = Dense(num_heads * self.value_width, name="value", dtype=self.dtype_policy)
        # Its name is `output`; the attribute can't be, since Keras layers have one of that name.
        self.output_projection = Dense(d_model, name="output", dtype=self.dtype_policy)
        self.dropout = Dropout(self.attention_dropout_rate, name="dropout", dtype=self.dtype_policy)

    def build(self, query_shape: tuple, value_shape: tuple, key_shape: tuple | None = None) -> None:
        self.query.build(query_shape)
        self.key.build(key_shape or value_shape)
        self.value.build(value_shape)
        self.output_projection.build((*query_shape[:-1], self.num_heads * self.value_width))

    def call(
        self,
        query: Any,
        value: Any,
        key: Any | None = None,
        attention_mask: Any | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Attends from `query` to `value`.

        Args:
            query: float (batch, query_len, any width).
            value: float (batch, key_len, any width).
            key: float (batch, key_len, any width); `value` unless given.
            attention_mask: bool (batch, query_len or 1, key_len), or (batch, heads or 1, query_len or 1, key_len);
                True = may attend. With a window it must be one for all queries, (batch, 1, key_len) or with heads.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            float (batch, query_len, d_model); with `return_attention_scores` a pair of it and the weights (batch,
            heads, query_len, key_len), those before dropout.
        """
        query = self._split_heads(self.query(query), self.key_width)
        key = self._split_heads(self.key(value if key is None else key), self.key_width)
        value = self._split_heads(self.value(value), self.value_width)
        mask = None if attention_mask is None else with_heads(attention_mask)
        if self.window is not None:
            return self._restricted(query, key, value, mask, return_attention_scores, training)
        weights = _attention_weights(query, key, mask, value.dtype)
        heads = ops.matmul(self.dropout(weights, training=training), value)
        output = self.output_projection(self._join_heads(heads))
        return (output, weights) if return_attention_scores else output

    def _restricted(
        self, query: Any, key: Any, value: Any, mask: Any | None, return_attention_scores: bool, training: bool | None
    ) -> Any:
        """What `call` gives where there is a window."""
        if query.shape[2] != key.shape[2]:
            raise ValueError(
                "window is for self-attention, in which there are as many queries as keys, got "
                f"{query.shape[2]} and {key.shape[2]}"
            )
        if mask is not None and mask.shape[2] != 1:
            raise ValueError(
                f"with a window the mask must be one for all queries, (batch, 1, key_len), got {tuple(mask.shape)}"
            )
        weights = band_weights(query, key, mask, self.window, value.dtype)
        heads = band_output(self.dropout(weights, training=training), value)
        output = self.output_projection(self._join_heads(heads))
        return (output, whole_weights(weights, shape_of(key)[2])) if return_attention_scores else output

    def _split_heads(self, x: Any, width: int) -> Any:
        batch, length, _ = shape_of(x)
        return ops.transpose(ops.reshape(x, (batch, length, self.num_heads, width)), (0, 2, 1, 3))

    def _join_heads(self, x: Any) -> Any:
        batch, _, length, _ = shape_of(x)
        return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, self.num_heads * self.value_width))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "attention_dropout_rate": self.attention_dropout_rate,
            "window": self.window,
        }
