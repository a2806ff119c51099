"""The encoder: a stack of self-attention and feed-forward layers (Vaswani et al., 2017, section 3.1)."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.layers.arguments import NORM_EPSILON, check_window
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.masks import combine_masks, padding_mask
from tf_transformer.layers.stack import Stack, StackLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class EncoderLayer(StackLayer):
    """One layer of the encoder: self-attention, then the feed-forward network.

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
        window: how many positions to each side of its own a position attends to; all unless given.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import EncoderLayer
        >>> EncoderLayer(512, 8, 2048)(np.ones((8, 43, 512), "float32")).shape
        TensorShape([8, 43, 512])
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
        window: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            d_model,
            num_heads,
            dff,
            dropout_rate,
            attention_dropout_rate,
            activation_dropout_rate,
            key_dim,
            value_dim,
            norm_first,
            activation,
            norm_epsilon,
            **kwargs,
        )
        self._restrict(window)

    def _restrict(self, window: int | None) -> None:
        # The attention is made in the base class, which is the decoder layer's too and knows no window.
        self.window = self.self_attention.window = check_window(window)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "window": self.window}

    def call(
        self,
        x: Any,
        attention_mask: Any | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Maps float (batch, length, d_model) to the same shape.

        Args:
            x: float (batch, length, d_model).
            attention_mask: bool (batch, length or 1, length), or with heads; True = may attend.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            float (batch, length, d_model); with `return_attention_scores` a pair of it and the weights (batch, heads,
            length, length).
        """
        y = self.self_attention_residual.enter(x)
        y, scores = self.self_attention(
            y, y, attention_mask=attention_mask, return_attention_scores=True, training=training
        )
        x = self.self_attention_residual(x, y, training=training)
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        x = self.feed_forward_residual(x, y, training=training)
        return (x, scores) if return_attention_scores else x


@keras.saving.register_keras_serializable(package="tf_transformer")
class Encoder(Stack):
    """Embeds source tokens and passes them through N encoder layers.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model.
        num_heads: number of attention heads.
        dff: width of the feed-forward network's hidden layer.
        vocab_size: number of source tokens.
        dropout_rate: dropout on each sub-layer's output and on the embedding sums.
        attention_dropout_rate: dropout on the attention weights.
        activation_dropout_rate: dropout on the feed-forward networks' hidden layers.
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm, with one closing LayerNorm.
        position: "sinusoidal", "sinusoidal_halves" or "learned".
        max_length: the longest sequence there are positions for.
        embedding: a TokenEmbedding to share; the encoder makes its own unless given.
        activation: of the feed-forward networks, "relu", "gelu" or "swish".
        norm_epsilon: of the layer normalisations.
        scale_embeddings: whether the embedding that it makes is multiplied by `sqrt(d_model)`.
        window: how many positions to each side of its own a position attends to; all unless given.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import Encoder
        >>> encoder = Encoder(num_layers=2, d_model=512, num_heads=8, dff=2048, vocab_size=8500)
        >>> encoder(np.ones((8, 62), "int32")).shape
        TensorShape([8, 62, 512])
    """

    layer_class = EncoderLayer

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
        window: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_layers,
            d_model,
            num_heads,
            dff,
            vocab_size,
            dropout_rate,
            attention_dropout_rate,
            activation_dropout_rate,
            key_dim,
            value_dim,
            norm_first,
            position,
            max_length,
            embedding,
            activation,
            norm_epsilon,
            scale_embeddings,
            **kwargs,
        )
        self.window = check_window(window)
        for layer in self.layers:
            layer._restrict(self.window)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "window": self.window}

    def build(self, ids_shape: tuple) -> None:
        self._build(ids_shape)

    def call(
        self,
        ids: Any,
        attention_mask: Any | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Encodes source ids.

        Args:
            ids: int (batch, length); 0 is padding, which no position attends to.
            attention_mask: a further restriction, bool (batch, length or 1, length), or with heads.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            float (batch, length, d_model); with `return_attention_scores` a pair of it and a list over layers of
            weights (batch, heads, length, length).
        """
        mask = combine_masks(padding_mask(ids), attention_mask)
        x = self.embed(ids, training=training)
        all_scores = []
        for layer in self.layers:
            x, scores = layer(x, attention_mask=mask, return_attention_scores=True, training=training)
            all_scores.append(scores)
        x = self.finish(x)
        return (x, all_scores) if return_attention_scores else x
