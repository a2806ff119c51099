"""The decoder: masked self-attention, encoder-decoder attention, feed-forward (Vaswani et al., 2017, section 3.1)."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.layers.lean_ops import shape_of
from tf_transformer.layers.masks import combine_masks, look_ahead_mask
from tf_transformer.layers.stack import Stack, StackLayer


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(StackLayer):
    """One layer of the decoder: masked self-attention, encoder-decoder attention, the feed-forward network.

    It sees no later position by itself.

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

    Example:
        >>> import numpy as np
        >>> from tf_transformer import DecoderLayer
        >>> x, context = np.ones((8, 50, 512), "float32"), np.ones((8, 43, 512), "float32")
        >>> DecoderLayer(512, 8, 2048)(x, context).shape
        TensorShape([8, 50, 512])
    """

    def _make_sublayers(self) -> None:
        super()._make_sublayers()
        self.cross_attention = self._attention("cross_attention")
        self.cross_attention_residual = self._residual("cross_attention_residual")

    def build(self, x_shape: tuple, context_shape: tuple) -> None:
        super().build(x_shape)
        self.cross_attention.build(x_shape, context_shape)
        self.cross_attention_residual.build(x_shape)

    def call(
        self,
        x: Any,
        context: Any,
        context_mask: Any | None = None,
        attention_mask: Any | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Maps float (batch, target_len, d_model) to the same shape.

        Args:
            x: float (batch, target_len, d_model).
            context: the encoder's output, float (batch, source_len, any width).
            context_mask: bool (batch, target_len or 1, source_len), or with heads: where `context` may be attended to.
            attention_mask: a restriction of self-attention beside the look-ahead mask, bool (batch, target_len or 1,
                target_len), or with heads.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            float (batch, target_len, d_model); with `return_attention_scores` a triple of it, the self-attention
            weights (batch, heads, target_len, target_len) and the encoder-decoder weights (batch, heads, target_len,
            source_len).
        """
        mask = combine_masks(look_ahead_mask(shape_of(x)[1]), attention_mask)
        y = self.self_attention_residual.enter(x)
        y, self_scores = self.self_attention(y, y, attention_mask=mask, return_attention_scores=True, training=training)
        x = self.self_attention_residual(x, y, training=training)
        y = self.cross_attention_residual.enter(x)
        y, cross_scores = self.cross_attention(
            y, context, attention_mask=context_mask, return_attention_scores=True, training=training
        )
        x = self.cross_attention_residual(x, y, training=training)
        y = self.feed_forward(self.feed_forward_residual.enter(x), training=training)
        x = self.feed_forward_residual(x, y, training=training)
        return (x, self_scores, cross_scores) if return_attention_scores else x


@keras.saving.register_keras_serializable(package="tf_transformer")
class Decoder(Stack):
    """Embeds target tokens and passes them, with the encoder's output, through N decoder layers.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model.
        num_heads: number of attention heads.
        dff: width of the feed-forward network's hidden layer.
        vocab_size: number of target tokens.
        dropout_rate: dropout on each sub-layer's output and on the embedding sums.
        attention_dropout_rate: dropout on the attention weights.
        activation_dropout_rate: dropout on the feed-forward networks' hidden layers.
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm, with one closing LayerNorm.
        position: "sinusoidal", "sinusoidal_halves" or "learned".
        max_length: the longest sequence there are positions for.
        embedding: a TokenEmbedding to share; the decoder makes its own unless given.
        activation: of the feed-forward networks, "relu", "gelu" or "swish".
        norm_epsilon: of the layer normalisations.
        scale_embeddings: whether the embedding that it makes is multiplied by `sqrt(d_model)`.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import Decoder
        >>> decoder = Decoder(num_layers=2, d_model=512, num_heads=8, dff=2048, vocab_size=8000)
        >>> decoder(np.ones((8, 26), "int32"), np.ones((8, 62, 512), "float32")).shape
        TensorShape([8, 26, 512])
    """

    layer_class = DecoderLayer

    def build(self, ids_shape: tuple, context_shape: tuple) -> None:
        self._build(ids_shape, context_shape)

    def call(
        self,
        ids: Any,
        context: Any,
        context_mask: Any | None = None,
        attention_mask: Any | None = None,
        added: Any | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Decodes target ids with the encoder's output in view.

        Padding needs no mask of its own here: it is at the end, and no earlier position sees it.

        Args:
            ids: int (batch, target_len), the target shifted right by the start token; 0 is padding.
            context: the encoder's output, float (batch, source_len, any width).
            context_mask: bool (batch, target_len or 1, source_len), or with heads: where `context` may be attended to.
            attention_mask: a restriction of self-attention beside the look-ahead mask, bool (batch, target_len or 1,
                target_len), or with heads.
            added: what is added to the embeddings, float (batch, target_len, d_model); nothing unless given.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            float (batch, target_len, d_model); with `return_attention_scores` a pair of it and a dict of lists over
            layers: "self", weights (batch, heads, target_len, target_len), and "cross", weights (batch, heads,
            target_len, source_len).
        """
        x = self.embed(ids, added, training=training)
        all_scores: dict[str, list] = {"self": [], "cross": []}
        for layer in self.layers:
            x, self_scores, cross_scores = layer(
                x,
                context,
                context_mask=context_mask,
                attention_mask=attention_mask,
                return_attention_scores=True,
                training=training,
            )
            all_scores["self"].append(self_scores)
            all_scores["cross"].append(cross_scores)
        x = self.finish(x)
        return (x, all_scores) if return_attention_scores else x
