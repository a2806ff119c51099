"""Features of the source word that a decoder is about to write (deterministic attention: Ma et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.arguments import check_sizes
from tf_transformer.layers.lean_ops import shape_of, take
from tf_transformer.layers.masks import look_ahead_mask

# Marks that no word begins at a place. No word that is asked for has this number: that before the first is -1.
NO_WORD = -2


@keras.saving.register_keras_serializable(package="tf_transformer")
class NextWord(keras.layers.Layer):
    """Gives each target position the encoder's output at the word whose turn it is.

    It is for targets that have one token for every word of the source, in the source's order, such as linearised
    trees: how many of these have been written tells which word comes next. A Transformer has to find this out by
    counting, which it learns late. There are no weights, since the word is known.

    Args:
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        opening: the source tokens with which a word begins; where the closing token is among them, it has its turn
            after the last word. If there is nothing left, the output is 0.
        writing: the target tokens that stand for a word.

    Raises:
        ValueError: sizes that are not positive integers, or tokens that are not in the vocabularies.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers import NextWord
        >>> layer = NextWord(10, 10, opening=[3, 5, 6], writing=[4])  # 5 and 6 begin a word, 3 closes
        >>> source, target = np.array([[5, 7, 6, 3]]), np.array([[2, 8, 4, 4]])
        >>> context = np.array([[[1], [2], [3], [4]]], "float32")  # of each source token
        >>> layer(source, target, context).numpy()[0, :, 0].tolist()
        [1.0, 1.0, 3.0, 4.0]
    """

    tree_loss = False  # a `TreeState` may have one

    def __init__(
        self,
        input_vocab_size: int,
        target_vocab_size: int,
        opening: Sequence[int],
        writing: Sequence[int],
        **kwargs: Any,
    ) -> None:
        # Ids may come as floats, of which bfloat16, say, would have no odd number above 256.
        super().__init__(autocast=False, **kwargs)
        self.input_vocab_size, self.target_vocab_size = check_sizes(
            input_vocab_size=input_vocab_size, target_vocab_size=target_vocab_size
        )
        self._begins = token_table("opening", opening, self.input_vocab_size)
        self._writes = token_table("writing", writing, self.target_vocab_size)

    @property
    def opening(self) -> list[int]:
        """The source tokens with which a word begins."""
        return np.flatnonzero(self._begins).tolist()

    @property
    def writing(self) -> list[int]:
        """The target tokens that stand for a word."""
        return np.flatnonzero(self._writes).tolist()

    def build(self, source_ids_shape: tuple, target_ids_shape: tuple, context_shape: tuple) -> None:
        pass

    def call(self, source_ids: Any, target_ids: Any, context: Any) -> Any:
        """Computes the features of each target position.

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            target_ids: int (batch, target_len), the target shifted right by the start token.
            context: the encoder's output, float (batch, source_len, width).

        Returns:
            float (batch, target_len, width).
        """
        return self.features(self.word_index(source_ids), self.word_vectors(context), self.prefixes(target_ids))

    def prefixes(self, target_ids: Any) -> Any:
        """The tokens up to each target position, the others 0: int32 (batch, target_len, target_len)."""
        target_ids = ops.cast(target_ids, "int32")
        return ops.where(look_ahead_mask(shape_of(target_ids)[1]), ops.expand_dims(target_ids, axis=1), 0)

    def word_index(self, source_ids: Any) -> Any:
        """Which word begins at each source position, int32 (batch, source_len), from 0; `NO_WORD` where none does."""
        begins = take(self._begins, ops.cast(source_ids, "int32"))
        return ops.where(begins > 0, ops.cumsum(begins, axis=1) - 1, NO_WORD)

    def word_vectors(self, context: Any) -> Any:
        """What `features` takes from the encoder's output, float (batch, source_len, width): that itself."""
        return ops.cast(context, self.compute_dtype)

    def is_word(self, target_ids: Any) -> Any:
        """1 for each target token that stands for a word, else 0; int32, in the shape of the ids."""
        return take(self._writes, ops.cast(target_ids, "int32"))

    def decoder_input_ids(self, target_ids: Any) -> Any:
        """What the decoder embeds of the target, to which the features are added: all of it."""
        return target_ids

    def features(self, word_index: Any, word_vectors: Any, prefixes: Any) -> Any:
        """Computes the features of the targets that some tokens begin.

        Args:
            word_index: as `word_index` gives it.
            word_vectors: as `word_vectors` gives it.
            prefixes: int (batch, targets, length), the tokens so far of each target; 0, wherever it stands, is padding.

        Returns:
            float (batch, targets, width).
        """
        coming = ops.sum(self.is_word(prefixes), axis=2)
        here = ops.equal(ops.expand_dims(coming, axis=2), ops.expand_dims(word_index, axis=1))
        return ops.matmul(ops.cast(here, word_vectors.dtype), word_vectors)

    def compute_output_shape(self, source_ids_shape: tuple, target_ids_shape: tuple, context_shape: tuple) -> tuple:
        return (*target_ids_shape, context_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "input_vocab_size": self.input_vocab_size,
            "target_vocab_size": self.target_vocab_size,
            "opening": self.opening,
            "writing": self.writing,
        }


def token_table(name: str, tokens: Sequence[int], size: int) -> np.ndarray:
    """1 for each of some tokens, 0 for the others of the vocabulary; int32 (size,)."""
    table = np.zeros(size, "int32")
    for token in tokens:
        if not isinstance(token, Integral) or not 0 <= token < size:
            raise ValueError(f"{name} must be tokens from 0 to {size - 1}, got {token!r}")
        table[token] = 1
    return table
