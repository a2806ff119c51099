"""The decoder: masked self-attention, encoder-decoder attention, feed-forward (Vaswani et al., 2017, section 3.1).

Decoding word by word goes through `start_cache` and `step`: the keys and values of earlier positions are kept in a
cache that is passed in and returned, so that each step works out one position only.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.masks import combine_masks, look_ahead_mask
from tf_transformer.layers.stack import Stack, StackLayer

Cache = dict[str, Any]


@keras.saving.register_keras_serializable(package="tf_transformer")
class DecoderLayer(StackLayer):
    """One layer of the decoder: masked self-attention, encoder-decoder attention, the feed-forward network.

    It sees no later position by itself.

    Args:
        d_model: width of input and output.
        num_heads: number of attention heads.
        dff: width of the feed-forward network's hidden layer.
        dropout_rate: dropout on each sub-layer's output.
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import DecoderLayer
        >>> x, context = np.ones((64, 50, 512), "float32"), np.ones((64, 43, 512), "float32")
        >>> DecoderLayer(512, 8, 2048)(x, context).shape
        TensorShape([64, 50, 512])
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
        mask = combine_masks(look_ahead_mask(ops.shape(x)[1]), attention_mask)
        y = self.self_attention_residual.enter(x)
        y, self_scores = self.self_attention(y, y, attention_mask=mask, return_attention_scores=True)
        x = self.self_attention_residual(x, y, training=training)
        memory = self.cross_attention.keys_and_values(context)
        x, cross_scores = self._after_self_attention(x, memory, context_mask, training)
        return (x, self_scores, cross_scores) if return_attention_scores else x

    def _after_self_attention(
        self, x: Any, memory: tuple[Any, Any], context_mask: Any | None, training: bool | None
    ) -> tuple[Any, Any]:
        y = self.cross_attention_residual.enter(x)
        y, scores = self.cross_attention.attend(y, *memory, context_mask, return_attention_scores=True)
        x = self.cross_attention_residual(x, y, training=training)
        y = self.feed_forward(self.feed_forward_residual.enter(x))
        return self.feed_forward_residual(x, y, training=training), scores

    def start_cache(self, context: Any, max_length: Any) -> Cache:
        """The cache before the first step.

        Args:
            context: the encoder's output, float (batch, source_len, width).
            max_length: the most steps there will be.

        Returns:
            "keys" and "values" of self-attention, (batch, heads, max_length, width) and still zero; "context_keys" and
            "context_values", (batch, heads, source_len, width), final.
        """
        context_keys, context_values = self.cross_attention.keys_and_values(context)
        batch, heads, _, key_width = ops.shape(context_keys)
        value_width = ops.shape(context_values)[-1]
        return {
            "keys": ops.zeros((batch, heads, max_length, key_width), context_keys.dtype),
            "values": ops.zeros((batch, heads, max_length, value_width), context_values.dtype),
            "context_keys": context_keys,
            "context_values": context_values,
        }

    def step(self, x: Any, position: Any, cache: Cache, context_mask: Any | None) -> tuple[Any, Cache]:
        """Works out one position.

        Args:
            x: float (batch, 1, d_model), what stands at `position`.
            position: scalar int, from 0.
            cache: as `start_cache` or the step before returned it.
            context_mask: bool (batch, 1, source_len).

        Returns:
            float (batch, 1, d_model), equal to `call`'s output at that position; and the cache with this position's
            keys and values in it.
        """
        slots = ops.arange(ops.shape(cache["keys"])[2])
        here = ops.reshape(ops.equal(slots, position), (1, 1, -1, 1))
        y = self.self_attention_residual.enter(x)
        new_keys, new_values = self.self_attention.keys_and_values(y)
        keys = ops.where(here, new_keys, cache["keys"])
        values = ops.where(here, new_values, cache["values"])
        seen = ops.reshape(slots <= position, (1, 1, -1))
        y = self.self_attention.attend(y, keys, values, seen)
        x = self.self_attention_residual(x, y, training=False)
        memory = cache["context_keys"], cache["context_values"]
        x, _ = self._after_self_attention(x, memory, context_mask, training=False)
        return x, {**cache, "keys": keys, "values": values}


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
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm, with one closing LayerNorm.
        position: "sinusoidal" or "learned".
        max_length: the longest sequence there are positions for.
        embedding: a TokenEmbedding to share; the decoder makes its own unless given.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import Decoder
        >>> decoder = Decoder(num_layers=2, d_model=512, num_heads=8, dff=2048, vocab_size=8000)
        >>> decoder(np.ones((64, 26), "int32"), np.ones((64, 62, 512), "float32")).shape
        TensorShape([64, 26, 512])
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
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Decodes target ids with the encoder's output in view.

        Padding needs no mask of its own here: it stands at the end, and no earlier position sees it.

        Args:
            ids: int (batch, target_len), the target shifted right by the start token; 0 is padding.
            context: the encoder's output, float (batch, source_len, any width).
            context_mask: bool (batch, target_len or 1, source_len), or with heads: where `context` may be attended to.
            attention_mask: a restriction of self-attention beside the look-ahead mask, bool (batch, target_len or 1,
                target_len), or with heads.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            float (batch, target_len, d_model); with `return_attention_scores` a pair of it and a dict of lists over
            layers: "self", weights (batch, heads, target_len, target_len), and "cross", weights (batch, heads,
            target_len, source_len).
        """
        x = self.embed(ids, training=training)
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

    def start_cache(self, context: Any, max_length: Any) -> list[Cache]:
        """Each layer's cache before the first step; see `DecoderLayer.start_cache`."""
        return [layer.start_cache(context, max_length) for layer in self.layers]

    def step(self, ids: Any, position: Any, cache: list[Cache], context_mask: Any | None) -> tuple[Any, list[Cache]]:
        """Works out one position.

        Args:
            ids: int (batch,), the token at `position`.
            position: scalar int, from 0.
            cache: as `start_cache` or the step before returned it.
            context_mask: bool (batch, 1, source_len).

        Returns:
            float (batch, 1, d_model), equal to `call`'s output at that position; and the new cache.
        """
        x = self.position_encoding(self.embedding(ops.expand_dims(ids, axis=1)), at=position)
        new_cache = []
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            x, layer_cache = layer.step(x, position, layer_cache, context_mask)
            new_cache.append(layer_cache)
        return self.finish(x), new_cache
