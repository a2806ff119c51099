"""Writes translations as texts: protected spans stand in them again, and words in place of unknown tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_transformer.decoding import DecodingOptions, align
from tf_transformer.protection.places import find_places
from tf_transformer.protection.putting_back import put_back
from tf_transformer.protection.spans import Taken, nothing_taken, take_out
from tf_transformer.tokenizers.base import END_ID

if TYPE_CHECKING:
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.tokenizers import TokenizerPair


class Writer:
    """Makes texts of what a model writes.

    Args:
        model: a model.
        tokenizers: the tokenizers it was trained with.
        options: of them, whether text is protected and whether unknown tokens are replaced, unless a call says
            otherwise.
        attend: gives the attention between source ids and ids of translations; a graph, which an `Explorer` has too.
    """

    def __init__(
        self,
        model: SequenceModel,
        tokenizers: TokenizerPair,
        options: DecodingOptions,
        attend: Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]],
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.options = options
        self.attend = attend

        # A graph of its own for each way of writing, which all signatures share.
        @cache
        def graph(protect: bool, replace_unknown: bool) -> Any:
            write = partial(self._text_of, protect=protect, replace_unknown=replace_unknown)
            specs = Taken.specs(), tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, None], tf.int32)
            return tf.function(write, input_signature=specs, autograph=False)

        self._graph = graph

    def taken(self, text: tf.Tensor, protect: bool | None = None) -> Taken:
        """What the model reads of texts, and what is kept from it."""
        protect = self.options.protect if protect is None else protect
        return take_out(text, self._has_placeholders) if protect else nothing_taken(text)

    @property
    def _has_placeholders(self) -> bool:
        """Whether the model has learned what placeholders are."""
        return bool(self.tokenizers.source.placeholder_ids and self.tokenizers.target.placeholder_ids)

    def write(
        self,
        taken: Taken,
        source_ids: tf.Tensor,
        ids: tf.Tensor,
        protect: bool | None = None,
        replace_unknown: bool | None = None,
    ) -> tf.Tensor:
        """Maps ids (batch, hypotheses, length) to texts (batch, hypotheses)."""
        protect = self.options.protect if protect is None else protect
        replace_unknown = self.options.replace_unknown if replace_unknown is None else replace_unknown
        return self._graph(protect, replace_unknown)(taken, source_ids, ids)

    def _text_of(
        self, taken: Taken, source_ids: tf.Tensor, ids: tf.Tensor, protect: bool, replace_unknown: bool
    ) -> tf.Tensor:
        target = self.tokenizers.target
        shape = tf.shape(ids)[:2]
        flat = tf.reshape(ids, [shape[0] * shape[1], tf.shape(ids)[2]])
        if not (protect or replace_unknown):
            return tf.reshape(target.detokenize(flat), shape)
        row = tf.repeat(tf.range(shape[0]), shape[1])
        source_ids, taken = tf.gather(source_ids, row), taken.rows(row)
        alignment = self.align(self.attend(source_ids, flat), source_ids, flat)
        words = self._aligned_words(taken.text, alignment) if replace_unknown else None
        if not protect:
            return tf.reshape(target.detokenize_with(flat, words), shape)

        # A column more, so that there is one.
        flat, alignment = (tf.pad(each, [[0, 0], [0, 1]]) for each in (flat, alignment))

        def text_of(tokens: tf.RaggedTensor) -> tf.Tensor:
            parts = tokens.with_values(tf.gather(tf.reshape(flat, [-1]), tokens.values))
            if words is None:
                return target.detokenize(parts)
            padded = tf.reshape(tf.pad(words, [[0, 0], [0, 1]]), [-1])
            return target.detokenize_with(
                parts.to_tensor(), tokens.with_values(tf.gather(padded, tokens.values)).to_tensor()
            )

        places = find_places(taken, self.tokenizers.source, target, source_ids, flat, alignment)
        return tf.reshape(put_back(taken, places, target.begins_word(flat), text_of), shape)

    def align(self, attention: dict[str, tf.Tensor], source_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        """For each target token the place of a source token, or -1; see `align`."""
        return align(attention["cross"], source_ids, target_ids, END_ID, self.model.alignment_head)

    def _aligned_words(self, text: tf.Tensor, alignment: tf.Tensor) -> tf.Tensor:
        """The word of the text that each token of its translation is aligned to, string (batch, length)."""
        words, word_of_token = self.tokenizers.source.words(text)
        # The closing token is no word's; where it is all there is, nothing is unknown.
        word_of_token = tf.pad(word_of_token, [[0, 0], [0, 1]])
        place = tf.gather(word_of_token, tf.maximum(alignment, 0), batch_dims=1)
        return tf.gather(tf.pad(words.to_tensor(), [[0, 0], [0, 1]]), place, batch_dims=1)
