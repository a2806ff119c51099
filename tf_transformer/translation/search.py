"""What a translator does between reading and writing text: source ids in, target ids out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from tf_transformer.decoding import (
    DecodingOptions,
    RandomSampler,
    beam_search,
    greedy_search,
    length_penalty,
    row_keys,
    sample,
    shift_right,
)
from tf_transformer.decoding.interface import derived_from_weights
from tf_transformer.decoding.options import check_options
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID
from tf_transformer.translation.signature_options import OPTION_TYPES, POSITIONS, PREFIX_LENGTH, Output, option_tensors

if TYPE_CHECKING:
    from tf_transformer.decoding.interface import Stepping
    from tf_transformer.models.sequence_model import SequenceModel


class Search(tf.Module):
    """Finds translations with a model, whose weights it holds as an export needs them.

    Args:
        model: a built model.
        options: how translations are searched for, unless a call says otherwise.
        half: whether to hold the weights as float16.
        prepared: whether to hold what is worked out from the weights before the first step, as it is now, so that no
            call has to work it out.
    """

    def __init__(self, model: SequenceModel, options: DecodingOptions, half: bool, prepared: bool) -> None:
        super().__init__()
        self.options = options
        self.max_length = model.max_length
        # What an attribute holds is saved, what a function returns is not: of the model a SavedModel needs the weights
        # alone, without Keras's own functions, and in one precision.
        self._model = lambda: model
        self._half = half
        weights = [variable.value for variable in model.weights]
        self.weights = [tf.Variable(tf.cast(w, tf.float16), trainable=False) for w in weights] if half else weights
        derived = derived_from_weights(model.stepper()) if prepared else []
        self._derived = [tf.Variable(tf.cast(x, tf.float16) if half else x, trainable=False) for x in derived]

    @property
    def model(self) -> SequenceModel:
        """The model."""
        return self._model()

    def attention(self, source_ids: tf.Tensor, ids: tf.Tensor) -> Output:
        """Each layer's and head's weights, (batch, layers, heads, query_len, key_len), for sources and translations."""
        with self.weights_in_use():
            inputs = source_ids, shift_right(ids, START_ID)
            _, scores = self.model(inputs, return_attention_scores=True, training=False)
        return {kind: tf.cast(tf.stack(layers, axis=1), tf.float32) for kind, layers in scores.items()}

    def best(self, source_ids: tf.Tensor, steps: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """The translator's own options: ids (batch, 1, length), scores (batch, 1), and with steps what is done."""
        options = self.options
        limits = self.limits(source_ids, options.max_length or self.max_length)
        with self.weights_in_use():
            if options.temperature:
                tensors = option_tensors(replace(options, num_hypotheses=1))
                return self._sample(source_ids, limits, None, tensors)
            if options.beam_size == 1:
                stepper = self.stepper()
                cache = stepper.start_cache(source_ids, steps=steps)
                ids, log_probs, *done = greedy_search(
                    stepper,
                    cache,
                    limits,
                    START_ID,
                    END_ID,
                    options.min_length,
                    steps=steps,
                    no_repeat_ngram_size=options.no_repeat_ngram_size,
                )
                return (
                    ids[:, None],
                    (log_probs / length_penalty(lengths(ids), options.alpha, options.length_offset))[:, None],
                    *done,
                )
            return self._beam(source_ids, limits, None, vars(options) | {"num_hypotheses": 1}, steps)

    def best_in_fixed_memory(self, source_ids: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The same with room for all but the longest translations; tells also which rows were done, bool (batch,)."""
        steps = tf.shape(source_ids)[1] * 3 // 2
        return self.best(source_ids, tf.minimum(steps, self.options.max_length or self.max_length))

    def with_options(
        self,
        source_ids: tf.Tensor,
        prefix: tf.Tensor,
        trace: tf.Tensor | None,
        *values: tf.Tensor,
        sampled: bool | None = None,
    ) -> tuple[tf.Tensor, ...]:
        """Any options: ids (batch, hypotheses, length), scores (batch, hypotheses), and the parts of a `Record`.

        The record is a beam search's where `trace` is true, and else of no use; there is none where `trace` is None.
        Whether there is a temperature the graph asks, unless `sampled` says it.
        """
        options = dict(zip(OPTION_TYPES, values, strict=True))
        most = tf.where(options["max_length"] > 0, options["max_length"], self.max_length)
        limits = self.limits(source_ids, most)
        prefix_lengths = tf.where(limits > 0, lengths(prefix), 0)
        checks = [
            *check_options(options),
            tf.debugging.assert_less_equal(options["min_length"], self.max_length, POSITIONS),
            tf.debugging.assert_less(prefix_lengths, tf.maximum(limits, 1), PREFIX_LENGTH),
        ]
        no_record = tf.zeros([0, 0, 0], tf.int32), tf.zeros([0, 0, 0], tf.int32), tf.zeros([0, 0, 0])
        with tf.control_dependencies(checks), self.weights_in_use():
            # The identity is what waits for the checks.
            source_ids = tf.identity(source_ids)

            def found(by_sampling: bool) -> tuple[tf.Tensor, ...]:
                if by_sampling:
                    return *self._sample(source_ids, limits, prefix, options), *no_record
                return self._beam(source_ids, limits, prefix, options, trace=trace)

            return either(options["temperature"] > 0 if sampled is None else sampled, found)

    def _beam(
        self,
        source_ids: tf.Tensor,
        limits: tf.Tensor,
        prefix: tf.Tensor | None,
        options: dict,
        steps: tf.Tensor | None = None,
        trace: tf.Tensor | None = None,
    ) -> tuple[tf.Tensor, ...]:
        """A beam search: ids and scores, (batch, hypotheses, ...), then what steps add, or the parts of a record."""
        names = "beam_size", "alpha", "num_hypotheses", "min_length", "no_repeat_ngram_size"
        chosen = {name: options[name] for name in names} | {"length_offset": self.options.length_offset}
        stepper = self.stepper()
        cache = stepper.start_cache(source_ids, options["beam_size"], steps)
        ids, scores, *more = beam_search(
            stepper, cache, limits, START_ID, END_ID, prefix=prefix, steps=steps, trace=trace, **chosen
        )
        return ids, _nothing_for_nothing(scores, limits), *(more if trace is None else more[-1])

    def _sample(
        self, source_ids: tf.Tensor, limits: tf.Tensor, prefix: tf.Tensor | None, options: dict
    ) -> tuple[tf.Tensor, tf.Tensor]:
        number, vocabulary = options["num_hypotheses"], self.model.target_vocab_size
        stepper = self.stepper()
        row = tf.repeat(tf.range(tf.shape(source_ids)[0]), number)

        def each(tensor: tf.Tensor | None) -> tf.Tensor | None:
            return None if tensor is None else tf.gather(tensor, row)

        ids, log_probs = sample(
            stepper,
            keras.tree.map_structure(each, stepper.start_cache(source_ids)),
            each(limits),
            START_ID,
            END_ID,
            RandomSampler(options["temperature"], options["top_p"], options["seed"]),
            row_keys(source_ids, number),
            tf.where(options["top_k"] > 0, tf.minimum(options["top_k"], vocabulary), vocabulary),
            options["min_length"],
            each(prefix),
            options["no_repeat_ngram_size"],
        )
        scores = log_probs / length_penalty(lengths(ids), options["alpha"], self.options.length_offset)
        scores = tf.reshape(scores, [-1, number])
        order = tf.argsort(scores, axis=1, direction="DESCENDING", stable=True)
        ids = tf.gather(tf.reshape(ids, [-1, number, tf.shape(ids)[1]]), order, batch_dims=1)
        return ids, _nothing_for_nothing(tf.gather(scores, order, batch_dims=1), limits)

    def limits(self, source_ids: tf.Tensor, most: int | tf.Tensor) -> tf.Tensor:
        """The most tokens of each translation; none for a text without any."""
        tokens = lengths(source_ids) - 1
        extra = min(self.options.extra_length, self.max_length)  # so that the sum is an int32, whatever was asked for
        limits = tf.minimum(tokens + extra, tf.minimum(most, self.max_length))
        return tf.where(tokens <= 0, 0, limits)  # a row of padding has not even the closing token

    def stepper(self) -> Stepping:
        """The model's, with what is worked out from its weights taken from where it is held."""
        stepper = self.model.stepper()
        if self._derived:
            stepper.derived = [tf.cast(held, self.model.compute_dtype) for held in self._derived]
        return stepper

    def weights_in_use(self) -> AbstractContextManager:
        """Where the model reads its weights from: its own variables, or the float16 ones in its own precision."""
        if not self._half:
            return nullcontext()
        pairs = zip(self.model.weights, self.weights, strict=True)
        return keras.StatelessScope(state_mapping=[(own, tf.cast(held, own.dtype)) for own, held in pairs])


def either(choice: bool | tf.Tensor, function: Callable[[bool], Any]) -> Any:
    """What a function makes of a choice; a graph that does not know the choice has both."""
    if isinstance(choice, bool):
        return function(choice)
    return tf.cond(choice, lambda: function(True), lambda: function(False))


def lengths(ids: tf.Tensor) -> tf.Tensor:
    """How many tokens each row of ids, int (batch, length), has, int32 (batch,)."""
    return tf.reduce_sum(tf.cast(ids != PAD_ID, tf.int32), axis=1)


def _nothing_for_nothing(scores: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """An empty text's first translation is sure to be empty."""
    first = tf.range(tf.shape(scores)[1]) == 0
    return tf.where((limits == 0)[:, None], tf.where(first, 0.0, -float("inf")), scores)
