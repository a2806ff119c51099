"""Signatures that look into a translation: attention of a given one, what else was likely, and the search as a tree."""

from __future__ import annotations

from dataclasses import replace

import tensorflow as tf

from tf_transformer.decoding import DecodingOptions, shift_right
from tf_transformer.decoding.candidates import likeliest
from tf_transformer.decoding.trace import FATES, Record, read_trace
from tf_transformer.protection.spans import nothing_taken
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID
from tf_transformer.translation.reading import read
from tf_transformer.translation.search import Search, lengths
from tf_transformer.translation.signature_options import (
    OPTION_TYPES,
    PREFIX_LENGTH,
    Output,
    check_prefixes,
    option_tensors,
)
from tf_transformer.translation.writing import Writer

# Those of the decoding options that say how a beam search goes.
SEARCH_OPTIONS = "beam_size", "num_hypotheses", "alpha", "min_length", "max_length"

PREFIX_ROWS = "prefix_ids must have one row for each text; for no prefixes, give it no columns"
PREFIX_IDS = "prefix_ids must be ids of target tokens, from 0 to one less than the vocabulary's size"


class Explorer:
    """Looks into the translations of a model.

    Args:
        writer: what writes them as texts.
        search: what finds them.
        search_with_options: the graph of `Search.with_options`, which a translator's other functions have too.
    """

    def __init__(
        self, writer: Writer, search: Search, search_with_options: tf.types.experimental.PolymorphicFunction
    ) -> None:
        self.tokenizers = writer.tokenizers
        self.max_length = search.max_length
        self.options = search.options
        self._writer = writer
        self._search = search
        self._search_with_options = search_with_options

    def functions(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """The graphs, by the names of their signatures."""

        def graph(function: object, strings: str, *others: tf.TensorSpec) -> tf.types.experimental.PolymorphicFunction:
            specs = [tf.TensorSpec([None], tf.string, name) for name in strings.split()]
            return tf.function(function, input_signature=[*specs, *others], autograph=False)

        ids, count = tf.TensorSpec([None, None], tf.int32, "prefix_ids"), tf.TensorSpec([], tf.int32, "count")
        options = [tf.TensorSpec([], OPTION_TYPES[name], name) for name in SEARCH_OPTIONS]
        return {
            "attention": graph(self._attention_of_pair, "source target"),
            "next_tokens": graph(self._next_tokens, "text", ids, count),
            "translate_with_search": graph(self._translate_with_search, "text prefix", *options),
        }

    def _attention_of_pair(self, source: tf.Tensor, target: tf.Tensor) -> Output:
        source_ids, source_truncated = read(self.tokenizers.source, source, self.max_length)
        target_ids, target_truncated = read(self.tokenizers.target, target, self.max_length)
        return {
            "target_ids": target_ids,
            "truncated": source_truncated | target_truncated,
            **self.looked_at(source_ids, target_ids),
        }

    def looked_at(self, source_ids: tf.Tensor, target_ids: tf.Tensor) -> Output:
        """The tokens of texts and their translations, the attention between them and the alignment."""
        attention = self._writer.attend(source_ids, target_ids)
        return {
            "source_tokens": self.tokenizers.source.piece_texts(source_ids),
            "target_tokens": self.tokenizers.target.piece_texts(target_ids),
            **{f"{kind}_attention": weights for kind, weights in attention.items()},
            "alignment": self._writer.align(attention, source_ids, target_ids),
        }

    def _next_tokens(self, text: tf.Tensor, prefix_ids: tf.Tensor, count: tf.Tensor) -> Output:
        target = self.tokenizers.target
        source_ids, truncated = read(self.tokenizers.source, text, self.max_length)
        checks = [
            tf.debugging.assert_equal(tf.shape(prefix_ids)[0], tf.size(text), PREFIX_ROWS),
            tf.debugging.assert_less(prefix_ids, target.vocab_size, PREFIX_IDS),
            tf.debugging.assert_non_negative(prefix_ids, PREFIX_IDS),
            tf.debugging.assert_less(tf.shape(prefix_ids)[1], self.max_length, PREFIX_LENGTH),
            tf.debugging.assert_greater_equal(count, 1, "count must be >= 1"),
        ]
        with tf.control_dependencies(checks):
            # Padding never comes next, and the closing token may be too early.
            count = tf.minimum(count, target.vocab_size - 2)
            prefix = tf.RaggedTensor.from_tensor(prefix_ids, padding=PAD_ID)
        log_probs, ids = self._likeliest(source_ids, prefix, count)

        # A greedy search goes on from each of them as from a prefix.
        row = tf.repeat(tf.range(tf.size(text)), count)
        prefixes = tf.concat([tf.gather(prefix, row), tf.reshape(ids, [-1, 1])], axis=1).to_tensor()
        options = option_tensors(replace(self._unrepeated(), beam_size=1, min_length=self.options.min_length))
        sources = tf.gather(source_ids, row)
        # A token that is the last which the translation may have ends it.
        room = lengths(prefixes) < self._search.limits(sources, self.max_length)
        found, *_ = self._search_with_options(
            sources, tf.where(room[:, None], prefixes, PAD_ID), False, *options.values()
        )
        translations = tf.where(room, target.detokenize(found[:, 0]), target.detokenize(prefixes))
        is_text = (tf.math.count_nonzero(source_ids, axis=1) > 1)[:, None]  # more than the closing token
        return {
            "token": tf.where(is_text, target.piece_texts(ids), ""),
            "id": tf.where(is_text, ids, PAD_ID),
            "probability": tf.where(is_text, tf.exp(log_probs), 0.0),
            "translation": tf.where(is_text, tf.reshape(translations, tf.shape(ids)), ""),
            "truncated": truncated,
        }

    def _unrepeated(self) -> DecodingOptions:
        """The defaults, but for the n-grams that may not come twice: no input of these signatures says so."""
        return DecodingOptions(no_repeat_ngram_size=self.options.no_repeat_ngram_size)

    def _likeliest(
        self, source_ids: tf.Tensor, prefix: tf.RaggedTensor, count: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The likeliest tokens behind each prefix: their log-probabilities and ids, each (batch, count)."""
        position = tf.cast(prefix.row_lengths(), tf.int32)
        # One column more: the next token's.
        inputs = shift_right(tf.pad(prefix.to_tensor(), [[0, 0], [0, 1]]), START_ID)
        with self._search.weights_in_use():
            logits = self._search.model((source_ids, inputs), training=False)
        logits = tf.gather(logits, position, batch_dims=1)
        log_probs, ids = likeliest(logits, count, position[:, None], END_ID, self.options.min_length)
        # Those that are not allowed stand among the others.
        log_probs, order = tf.math.top_k(log_probs, count)
        return log_probs, tf.gather(ids, order, batch_dims=1)

    def _translate_with_search(self, text: tf.Tensor, prefix: tf.Tensor, *values: tf.Tensor) -> Output:
        options = option_tensors(self._unrepeated()) | dict(zip(SEARCH_OPTIONS, values, strict=True))
        source_ids, truncated = read(self.tokenizers.source, text, self.max_length)
        prefix_ids = self.tokenizers.target.tokenize(prefix).to_tensor()
        with tf.control_dependencies([check_prefixes(prefix, text)]):
            ids, scores, *record = self._search_with_options(source_ids, prefix_ids, True, *options.values())
        most = tf.where(options["max_length"] > 0, options["max_length"], self.max_length)
        limits = self._search.limits(source_ids, most)
        trace = read_trace(Record(*record), ids[:, 0], limits, END_ID, options["alpha"], self.options.length_offset)
        steps = tf.reduce_sum(tf.cast(tf.reduce_any(trace.tokens != 0, axis=[0, 2]), tf.int32))
        tokens, parents, log_probs, token_scores, bounds, fates, wins = (each[:, :steps] for each in trace)
        return {
            "translation": self._writer.write(nothing_taken(text), source_ids, ids, False, False),
            "score": scores,
            "truncated": truncated,
            "token": self.tokenizers.target.piece_texts(tokens),
            "parent": parents,
            "log_probability": log_probs,
            "token_score": token_scores,
            "highest_score": bounds,
            "fate": tf.gather(tf.constant(FATES), fates),
            "wins": wins,
        }
