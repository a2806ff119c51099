"""Runs the Transformer one target position at a time, with a cache of earlier keys and values.

The layers' own weights do the work, laid out for it: they are read once for a whole search, projections that read the
same input are one matrix, and all hypotheses of all sentences are the rows of one matrix, which is what a processor
multiplies best.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from tf_transformer.decoding.history import FIXED_ROUND, append, pick_entries, settled_room, unknown_zero
from tf_transformer.decoding.weights import (
    apply_dense,
    attend,
    read,
    read_dense,
    read_query,
    read_vocabulary,
    split_heads,
)
from tf_transformer.layers.lean_ops import shape_of, take
from tf_transformer.layers.masks import additive_mask, padding_mask, with_heads

if TYPE_CHECKING:
    from tf_transformer.layers.decoder import DecoderLayer
    from tf_transformer.layers.next_word import NextWord
    from tf_transformer.models.sequence_model import SequenceModel

Cache = dict[str, Any]


class Stepper:
    """Reads a model's weights and steps through a target with them; the steps together equal the model's call.

    Several hypotheses of one sentence (beams) share a cache, which grows by an entry for each of them at every step.
    `history` says which entries a hypothesis descends from, so that nothing moves in the cache as hypotheses come and
    go. From time to time `settle` drops the entries that no hypothesis descends from any more.

    Args:
        model: a built model whose decoder is a `Decoder`; its encoder, called on source ids, gives the context.
        decoder_features: the layer whose features of the words or the tree the decoder is given, if the model has one.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import Stepper
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> source = np.array([[5, 6, 3]])
        >>> _ = model((source, source))
        >>> stepper = Stepper(model)
        >>> seen = np.ones((1, 1, 1), "bool")
        >>> logits, cache = stepper.step(np.array([2]), 0, stepper.start_cache(source), seen)
        >>> logits.shape
        TensorShape([1, 20])
    """

    def __init__(self, model: SequenceModel, decoder_features: NextWord | None = None) -> None:
        decoder = model.decoder
        self.model = model
        dtype = model.compute_dtype
        self.embeddings, self.projection = read_vocabulary(model)
        self.bias = read(model.bias, dtype) if model.output_bias else None
        self.scale = math.sqrt(model.d_model) if decoder.embedding.scaled else None
        self.positions = ops.convert_to_tensor(decoder.position_encoding.table, dtype)
        self.layers = [_LayerWeights(layer) for layer in decoder.layers]
        self.norm = _norm(decoder.norm) if decoder.norm_first else None
        self.decoder_features = decoder_features

    @property
    def derived(self) -> list[Any]:
        """What is computed from the model's weights, a list of tensors; a list set in its place is used instead.

        An export holds them, so that no call has to compute them.
        """
        projection = [] if self.model.share_embeddings == "none" else [self.projection]
        return [*projection, *(each for layer in self.layers for each in (*layer.self_in, *layer.cross_query))]

    @derived.setter
    def derived(self, tensors: list[Any]) -> None:
        tensors = iter(tensors)
        if self.model.share_embeddings != "none":
            self.projection = next(tensors)
        for layer in self.layers:
            layer.self_in = next(tensors), next(tensors)
            layer.cross_query = next(tensors), next(tensors)

    def start_cache(self, source_ids: Any, beams: Any = 1, steps: Any | None = None) -> Cache:
        """Encodes the source.

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            beams: hypotheses a sentence.
            steps: the most steps, for a cache of fixed size; None for a cache that grows.

        Returns:
            "layers", for each layer the "keys" and "values" of self-attention, (batch, heads, 0 entries, width), which
            each step makes longer; the "settled_keys" and "settled_values", which `settle` moves them to, since what is
            made longer is copied; "context_keys" and "context_values" of encoder-decoder attention, (batch, heads,
            source_len, width), which are final; and "context_mask", what is added to logits, float (batch, 1, 1,
            source_len). Of a model with `decoder_features` also "word_vectors" and "word_index", as that layer gives
            them, and "tokens" and "settled_tokens", int32 (batch, 0 entries). A cache of fixed size has `settled_room`
            settled entries from the start, and `beams` others for each of its "slots", int32 (FIXED_ROUND,).
        """
        context = self.model.encoder(source_ids, training=False)
        fixed = steps is not None
        fresh, settled = (FIXED_ROUND * beams, settled_room(steps, beams)) if fixed else [unknown_zero()] * 2
        cache = {
            "layers": [layer.start_cache(context, fresh, settled) for layer in self.layers],
            "context_mask": additive_mask(with_heads(padding_mask(source_ids))),
        }
        if fixed:
            cache["slots"] = ops.arange(FIXED_ROUND, dtype="int32")
        if self.decoder_features is not None:
            cache["word_index"] = self.decoder_features.word_index(source_ids)
            cache["word_vectors"] = self.decoder_features.word_vectors(context)
            batch = shape_of(cache["word_index"])[0]
            cache["tokens"], cache["settled_tokens"] = (ops.zeros((batch, n), "int32") for n in (fresh, settled))
        return cache

    def step(self, ids: Any, position: Any, cache: Cache, history: Any) -> tuple[Any, Cache]:
        """Computes the logits of one target position.

        Args:
            ids: int (batch * beams,), the tokens at `position`.
            position: scalar int, from 0.
            cache: as `start_cache` or the step before returned it.
            history: bool (batch, beams, entries): the entries of the cache that each hypothesis descends from. The
                last ones are this step's, one for each hypothesis; of a cache of fixed size, those of its round.

        Returns:
            Logits for the next token, float (batch * beams, target_vocab_size), and the new cache.
        """
        beams, slots = shape_of(history)[1], cache.get("slots")
        mask = additive_mask(with_heads(history))
        embedded = ids if self.decoder_features is None else self.decoder_features.decoder_input_ids(ids)
        x = take(self.embeddings, embedded)
        x = x if self.scale is None else x * self.scale
        x = x + take(self.positions, position)
        if self.decoder_features is not None:
            tokens = append(cache["tokens"], ops.reshape(ids, (-1, beams)), 1, position, slots)
            cache = {**cache, "tokens": tokens}
            tokens = ops.concatenate([cache["settled_tokens"], tokens], axis=1)
            prefixes = ops.where(history, ops.expand_dims(tokens, axis=1), 0)
            added = self.decoder_features.features(cache["word_index"], cache["word_vectors"], prefixes)
            x = x + ops.reshape(added, shape_of(x))
        layers = []
        for layer, part in zip(self.layers, cache["layers"], strict=True):
            x, part = layer.step(x, part, mask, cache["context_mask"], beams, position, slots)
            layers.append(part)
        if self.norm is not None:
            x = _normalise(x, self.norm)
        logits = ops.matmul(x, self.projection)
        logits = logits if self.bias is None else logits + self.bias
        return logits, {**cache, "layers": layers}

    def settle(self, cache: Cache, rows: Any | None, entries: Any) -> Cache:
        """Keeps some rows of a cache, and of each of them some entries.

        Args:
            cache: as `step` returned it.
            rows: int32 (kept,), the rows; None for all of a cache of fixed size.
            entries: int32 (kept, n), the entries of each.
        """
        layers = [layer.settle(part, rows, entries) for layer, part in zip(self.layers, cache["layers"], strict=True)]
        others = {name: cache[name] for name in cache if name != "layers"}
        if rows is not None:
            others = {name: take(each, rows) for name, each in others.items()}
        if self.decoder_features is not None:
            both = ops.concatenate([others["settled_tokens"], others["tokens"]], axis=1)
            others["settled_tokens"] = pick_entries(both[:, None], entries)[:, 0]
            if rows is not None:
                others["tokens"] = both[:, : unknown_zero()]
        return {**others, "layers": layers}


class _LayerWeights:
    """A decoder layer's weights, and what a step does with them."""

    def __init__(self, layer: DecoderLayer) -> None:
        self.norm_first = layer.norm_first
        attention, cross = layer.self_attention, layer.cross_attention
        self.sizes = attention.num_heads, attention.key_width, attention.value_width
        self.self_in = _head_by_head(
            attention.num_heads, read_query(attention), read_dense(attention.key), read_dense(attention.value)
        )
        self.self_out = read_dense(attention.output_projection)
        self.cross_query = read_query(cross)
        self.cross_in = read_dense(cross.key), read_dense(cross.value)
        self.cross_out = read_dense(cross.output_projection)
        self.hidden, self.feed_forward_out = (
            read_dense(layer.feed_forward.hidden),
            read_dense(layer.feed_forward.output_projection),
        )
        self.activation = layer.feed_forward.hidden.activation
        residuals = layer.self_attention_residual, layer.cross_attention_residual, layer.feed_forward_residual
        self.norms = [_norm(residual.norm) for residual in residuals]

    def start_cache(self, context: Any, fresh: Any, settled: Any) -> Cache:
        """The cache of a layer, with so many fresh and so many settled entries."""
        heads, *widths = self.sizes
        batch, length, width = shape_of(context)
        flat = ops.reshape(context, (batch * length, width))
        cache = {}
        for name, dense, head_width in zip(("keys", "values"), self.cross_in, widths, strict=True):
            y = ops.reshape(apply_dense(flat, dense), (batch, length, heads, head_width))
            cache[f"context_{name}"] = ops.transpose(y, (0, 2, 1, 3))
            cache[name], cache[f"settled_{name}"] = (
                ops.zeros((batch, heads, entries, head_width), y.dtype) for entries in (fresh, settled)
            )
        return cache

    def step(
        self, x: Any, cache: Cache, mask: Any, context_mask: Any, beams: Any, position: Any, slots: Any | None
    ) -> tuple[Any, Cache]:
        self_norm, cross_norm, feed_forward_norm = self.norms

        heads, key_width, _ = self.sizes
        y = split_heads(apply_dense(self._enter(x, self_norm), self.self_in), beams, heads)
        query, key, value = ops.split(y, (key_width, 2 * key_width), axis=-1)
        keys = append(cache["keys"], key, 2, position, slots)
        values = append(cache["values"], value, 2, position, slots)
        y = attend(query, [(cache["settled_keys"], cache["settled_values"]), (keys, values)], mask)
        x = self._leave(x, apply_dense(y, self.self_out), self_norm)

        query = split_heads(apply_dense(self._enter(x, cross_norm), self.cross_query), beams, heads)
        y = attend(query, [(cache["context_keys"], cache["context_values"])], context_mask)
        x = self._leave(x, apply_dense(y, self.cross_out), cross_norm)

        y = self.activation(apply_dense(self._enter(x, feed_forward_norm), self.hidden))
        x = self._leave(x, apply_dense(y, self.feed_forward_out), feed_forward_norm)
        return x, {**cache, "keys": keys, "values": values}

    def settle(self, cache: Cache, rows: Any | None, entries: Any) -> Cache:
        settled = dict(cache)
        if rows is not None:
            for name in "context_keys", "context_values":
                settled[name] = take(cache[name], rows)
        both = {name: ops.concatenate([cache[f"settled_{name}"], cache[name]], axis=2) for name in ("keys", "values")}
        batch, heads, length, _ = shape_of(both["keys"])
        # One look-up in the entries of all heads of all rows, laid end to end.
        row = ops.arange(batch, dtype="int32") if rows is None else rows
        head = ops.expand_dims(row, axis=1) * heads + ops.arange(heads, dtype="int32")
        places = ops.expand_dims(head * length, axis=2) + ops.expand_dims(entries, axis=1)
        for name, of_all in both.items():
            settled[f"settled_{name}"] = take(ops.reshape(of_all, (-1, of_all.shape[-1])), places)
            if rows is not None:
                settled[name] = settled[f"settled_{name}"][:, :, : unknown_zero()]
        return settled

    def _enter(self, x: Any, norm: tuple) -> Any:
        return _normalise(x, norm) if self.norm_first else x

    def _leave(self, x: Any, y: Any, norm: tuple) -> Any:
        return x + y if self.norm_first else _normalise(x + y, norm)


def _head_by_head(heads: int, *dense: tuple[Any, Any]) -> tuple[Any, Any]:
    """Joins projections to one, whose output holds the first head's outputs of each, then the second's, and so on."""
    kernels = [ops.reshape(kernel, (kernel.shape[0], heads, -1)) for kernel, _ in dense]
    biases = [ops.reshape(bias, (heads, -1)) for _, bias in dense]
    kernel = ops.concatenate(kernels, axis=-1)
    return ops.reshape(kernel, (kernel.shape[0], -1)), ops.reshape(ops.concatenate(biases, axis=-1), (-1,))


def _norm(layer: Any) -> tuple[Any, Any, float]:
    dtype = keras.backend.result_type(layer.compute_dtype, "float32")
    return read(layer.gamma, dtype), read(layer.beta, dtype), layer.epsilon


def _normalise(x: Any, norm: tuple[Any, Any, float]) -> Any:
    gamma, beta, epsilon = norm
    dtype = x.dtype
    x = ops.cast(x, gamma.dtype)  # float16 holds no square of more than 255
    x = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(x), axis=-1, keepdims=True)
    return ops.cast(x * (ops.rsqrt(variance + epsilon) * gamma) + beta, dtype)
