"""Reads texts as a model does: as ids, as many as it has positions for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tf_transformer.tokenizers.base import END_ID, PAD_ID

if TYPE_CHECKING:
    from tf_transformer.tokenizers import Tokenizer


def read(tokenizer: Tokenizer, text: tf.Tensor, max_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps texts to ids, int32 (batch, length), with the closing token; and tells which were cut."""
    tokens = tokenizer.tokenize(text)
    numbers = tf.cast(tokens.row_lengths(), tf.int32)
    most = max_length - 1  # one position is the closing token's
    ends = tf.minimum(numbers, most)
    width = tf.maximum(tf.reduce_max(ends), 0) + 1  # 1 where there is no text
    ids = tokens.to_tensor(PAD_ID, shape=tf.stack([-1, width]))
    return tf.where(tf.range(width) == ends[:, None], END_ID, ids), numbers > most
