"""What the encoder and the decoder have in common: a layer's sizes and sub-layers, and a stack of such layers."""

from __future__ import annotations

from typing import Any, ClassVar

import keras

from tf_transformer.layers.arguments import (
    NORM_EPSILON,
    check_activation,
    check_epsilon,
    check_heads,
    check_rates,
    check_sizes,
)
from tf_transformer.layers.attention import MultiHeadAttention
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.embedded_stack import EmbeddedStack
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.feed_forward import FeedForward
from tf_transformer.layers.normalization import LayerNormalization
from tf_transformer.layers.positions import PositionEncoding
from tf_transformer.layers.residual import Residual


class StackLayer(keras.layers.Layer):
    """Base of EncoderLayer and DecoderLayer: self-attention and the feed-forward network, each in its Residual.

    Args:
        d_model: width of input and output.
        num_heads: number of attention heads.
        dff: width of the feed-forward network's hidden layer.
        dropout_rate: dropout on each sub-layer's output.
        attention_dropout_rate: dropout on the attention weights.
        activation_dropout_rate: dropout on the feed-forward network's hidden layer.
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm.
        activation: of the feed-forward network, "relu", "gelu" or "swish".
        norm_epsilon: of the layer normalisations.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        dff: int,
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.0,
        activation_dropout_rate: float = 0.0,
        key_dim: int | None = None,
        value_dim: int | None = None,
        norm_first: bool = False,
        activation: str = "relu",
        norm_epsilon: float = NORM_EPSILON,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model, self.num_heads, self.key_dim, self.value_dim = check_heads(d_model, num_heads, key_dim, value_dim)
        (self.dff,) = check_sizes(dff=dff)
        self.dropout_rate, self.attention_dropout_rate, self.activation_dropout_rate = check_rates(
            dropout_rate=dropout_rate,
            attention_dropout_rate=attention_dropout_rate,
            activation_dropout_rate=activation_dropout_rate,
        )
        self.norm_first = norm_first
        self.activation, self.norm_epsilon = check_activation(activation), check_epsilon(norm_epsilon)
        self._make_sublayers()

    def _make_sublayers(self) -> None:
        self.self_attention = self._attention("self_attention")
        self.self_attention_residual = self._residual("self_attention_residual")
        self.feed_forward = FeedForward(
            self.d_model,
            self.dff,
            self.activation_dropout_rate,
            self.activation,
            name="feed_forward",
            dtype=self.dtype_policy,
        )
        self.feed_forward_residual = self._residual("feed_forward_residual")

    def _attention(self, name: str) -> MultiHeadAttention:
        return MultiHeadAttention(
            self.d_model,
            self.num_heads,
            self.key_dim,
            self.value_dim,
            self.attention_dropout_rate,
            name=name,
            dtype=self.dtype_policy,
        )

    def _residual(self, name: str) -> Residual:
        return Residual(self.dropout_rate, self.norm_first, self.norm_epsilon, name=name, dtype=self.dtype_policy)

    def build(self, x_shape: tuple) -> None:
        self.self_attention.build(x_shape, x_shape)
        self.self_attention_residual.build(x_shape)
        self.feed_forward.build(x_shape)
        self.feed_forward_residual.build(x_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "dff": self.dff,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "activation_dropout_rate": self.activation_dropout_rate,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "norm_first": self.norm_first,
            "activation": self.activation,
            "norm_epsilon": self.norm_epsilon,
        }


class Stack(EmbeddedStack):
    """Base of Encoder and Decoder: embedded tokens with their positions, and N layers over them.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model.
        num_heads: number of attention heads.
        dff: width of the feed-forward network's hidden layer.
        vocab_size: number of tokens.
        dropout_rate: dropout on each sub-layer's output and on the embedding sums.
        attention_dropout_rate: dropout on the attention weights.
        activation_dropout_rate: dropout on the feed-forward networks' hidden layers.
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm, with one closing LayerNorm.
        position: "sinusoidal", "sinusoidal_halves" or "learned".
        max_length: the longest sequence there are positions for.
        embedding: a TokenEmbedding to share; the stack makes its own unless given.
        activation: of the feed-forward networks, "relu", "gelu" or "swish".
        norm_epsilon: of the layer normalisations.
        scale_embeddings: whether the embedding that it makes is multiplied by `sqrt(d_model)`.
    """

    layer_class: ClassVar[type[StackLayer]]

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        dff: int,
        vocab_size: int,
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.0,
        activation_dropout_rate: float = 0.0,
        key_dim: int | None = None,
        value_dim: int | None = None,
        norm_first: bool = False,
        position: str = "sinusoidal",
        max_length: int = 1024,
        embedding: TokenEmbedding | None = None,
        activation: str = "relu",
        norm_epsilon: float = NORM_EPSILON,
        scale_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_layers, d_model, vocab_size, dropout_rate, embedding, scale_embeddings, **kwargs)
        self.norm_first = norm_first
        self.position = position
        dtype = self.dtype_policy
        self.position_encoding = PositionEncoding(position, max_length, name="position", dtype=dtype)
        self.dropout = Dropout(self.dropout_rate, name="dropout", dtype=dtype)
        self.layers = [
            self.layer_class(
                d_model,
                num_heads,
                dff,
                dropout_rate=dropout_rate,
                attention_dropout_rate=attention_dropout_rate,
                activation_dropout_rate=activation_dropout_rate,
                key_dim=key_dim,
                value_dim=value_dim,
                norm_first=norm_first,
                activation=activation,
                norm_epsilon=norm_epsilon,
                name=f"layer_{i}",
                dtype=dtype,
            )
            for i in range(self.num_layers)
        ]
        # As those have checked them, NumPy's numbers made Python's.
        first = self.layers[0]
        self.num_heads, self.dff = first.num_heads, first.dff
        self.key_dim, self.value_dim = first.key_dim, first.value_dim
        self.attention_dropout_rate = first.attention_dropout_rate
        self.activation_dropout_rate = first.activation_dropout_rate
        self.activation, self.norm_epsilon = first.activation, first.norm_epsilon
        self.scale_embeddings = self.embedding.scaled
        self.max_length = self.position_encoding.max_length
        if norm_first:
            self.norm = LayerNormalization(self.norm_epsilon, name="norm", dtype=dtype)

    def _build(self, ids_shape: tuple, *context_shape: tuple) -> None:
        shape = self.build_embedding(ids_shape)
        self.position_encoding.build(shape)
        for layer in self.layers:
            layer.build(shape, *context_shape)
        if self.norm_first:
            self.norm.build(shape)

    def embed(self, ids: Any, added: Any | None = None, training: bool | None = None) -> Any:
        """Maps int ids (batch, length) to what the first layer reads, float (batch, length, d_model).

        `added`, of that shape, is added to the embeddings.
        """
        x = self.embedding(ids)
        x = x if added is None else x + added
        return self.dropout(self.position_encoding(x), training=training)

    def finish(self, x: Any) -> Any:
        """The last layer's output, or with pre-norm its normalised form."""
        return self.norm(x) if self.norm_first else x

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "dff": self.dff,
            "attention_dropout_rate": self.attention_dropout_rate,
            "activation_dropout_rate": self.activation_dropout_rate,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "norm_first": self.norm_first,
            "position": self.position,
            "max_length": self.max_length,
            "activation": self.activation,
            "norm_epsilon": self.norm_epsilon,
            "scale_embeddings": self.scale_embeddings,
        }
