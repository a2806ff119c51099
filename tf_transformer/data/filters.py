"""Filters for sentence pairs by their tokens, which count the pairs that they drop; by text: `text_filters.py`.

`make_batches` and `count_pairs` both go through `encode` and `verdicts`: what is counted is what is dropped.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import UNKNOWN_ID

KEPT, EMPTY, TOO_LONG, BAD_RATIO = range(4)

# Pairs tokenised at a time: enough to hide the cost of Python, few enough to stay a stream.
CHUNK = 1000
CHUNK_SPEC = (tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), tf.string))

# Pairs among which repeats are looked for: enough to tell what a corpus is like, few enough for the memory.
REMEMBERED = 1_000_000


@dataclasses.dataclass(frozen=True)
class PairCounts:
    """What one pass over the pairs found.

    Attributes:
        kept: Pairs that pass.
        empty: Dropped: no token on one side at least.
        too_long: Dropped: more than `max_length` tokens on one side at least.
        bad_ratio: Dropped: one side more than `max_ratio` times as long as the other.
        source_tokens: Tokens of the kept source sentences, END counted.
        target_tokens: Tokens of the kept target sentences, END counted.
        copied: Kept pairs whose source and target are the same text.
        repeated: Pairs that came before, among the first million kept.
        unknown_source: Tokens of the kept source sentences that the vocabulary lacks.
        unknown_target: Likewise of the target sentences.

    Example:
        >>> print(PairCounts(kept=2, empty=1, too_long=0, bad_ratio=0, source_tokens=7, target_tokens=8))
        2 of 3 pairs kept (7 source and 8 target tokens); 1 dropped: 1 empty, 0 too long, 0 of unlike lengths
    """

    kept: int
    empty: int
    too_long: int
    bad_ratio: int
    source_tokens: int
    target_tokens: int
    copied: int = 0
    repeated: int = 0
    unknown_source: int = 0
    unknown_target: int = 0

    def doubts(self) -> list[str]:
        """What a corpus seldom is, a line each: half copies, half repeats, or a thousandth unknown to the tokenizer."""
        lines = []
        if self.copied > self.kept / 2:
            lines.append(f"{self.copied:,} of {self.kept:,} pairs have the same text as source and target")
        looked_at = min(self.kept, REMEMBERED)
        if self.repeated > looked_at / 2:
            first = "" if looked_at == self.kept else "the first "
            lines.append(f"{self.repeated:,} of {first}{looked_at:,} pairs repeat an earlier one")
        for side, unknown, tokens in (
            ("source", self.unknown_source, self.source_tokens),
            ("target", self.unknown_target, self.target_tokens),
        ):
            if unknown > tokens / 1000:
                lines.append(f"{unknown:,} of {tokens:,} {side} tokens are unknown to the tokenizer")
        return lines

    def __str__(self) -> str:
        dropped = self.empty + self.too_long + self.bad_ratio
        return (
            f"{self.kept:,} of {self.kept + dropped:,} pairs kept "
            f"({self.source_tokens:,} source and {self.target_tokens:,} target tokens); {dropped:,} dropped: "
            f"{self.empty:,} empty, {self.too_long:,} too long, {self.bad_ratio:,} of unlike lengths"
        )


def count_pairs(
    pairs: Iterable[tuple[str, str]], tokenizers, max_length: int, max_ratio: float | None = None
) -> PairCounts:
    """Counts what `make_batches` keeps and drops, and why, in one streaming pass.

    A pair that deserves to be dropped for several reasons counts under the first: empty, too long, ratio.

    Args:
        pairs: Source and target sentences.
        tokenizers: A `TokenizerPair`.
        max_length: The most tokens on either side, END counted.
        max_ratio: How many times as long as the other a side may be, END counted; None for any.

    Returns:
        The counts; `str()` of them is a line for the log.

    Raises:
        UserError: For limits that make no sense, and whatever `pairs` raises.

    Example:
        >>> from tf_transformer.tokenizers import train_tokenizers
        >>> pairs = [("a dog runs", "ein Hund rennt"), ("a man", "ein Mann"), ("no", "")]
        >>> tokenizers = train_tokenizers(pairs, vocab_size=275)
        >>> counts = count_pairs(pairs, tokenizers, max_length=20)
        >>> counts.kept, counts.empty
        (2, 1)
    """
    check_limits(max_length, max_ratio)

    @tf.function(input_signature=CHUNK_SPEC)
    def judge(sources, targets):
        source, target, verdict = encode_and_judge(tokenizers, sources, targets, max_length, max_ratio)
        kept = [tf.ragged.boolean_mask(side, verdict == KEPT) for side in (source, target)]
        tokens = [tf.size(side.flat_values, tf.int64) + side.nrows() for side in kept]
        unknown = [tf.math.count_nonzero(side.flat_values == UNKNOWN_ID) for side in kept]
        return tf.math.bincount(verdict, minlength=4), tf.stack(tokens), tf.stack(unknown), verdict == KEPT

    counts, copied, remembered, repeated = np.zeros(4, np.int64), 0, set(), 0
    tokens, unknown = np.zeros((2, 2), np.int64)
    for sources, targets in chunks(pairs):
        found, in_sides, unknown_in_sides, kept = judge(sources, targets)
        counts += found.numpy()
        tokens += in_sides.numpy()
        unknown += unknown_in_sides.numpy()
        texts = list(zip(sources[kept.numpy()], targets[kept.numpy()], strict=True))
        copied += sum(source == target for source, target in texts)
        # Hashes, which take less room than texts.
        new = [hash(pair) for pair in texts[: REMEMBERED - len(remembered) - repeated]]
        before = len(remembered)
        remembered.update(new)
        repeated += len(new) - (len(remembered) - before)
    return PairCounts(
        kept=int(counts[KEPT]),
        empty=int(counts[EMPTY]),
        too_long=int(counts[TOO_LONG]),
        bad_ratio=int(counts[BAD_RATIO]),
        source_tokens=int(tokens[0]),
        target_tokens=int(tokens[1]),
        copied=copied,
        repeated=repeated,
        unknown_source=int(unknown[0]),
        unknown_target=int(unknown[1]),
    )


def any_kept(pairs: Iterable[tuple[str, str]], tokenizers, max_length: int, max_ratio: float | None) -> bool:
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
    tokenizers, sources: tf.Tensor, targets: tf.Tensor, max_length: int, max_ratio: float | None
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
    return source, target, verdicts(source.row_lengths() + 1, target.row_lengths() + 1, max_length, max_ratio)


def verdicts(
    source_lengths: tf.Tensor, target_lengths: tf.Tensor, max_length: int, max_ratio: float | None
) -> tf.Tensor:
    """Says of each pair whether it is kept, or why not.

    Args:
        source_lengths: int64 (batch,), END counted.
        target_lengths: int64 (batch,), END (or START) counted.
        max_length: The most tokens on either side.
        max_ratio: How many times as long as the other a side may be; None for any.

    Returns:
        int32 (batch,): KEPT, EMPTY, TOO_LONG or BAD_RATIO.
    """
    longer, shorter = tf.maximum(source_lengths, target_lengths), tf.minimum(source_lengths, target_lengths)
    limit = math.inf if max_ratio is None else max_ratio
    # int64 / int64 is float64, as in Python: a ratio of exactly max_ratio stays.
    verdict = tf.where(longer / shorter > limit, BAD_RATIO, KEPT)
    verdict = tf.where(longer > max_length, TOO_LONG, verdict)
    return tf.where(shorter == 1, EMPTY, verdict)
