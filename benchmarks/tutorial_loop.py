"""Decoding as the official tutorial shows it: nothing is cached, so each step reads the whole prefix again."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from tf_transformer.models.transformer import Transformer
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.tokenizers.base import END_ID, START_ID


class UncachedTranslator(tf.Module):
    """Translates one sentence by greedy search, with the whole model run at each step, the encoder too.

    Args:
        model: a built Transformer.
        tokenizers: the tokenizers it was trained with.
        extra_length: a translation may have this many tokens more than its source. (The tutorial has a constant.)
    """

    def __init__(self, model: Transformer, tokenizers: TokenizerPair, extra_length: int) -> None:
        super().__init__()
        self.model = model
        self.tokenizers = tokenizers
        self.extra_length = extra_length

    @tf.function(input_signature=[tf.TensorSpec([], tf.string, name="text")], autograph=False)
    def translate(self, text: tf.Tensor) -> tf.Tensor:
        """Maps a string () to its translation, a string ()."""
        tokens = self.tokenizers.source.tokenize(text[tf.newaxis]).to_tensor()
        source = tf.pad(tokens, [[0, 0], [0, 1]], constant_values=END_ID)
        limit = tf.shape(tokens)[1] + self.extra_length

        def unfinished(position: tf.Tensor, last: tf.Tensor, written: tf.TensorArray) -> tf.Tensor:
            return (last != END_ID) & (position < limit)

        def advance(position: tf.Tensor, last: tf.Tensor, written: tf.TensorArray) -> tuple:
            prefix = written.stack()[tf.newaxis]
            logits = self.model((source, prefix), training=False)
            last = tf.argmax(logits[0, -1], output_type=tf.int32)
            return position + 1, last, written.write(position + 1, last)

        written = tf.TensorArray(tf.int32, size=1, dynamic_size=True, element_shape=[], clear_after_read=False)
        written = written.write(0, START_ID)
        _, _, written = tf.while_loop(unfinished, advance, (tf.constant(0), tf.constant(START_ID), written))
        return self.tokenizers.target.detokenize(written.stack()[tf.newaxis])[0]


def export_tutorial(model: Transformer, tokenizers: TokenizerPair, folder: Path, extra_length: int) -> None:
    """Writes the loop as a SavedModel."""
    tf.saved_model.save(UncachedTranslator(model, tokenizers, extra_length), str(folder))
