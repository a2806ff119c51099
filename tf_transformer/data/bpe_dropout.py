"""BPE-dropout (Provilkov et al., 2020): every epoch cuts the training sentences into other pieces."""

import random
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from tf_transformer.data.filters import CHUNK_SPEC, KEPT
from tf_transformer.errors import UserError

_PIECES_SPEC = tf.RaggedTensorSpec((None, None), tf.int32, ragged_rank=1)
CUT_SPEC = (*CHUNK_SPEC, _PIECES_SPEC, _PIECES_SPEC)


def check_bpe_dropout(rate: float, tokenizers) -> None:
    """Raises UserError for a rate that makes no sense, or tokenizers that merge nothing."""
    if not 0 <= rate < 1:
        raise UserError(f"bpe_dropout is {rate}: give a share of the merges, 0 or more and less than 1")
    if rate and tokenizers.kind != "bpe":
        raise UserError(f"bpe_dropout is {rate}, which needs a tokenizer of kind bpe; this one is {tokenizers.kind}")


def cut(
    chunks: Iterable[tuple[np.ndarray, np.ndarray]], tokenizers, rate: float, rng: random.Random
) -> Iterator[tuple[np.ndarray, np.ndarray, tf.RaggedTensor, tf.RaggedTensor]]:
    """Cuts sentences into pieces, each merge left out by chance.

    Args:
        chunks: Source and target sentences.
        tokenizers: A `TokenizerPair` of kind bpe.
        rate: How likely a merge is to be left out.
        rng: Decides which.

    Yields:
        The chunk, and the ids of its source and target sentences, int32 (sentences, None).
    """
    for sources, targets in chunks:
        pieces = (
            tokenizer.tokenize_with_dropout(list(texts), rate, rng.getrandbits(31))
            for tokenizer, texts in ((tokenizers.source, sources), (tokenizers.target, targets))
        )
        yield sources, targets, *pieces


def choose(
    usual: list[tf.RaggedTensor], by_chance: list[tf.RaggedTensor], verdict: tf.Tensor, max_length: int
) -> list[tf.RaggedTensor]:
    """Takes the pieces cut by chance, but the usual ones of pairs that were judged by these or would be too long.

    Args:
        usual: Source and target ids.
        by_chance: The same sentences' ids, merges left out.
        verdict: What was said of the usual ones.
        max_length: The most tokens on either side, END counted.

    Returns:
        Source and target ids, a row for each pair.
    """
    longest = tf.maximum(*(ids.row_lengths() for ids in by_chance)) + 1
    taken = tf.cast((verdict == KEPT) & (longest <= max_length), tf.int64)
    number = usual[0].nrows()
    rows = tf.range(number) + number * taken
    return [tf.gather(tf.concat(both, axis=0), rows) for both in zip(usual, by_chance, strict=True)]
