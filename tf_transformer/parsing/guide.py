"""Teaches a parser's attention to follow the words (guided alignment: Chen et al., 2016; Garg et al., 2019).

A linearised tree has one token for every word, `XX`, so that which word comes next is known at each position. A
Transformer must find out by itself, by counting, and does so only after many thousand trees. Here one head is told.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from tf_transformer.layers.masks import PAD_ID
from tf_transformer.tokenizers.base import END_ID, Tokenizer
from tf_transformer.tokenizers.brackets import WORD_ID

# The layer whose first head is told: the first in which what has been written so far is known, so that the layers
# above can use what it finds.
LAYER = 1
# Where a head sees nothing of the word, its logarithm stays finite.
LEAST = 1e-6


class WordGuide:
    """A further loss in training: minus the logarithm of what a head's attention gives to the next word.

    The next word of a target position is the one that the next `XX` stands for; after the last one it is the closing
    token. A word that was cut into several tokens gets the sum of theirs.

    Args:
        source: the tokenizer of the words, a SentencePiece one: WordPiece parts words at punctuation.
        weight: of this loss beside the cross-entropy.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.tokenizers import train_parsing_tokenizers
        >>> tokenizers = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
        >>> words = tokenizers.source.tokenize(["a dog"]).to_list()[0]
        >>> source, target = np.array([[*words, 3]]), np.array([[2, 5, 4, 4, 6]])
        >>> guide = WordGuide(tokenizers.source, weight=1.0)
        >>> even = np.full((1, 1, 5, source.shape[1]), 1 / source.shape[1], "float32")
        >>> bool(guide((source, target), [even]) > 0)
        True
    """

    def __init__(self, source: Tokenizer, weight: float) -> None:
        pieces = source.pieces(list(range(source.vocab_size)))
        self._opens_word = np.array([piece.startswith("▁") for piece in pieces])
        self._opens_word[END_ID] = True
        self.weight = weight

    def __call__(self, inputs: tuple[Any, Any], cross: list[Any]) -> Any:
        """Sums the loss over the real target positions of a batch.

        Args:
            inputs: source ids, int (batch, source_len), and target ids, int (batch, target_len), the target shifted
                right by the start token.
            cross: of each layer the weights of encoder-decoder attention, (batch, heads, target_len, source_len).

        Returns:
            A float32 scalar.
        """
        source, target = (ops.cast(ids, "int32") for ids in inputs)
        weights = ops.cast(cross[min(LAYER, len(cross) - 1)][:, 0], "float32")
        opens = ops.take(ops.convert_to_tensor(self._opens_word, dtype="int32"), source, axis=0)
        word = ops.cumsum(opens, axis=1) - 1
        coming = ops.cumsum(ops.cast(ops.equal(target, WORD_ID), "int32"), axis=1)
        aligned = ops.equal(ops.expand_dims(coming, axis=2), ops.expand_dims(word, axis=1))
        aligned = ops.logical_and(aligned, ops.expand_dims(ops.not_equal(source, PAD_ID), axis=1))
        found = ops.sum(weights * ops.cast(aligned, "float32"), axis=2)
        real = ops.cast(ops.not_equal(target, PAD_ID), "float32")
        return -self.weight * ops.sum(real * ops.log(found + LEAST))
