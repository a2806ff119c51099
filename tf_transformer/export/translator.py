"""The model together with its tokenizers: text in, text out, all of it in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tf_transformer.decoding.greedy import greedy_search
from tf_transformer.tokenizers.base import END_ID, START_ID

if TYPE_CHECKING:
    from tf_transformer.model import Transformer
    from tf_transformer.tokenizers import TokenizerPair


class Translator(tf.Module):
    """Translates batches of text; this is what a SavedModel holds.

    Args:
        model: a built Transformer.
        tokenizers: the tokenizers it was trained with.
        extra_length: a translation may have this many tokens more than its source (the paper's 50).

    Example:
        >>> import tf_transformer as tt
        >>> pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        >>> tokenizers = tt.train_tokenizers(pairs, vocab_size=290)
        >>> size = tokenizers.source.vocab_size
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=size, target_vocab_size=size, max_length=64)
        >>> model.build(((None, None), (None, None)))
        >>> tt.Translator(model, tokenizers).translate(["a dog", ""])["translation"].shape
        TensorShape([2])
    """

    def __init__(self, model: Transformer, tokenizers: TokenizerPair, extra_length: int = 50) -> None:
        super().__init__()
        self.model = model
        self.tokenizers = tokenizers
        self.extra_length = extra_length
        # A decorated method would hold its translator weakly, and `Translator(...).translate(...)` would fail.
        text = tf.TensorSpec([None], tf.string, name="text")
        self.translate = tf.function(self._translate, input_signature=[text], autograph=False)

    def _translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Translates by greedy search; `translate` is this as a graph.

        Args:
            text: string (batch,), UTF-8.

        Returns:
            A dict: "translation", string (batch,); "score", float32 (batch,), the translation's log-probability;
            "truncated", bool (batch,), whether the text was cut because it has more tokens than the model has
            positions. An empty or blank text has an empty translation.
        """
        tokens = self.tokenizers.source.tokenize(text)
        most = self.model.max_length - 1  # one position is the closing token's
        lengths = tf.cast(tokens.row_lengths(), tf.int32)
        kept = tf.minimum(lengths, most)
        closing = tf.fill([tf.shape(text)[0], 1], END_ID)
        source_ids = tf.concat([tokens[:, :most], closing], axis=1).to_tensor()
        limits = tf.where(kept == 0, 0, tf.minimum(kept + self.extra_length, self.model.max_length))

        def step(ids: tf.Tensor, position: tf.Tensor, cache: list) -> tuple[tf.Tensor, list]:
            return self.model.step(ids, position, cache, source_ids)

        longest = tf.maximum(tf.reduce_max(tf.concat([limits, [1]], axis=0)), 1)
        ids, scores = greedy_search(step, self.model.start_cache(source_ids, longest), limits, START_ID, END_ID)
        return {
            "translation": self.tokenizers.target.detokenize(ids),
            "score": scores,
            "truncated": lengths > most,
        }
