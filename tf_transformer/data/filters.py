"""Filters for sentence pairs by their tokens; by text: `text_filters.py`.

`make_batches`, `prepare_pairs` and `count_pairs` all go through `verdicts`: what is counted is what is dropped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.brackets import BracketTokenizer

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair

KEPT, EMPTY, TOO_LONG, BAD_RATIO, UNKNOWN_TAG = VERDICTS = range(5)

# Pairs tokenised at a time: enough to hide the cost of Python, few enough to stay a stream.
CHUNK = 1000
CHUNK_SPEC = (tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), tf.string))


def any_kept(
    pairs: Iterable[tuple[str, str]], tokenizers: TokenizerPair, max_length: int, max_ratio: float | None
) -> bool:
    """Whether there is a pair that the limits let pass; looks no further than the first."""
    for sources, targets in chunks(pairs):
        *_, verdict = encode_and_judge(tokenizers, sources, targets, max_length, max_ratio)
        if tf.reduce_any(verdict == KEPT):
            return True
    return False


def check_limits(max_length: int, max_ratio: float | None) -> None:
    """Raises UserError where no pair at all could pass."""
    if max_length < 2:
        raise UserError(f"max_length is {max_length}: it includes the end token, so give at least 2")
    if max_ratio is not None and not max_ratio >= 1:
        raise UserError(f"max_ratio is {max_ratio}: give at least 1 (equal lengths), or None for no limit")


def chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Streams pairs as arrays of at most `CHUNK` source and as many target sentences."""
    stream = iter(pairs)
    while chunk := list(itertools.islice(stream, CHUNK)):
        # dtype object: NumPy's own string type would pad every sentence to the longest.
        texts = np.array(chunk, dtype=object)
        yield texts[:, 0], texts[:, 1]


def encode_and_judge(
    tokenizers: TokenizerPair, sources: tf.Tensor, targets: tf.Tensor, max_length: int, max_ratio: float | None
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.Tensor]:
    """Tokenises a chunk and says of each pair whether it is kept.

    Args:
        tokenizers: A `TokenizerPair`.
        sources: strings (batch,).
        targets: strings (batch,).
        max_length: The most tokens on either side.
        max_ratio: How many times as long as the other a side may be; None for any.

    Returns:
        Source and target ids, int32 (batch, None), START and END not added; and the `verdicts`.
    """
    source, target = tokenizers.source.tokenize(sources), tokenizers.target.tokenize(targets)
    lengths = source.row_lengths() + 1, target.row_lengths() + 1
    return source, target, verdicts(*lengths, max_length, max_ratio, lacks_tag(tokenizers, targets))


def lacks_tag(tokenizers: TokenizerPair, targets: tf.Tensor | Sequence[str]) -> tf.Tensor | None:
    """Which targets, strings (batch,), are trees with a tag that the tokenizer lacks; None where they are no trees."""
    if not isinstance(tokenizers.target, BracketTokenizer):
        return None
    return tokenizers.target.lacks_tag(tf.convert_to_tensor(targets, tf.string))


def verdicts(
    source_lengths: tf.Tensor,
    target_lengths: tf.Tensor,
    max_length: int,
    max_ratio: float | None,
    without_tag: tf.Tensor | None = None,
) -> tf.Tensor:
    """Says of each pair whether it is kept, or why not.

    Args:
        source_lengths: int64 (batch,), END counted.
        target_lengths: int64 (batch,), END (or START) counted.
        max_length: The most tokens on either side.
        max_ratio: How many times as long as the other a side may be; None for any.
        without_tag: As `lacks_tag` gives it.

    Returns:
        int32 (batch,): KEPT, EMPTY, TOO_LONG, BAD_RATIO or UNKNOWN_TAG.
    """
    longer, shorter = tf.maximum(source_lengths, target_lengths), tf.minimum(source_lengths, target_lengths)
    limit = math.inf if max_ratio is None else max_ratio
    # int64 / int64 is float64, as in Python: a ratio of exactly max_ratio stays.
    verdict = KEPT if without_tag is None else tf.where(without_tag, UNKNOWN_TAG, KEPT)
    verdict = tf.where(longer / shorter > limit, BAD_RATIO, verdict)
    verdict = tf.where(longer > max_length, TOO_LONG, verdict)
    return tf.where(shorter == 1, EMPTY, verdict)
