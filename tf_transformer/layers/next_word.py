"""What a decoder is told of the source word that it is about to write (deterministic attention: Ma et al., 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.arguments import check_sizes


@keras.saving.register_keras_serializable(package="tf_transformer")
class NextWord(keras.layers.Layer):
    """Gives each target position the encoder's output at the word whose turn it is.

    It is for targets that have one token for every word of the source, in the source's order, such as linearised
    trees: how many of these have been written tells which word comes next. A Transformer has to find this out by
    counting, which it learns late. There are no weights: which word it is, is known.

    Args:
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        opening: the source tokens with which a word begins; where the closing token is among them, it has its turn
            after the last word. Where there is nothing left, the output is 0.
        writing: the target tokens that stand for a word.

    Raises:
        ValueError: sizes that are not positive integers, or tokens that the vocabularies have not.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers import NextWord
        >>> layer = NextWord(10, 10, opening=[3, 5, 6], writing=[4])  # 5 and 6 begin a word, 3 closes
        >>> source, target = np.array([[5, 7, 6, 3]]), np.array([[2, 8, 4, 4]])
        >>> context = np.array([[[1], [2], [3], [4]]], "float32")  # of each source token
        >>> layer(source, target, context).numpy()[0, :, 0].tolist()
        [1.0, 1.0, 3.0, 4.0]
    """

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
        self._opens = _marked("opening", opening, self.input_vocab_size)
        self._writes = _marked("writing", writing, self.target_vocab_size)

    @property
    def opening(self) -> list[int]:
        """The source tokens with which a word begins."""
        return np.flatnonzero(self._opens).tolist()

    @property
    def writing(self) -> list[int]:
        """The target tokens that stand for a word."""
        return np.flatnonzero(self._writes).tolist()

    def call(self, source_ids: Any, target_ids: Any, context: Any) -> Any:
        """Works out what each target position is told.

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            target_ids: int (batch, target_len), the target shifted right by the start token.
            context: the encoder's output, float (batch, source_len, width).

        Returns:
            float (batch, target_len, width).
        """
        coming = ops.cumsum(self.written(target_ids), axis=1)
        return self.read(self.words(source_ids), coming, ops.cast(context, self.compute_dtype))

    def words(self, source_ids: Any) -> Any:
        """Which word begins at each source position, int32 (batch, source_len), from 0; -1 where none does."""
        opens = ops.take(ops.convert_to_tensor(self._opens), ops.cast(source_ids, "int32"), axis=0)
        return ops.where(opens > 0, ops.cumsum(opens, axis=1) - 1, -1)

    def written(self, target_ids: Any) -> Any:
        """1 for each target token that stands for a word, else 0; int32, in the shape of the ids."""
        return ops.take(ops.convert_to_tensor(self._writes), ops.cast(target_ids, "int32"), axis=0)

    def read(self, words: Any, coming: Any, context: Any) -> Any:
        """Picks the encoder's output at some words.

        Args:
            words: as `words` gives it.
            coming: which word is wanted, int32 (batch, n).
            context: the encoder's output, float (batch, source_len, width).

        Returns:
            float (batch, n, width).
        """
        here = ops.equal(ops.expand_dims(coming, axis=2), ops.expand_dims(words, axis=1))
        return ops.matmul(ops.cast(here, context.dtype), context)

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


def _marked(name: str, tokens: Sequence[int], size: int) -> np.ndarray:
    """1 for each of some tokens, 0 for the others of the vocabulary; int32 (size,)."""
    marked = np.zeros(size, "int32")
    for token in tokens:
        if not isinstance(token, Integral) or not 0 <= token < size:
            raise ValueError(f"{name} must be tokens from 0 to {size - 1}, got {token!r}")
        marked[token] = 1
    return marked
