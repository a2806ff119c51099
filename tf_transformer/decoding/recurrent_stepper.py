"""Runs the recurrent model one target position at a time, keeping the state of its layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from tf_transformer.decoding.history import pick_entries, unknown_zero
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
from tf_transformer.layers.lstm import LSTM, lstm_step
from tf_transformer.layers.masks import additive_mask, padding_mask, with_heads

if TYPE_CHECKING:
    from tf_transformer.models.recurrent import RecurrentModel

Cache = dict[str, Any]


class RecurrentStepper:
    """Reads a recurrent model's weights and steps through a target; the steps together equal the model's call.

    Of earlier positions it needs only the last one's memory. A search keeps track of entries, which grow by one for
    each hypothesis and step, so the cache says which of them are the last ones: a hypothesis continues with the memory
    of the one among them that it descends from.

    Args:
        model: a built `RecurrentModel`.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import RecurrentStepper
        >>> model = tt.RecurrentModel(2, 8, input_vocab_size=20, target_vocab_size=20)
        >>> source = np.array([[5, 6, 3]])
        >>> _ = model((source, source))
        >>> stepper = RecurrentStepper(model)
        >>> seen = np.ones((1, 1, 1), "bool")
        >>> logits, cache = stepper.step(np.array([2]), 0, stepper.start_cache(source), seen)
        >>> logits.shape
        TensorShape([1, 20])
    """

    def __init__(self, model: RecurrentModel) -> None:
        decoder, dtype = model.decoder, model.compute_dtype
        self.encoder, self.dtype = model.encoder, dtype
        self.embeddings, self.projection = read_vocabulary(model)
        self.bias = read(model.bias, model.compute_dtype) if model.output_bias else None
        self.scale = math.sqrt(model.d_model)
        self.layers = [_Weights(layer) for layer in (decoder.bottom, *decoder.layers)]
        attention = decoder.attention
        self.query, self.attention_out = read_query(attention), read_dense(attention.output_projection)
        self.context_in = read_dense(attention.key), read_dense(attention.value)
        self.out = read_dense(decoder.output_projection)
        self.shares = model.share_embeddings != "none"

    @property
    def derived(self) -> list[Any]:
        """What is worked out from the model's weights; see `Stepper.derived`."""
        return [*([self.projection] if self.shares else []), *self.query]

    @derived.setter
    def derived(self, tensors: list[Any]) -> None:
        *projection, kernel, bias = tensors
        self.query = kernel, bias
        if self.shares:
            (self.projection,) = projection

    def start_cache(self, source_ids: Any, beams: Any = 1, steps: Any | None = None) -> Cache:
        """Encodes the source.

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            beams: hypotheses a sentence.
            steps: the most steps, for a cache of fixed size; None for one that grows.

        Returns:
            "outputs" and "memories", of each layer, for each hypothesis of the step before, (batch, beams, d_model);
            "entries", which of the search's entries these hypotheses are, int32 (batch, beams), or -1; "keys" and
            "values" of the attention, (batch, 1, source_len, d_model); and "mask", what is added to its logits, float32
            (batch, 1, 1, source_len).
        """
        context = self.encoder(source_ids, training=False)
        keys, values = (ops.expand_dims(apply_dense(context, dense), axis=1) for dense in self.context_in)
        batch, beams = shape_of(source_ids)[0], beams + unknown_zero() if steps is None else beams
        width = self.embeddings.shape[1]
        return {
            "outputs": [ops.zeros((batch, beams, width), self.dtype) for _ in self.layers],
            "memories": [ops.zeros((batch, beams, width), "float32") for _ in self.layers],
            "entries": ops.full((batch, beams), -1, "int32"),
            "keys": keys,
            "values": values,
            "mask": additive_mask(with_heads(padding_mask(source_ids))),
        }

    def step(self, ids: Any, position: Any, cache: Cache, history: Any) -> tuple[Any, Cache]:
        """Computes the logits of one target position.

        Args:
            ids: int (batch * beams,), the tokens at `position`.
            position: scalar int, from 0, which this model has no use for.
            cache: as `start_cache` or the step before returned it.
            history: bool (batch, beams, entries): the entries that each hypothesis descends from, the last of them its
                own at this position.

        Returns:
            Logits for the next token, float (batch * beams, target_vocab_size), and the new cache.
        """
        batch, beams, number = shape_of(history)
        parents = _parents(history, cache["entries"])
        outputs, memories = [], []

        def advance(layer: _Weights, x: Any) -> Any:
            place = len(outputs)
            before = (take(_flat(cache[name][place]), parents) for name in ("outputs", "memories"))
            output, memory = lstm_step(apply_dense(x, layer.input_projection), *before, layer.recurrent_kernel)
            outputs.append(ops.reshape(output, (batch, beams, output.shape[1])))
            memories.append(ops.reshape(memory, (batch, beams, memory.shape[1])))
            return output

        x = advance(self.layers[0], take(self.embeddings, ids) * self.scale)
        query = split_heads(apply_dense(x, self.query), beams, 1)
        found = attend(query, [(cache["keys"], cache["values"])], cache["mask"])
        found = apply_dense(found, self.attention_out)
        for layer in self.layers[1:]:
            x = x + advance(layer, ops.concatenate([x, found], axis=-1))
        x = apply_dense(ops.concatenate([x, found], axis=-1), self.out)
        entries = ops.max(ops.where(history, ops.arange(number, dtype="int32"), -1), axis=2)  # each one's own
        logits = ops.matmul(x, self.projection)
        return logits if self.bias is None else logits + self.bias, {
            **cache,
            "outputs": outputs,
            "memories": memories,
            "entries": entries,
        }

    def settle(self, cache: Cache, rows: Any | None, entries: Any) -> Cache:
        """Keeps some rows of a cache, and records where the search has the last entries now.

        Args:
            cache: as `step` returned it.
            rows: int32 (kept,), the rows; None for all of a cache of fixed size.
            entries: int32 (kept, n), the entries of each that the search keeps.
        """
        kept = cache if rows is None else keras.tree.map_structure(lambda each: take(each, rows), cache)
        same = ops.equal(ops.expand_dims(entries, axis=2), ops.expand_dims(kept["entries"], axis=1))
        place = 1 + ops.arange(shape_of(entries)[1], dtype="int32")
        # An entry that the search has dropped has no descendants: -1.
        return {**kept, "entries": ops.sum(ops.cast(same, "int32") * place[:, None], axis=1) - 1}


class _Weights:
    """An LSTM's weights."""

    def __init__(self, layer: LSTM) -> None:
        self.input_projection = read_dense(layer.input_projection)
        self.recurrent_kernel = read(layer.recurrent_kernel, layer.compute_dtype)


def _flat(states: Any) -> Any:
    """Maps (batch, beams, width) to (batch * beams, width)."""
    return ops.reshape(states, (-1, states.shape[2]))


def _parents(history: Any, entries: Any) -> Any:
    """The row, of all hypotheses of the step before laid end to end, that each hypothesis of this step goes on with."""
    batch, beams, _ = shape_of(history)
    # In front stands an entry that nothing descends from, for those of which there is none.
    with_none = ops.pad(history, [[0, 0], [0, 0], [1, 0]])
    descends = ops.cast(pick_entries(with_none, entries + 1), "int32")
    parent = ops.argmax(descends, axis=2)
    first = ops.expand_dims(ops.arange(batch, dtype="int32") * shape_of(entries)[1], axis=1)
    return ops.reshape(first + ops.cast(parent, "int32"), (-1,))
