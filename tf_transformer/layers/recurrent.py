"""Encoder and decoder of the recurrent model (Bahdanau et al., 2015; Wu et al., 2016, GNMT)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.attention import MultiHeadAttention
from tf_transformer.layers.dense import Dense
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.embedded_stack import EmbeddedStack
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.lstm import LSTM
from tf_transformer.layers.masks import PAD_ID, padding_mask


class _RecurrentStack(EmbeddedStack):
    """What both have in common: embedded tokens, and N layers of LSTM with dropout on their outputs.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model.
        vocab_size: number of tokens.
        dropout_rate: dropout on the embeddings and on each layer's output.
        embedding: a TokenEmbedding to share; the stack makes its own unless given.
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        vocab_size: int,
        dropout_rate: float = 0.1,
        embedding: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, d_model, vocab_size, dropout_rate, embedding, **kwargs)
        self.dropout = Dropout(self.dropout_rate, name="dropout", dtype=self.dtype_policy)

    def _lstm(self, name: str, units: int | None = None, backward: bool = False) -> LSTM:
        return LSTM(units or self.d_model, backward, name=name, dtype=self.dtype_policy)


@keras.saving.register_keras_serializable(package="tf_transformer")
class RecurrentEncoder(_RecurrentStack):
    """Maps source ids (batch, source_len) to float (batch, source_len, d_model).

    The bottom layer reads in both directions, each half as wide as the model. Around each layer above is a residual
    connection.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model, even.
        vocab_size: number of tokens.
        dropout_rate: dropout on the embeddings and on each layer's output.
        embedding: a TokenEmbedding to share; the encoder makes its own unless given.

    Raises:
        ValueError: sizes or rates that can't be.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.recurrent import RecurrentEncoder
        >>> RecurrentEncoder(2, 16, vocab_size=100)(np.array([[5, 6, 3], [7, 3, 0]])).shape
        TensorShape([2, 3, 16])
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        vocab_size: int,
        dropout_rate: float = 0.1,
        embedding: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, d_model, vocab_size, dropout_rate, embedding, **kwargs)
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, since the bottom layer reads in two directions, got {d_model}")
        self.forward = self._lstm("forward", self.d_model // 2)
        self.backward = self._lstm("backward", self.d_model // 2, backward=True)
        self.layers = [self._lstm(f"layer_{i}") for i in range(1, self.num_layers)]

    def build(self, ids_shape: tuple) -> None:
        shape = self.build_embedding(ids_shape)
        for layer in self.forward, self.backward, *self.layers:
            layer.build(shape)

    def call(self, ids: Any, training: bool | None = None) -> Any:
        """Maps int ids (batch, source_len), 0 being padding, to float (batch, source_len, d_model)."""
        real = ops.not_equal(ops.cast(ids, "int32"), PAD_ID)
        x = self.dropout(self.embedding(ids), training=training)
        x = ops.concatenate([self.forward(x), self.backward(x, real)], axis=-1)
        x = self.dropout(x, training=training)
        for layer in self.layers:
            x = x + self.dropout(layer(x), training=training)
        return x


@keras.saving.register_keras_serializable(package="tf_transformer")
class RecurrentDecoder(_RecurrentStack):
    """Maps target ids (batch, target_len) and the encoder's output to float (batch, target_len, d_model).

    The bottom layer reads the target alone. Its output attends to the encoder's, and what is found there is read by
    each layer above and by the last projection, beside the output of the layer below. Around each layer above the
    bottom one is a residual connection.

    The attention is the Transformer's with one head: Luong et al.'s "general" (2015) with the logits divided by the
    square root of the width.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model.
        vocab_size: number of tokens.
        dropout_rate: dropout on the embeddings and on each layer's output.
        embedding: a TokenEmbedding to share; the decoder makes its own unless given.

    Raises:
        ValueError: sizes or rates that can't be.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.recurrent import RecurrentDecoder
        >>> source, target = np.array([[5, 6, 3, 0]]), np.array([[2, 8]])
        >>> output, weights = RecurrentDecoder(2, 16, vocab_size=100)(target, np.ones((1, 4, 16), "float32"), source)
        >>> output.shape, weights.shape
        (TensorShape([1, 2, 16]), TensorShape([1, 1, 2, 4]))
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        vocab_size: int,
        dropout_rate: float = 0.1,
        embedding: TokenEmbedding | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, d_model, vocab_size, dropout_rate, embedding, **kwargs)
        self.bottom = self._lstm("bottom")
        self.attention = MultiHeadAttention(self.d_model, 1, name="attention", dtype=self.dtype_policy)
        self.layers = [self._lstm(f"layer_{i}") for i in range(1, self.num_layers)]
        self.output_projection = Dense(self.d_model, name="output", dtype=self.dtype_policy)

    def build(self, ids_shape: tuple, context_shape: tuple, *_: Any) -> None:
        shape = self.build_embedding(ids_shape)
        self.bottom.build(shape)
        self.attention.build(shape, context_shape)
        with_context = (*ids_shape, 2 * self.d_model)
        for layer in self.layers:
            layer.build(with_context)
        self.output_projection.build(with_context)

    def call(self, ids: Any, context: Any, source_ids: Any, training: bool | None = None) -> tuple[Any, Any]:
        """Reads a target, all positions of which are known (teacher forcing).

        Args:
            ids: int (batch, target_len), the target shifted right by the start token.
            context: the encoder's output, float (batch, source_len, d_model).
            source_ids: int (batch, source_len); 0 is padding, to which nothing attends.
            training: whether dropout is on.

        Returns:
            What is projected onto the vocabulary, float (batch, target_len, d_model), and the attention's weights,
            (batch, 1, target_len, source_len).
        """
        x = self.dropout(self.bottom(self.dropout(self.embedding(ids), training=training)), training=training)
        found, weights = self.attention(
            x, context, attention_mask=padding_mask(source_ids), return_attention_scores=True, training=training
        )
        for layer in self.layers:
            x = x + self.dropout(layer(ops.concatenate([x, found], axis=-1)), training=training)
        return self.output_projection(ops.concatenate([x, found], axis=-1)), weights
