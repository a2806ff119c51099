"""The words of translations, as TensorFlow ops."""

from __future__ import annotations

import tensorflow as tf

from tf_transformer.tokenizers.base import Tokenizer

# Marks that are no part of the word that they stand beside, unlike a hyphen.
MARKS = r"▁?[.,;:!?()\[\]{}\"„“”«»…]+"


def starts_word(target: Tokenizer, ids: tf.Tensor) -> tf.Tensor:
    """Before which tokens a word ends, or a mark such as a full stop begins or ends, bool (batch, length)."""
    is_mark = tf.strings.regex_full_match(target.piece_texts(ids), MARKS)
    return target.begins_word(ids) | is_mark | tf.pad(is_mark[:, :-1], [[0, 0], [1, 0]])


def whole_words(flags: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
    """Sets the flags of all tokens of a word where one is set.

    Args:
        flags: bool (batch, spans, length).
        starts: bool (batch, length), as `starts_word` gives it.

    Returns:
        bool (batch, spans, length).
    """
    word = tf.cumsum(tf.cast(starts, tf.int32), axis=1)
    of_one_word = tf.cast(word[:, :, None] == word[:, None, :], tf.float32)
    return tf.matmul(tf.cast(flags, tf.float32), of_one_word) > 0
