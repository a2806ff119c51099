"""Finds the sentence pairs that a batch of ids was made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tf_transformer.data.filters import chunks
from tf_transformer.tokenizers.base import END_ID, PAD_ID
from tf_transformer.training.alignment import labels_and_alignment

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair


def find_pairs(
    pairs: Iterable[tuple[str, str]], tokenizers: TokenizerPair, batch: Any
) -> Iterator[tuple[int, tuple[str, str]]]:
    """Finds the pairs of a batch, in one pass over all.

    Args:
        pairs: Source and target sentences.
        tokenizers: The `TokenizerPair` that the batch was made with.
        batch: One of `make_batches`.

    Yields:
        The number of the pair, from 1 on, and the pair. Of a text file that is its line, unless some before it were
        skipped for their UTF-8, which are no pairs. Pairs of the same tokens are all found.

    Example:
        >>> from tf_transformer.data.batching import make_batches
        >>> from tf_transformer.tokenizers import train_tokenizers
        >>> pairs = [("a dog runs", "ein Hund rennt"), ("a man", "ein Mann"), ("a cat", "eine Katze")]
        >>> tokenizers = train_tokenizers(pairs, vocab_size=285)
        >>> batch = next(iter(make_batches(pairs[1:2], tokenizers, batch_tokens=100, max_length=20)))
        >>> [number for number, _ in find_pairs(pairs, tokenizers, batch)]
        [2]
    """
    (source_ids, _), y = batch
    labels, _ = labels_and_alignment(y)
    wanted = set(zip(_rows(source_ids), _rows(labels), strict=True))
    number = 0
    for sources, targets in chunks(pairs):
        encoded = (tokenizers.source.tokenize(sources).to_list(), tokenizers.target.tokenize(targets).to_list())
        for source, target, *ids in zip(sources, targets, *encoded, strict=True):
            number += 1
            if tuple(tuple(side) + (END_ID,) for side in ids) in wanted:
                yield number, (source, target)


def _rows(ids: Any) -> list[tuple[int, ...]]:
    """The ids of each sentence without padding."""
    return [tuple(int(each) for each in row if each != PAD_ID) for row in np.asarray(ids)]
