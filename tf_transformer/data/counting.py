"""Counts the pairs that the filters keep and drop, and tells of a corpus that looks like a mistake."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.data.filters import BAD_RATIO, EMPTY, KEPT, TOO_LONG, UNKNOWN_TAG, VERDICTS, check_limits, chunks
from tf_transformer.data.prepared.parts import SIDES, Part, make_part
from tf_transformer.tokenizers.base import UNKNOWN_ID

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair

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
        source_tokens: Tokens of the kept source sentences, including END.
        target_tokens: Tokens of the kept target sentences, including END.
        copied: Kept pairs whose source and target are the same text.
        repeated: Pairs whose tokens occurred before, among the first million kept.
        unknown_source: Tokens of the kept source sentences that the vocabulary lacks.
        unknown_target: Likewise of the target sentences.
        unknown_tag: Dropped: trees with a word whose tag the vocabulary lacks.

    Example:
        >>> print(PairCounts(kept=2, empty=1, too_long=0, bad_ratio=0, source_tokens=7, target_tokens=8))
        2 of 3 pairs kept (7 source and 8 target tokens); 1 dropped: 1 empty, 0 too long, 0 of very different lengths
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
    unknown_tag: int = 0

    def doubts(self) -> list[str]:
        """What a corpus seldom is, a line each: half copies, half repeats, or a thousandth that the tokenizer lacks."""
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
        trees = self.kept + self.unknown_tag
        if self.unknown_tag > trees / 1000:
            lines.append(f"{self.unknown_tag:,} of {trees:,} trees are left out: the tokenizer lacks one of their tags")
        return lines

    def __str__(self) -> str:
        dropped = self.empty + self.too_long + self.bad_ratio + self.unknown_tag
        tags = f", {self.unknown_tag:,} with a tag that the tokenizer lacks" if self.unknown_tag else ""
        return (
            f"{self.kept:,} of {self.kept + dropped:,} pairs kept "
            f"({self.source_tokens:,} source and {self.target_tokens:,} target tokens); {dropped:,} dropped: "
            f"{self.empty:,} empty, {self.too_long:,} too long, {self.bad_ratio:,} of very different lengths{tags}"
        )


def count_pairs(
    pairs: Iterable[tuple[str, str]], tokenizers: TokenizerPair, max_length: int, max_ratio: float | None = None
) -> PairCounts:
    """Counts what `make_batches` keeps and drops, and why, in one streaming pass.

    A pair with several reasons to be dropped counts under the first: empty, too long, ratio, tag.

    Args:
        pairs: Source and target sentences.
        tokenizers: A `TokenizerPair`.
        max_length: Maximum number of tokens on either side, including END.
        max_ratio: Maximum ratio of the longer side to the shorter one, including END; None for no limit.

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
    counter = PairCounter()
    for texts in chunks(pairs):
        chunk = list(zip(*texts, strict=True))
        counter.add(make_part(tokenizers, chunk, max_length, max_ratio, np.dtype(np.int32)))
    return counter.counts()


class PairCounter:
    """Counts pairs, part by part."""

    def __init__(self) -> None:
        self._verdicts, self._copied, self._hashes = np.zeros(len(VERDICTS), np.int64), 0, np.zeros(0, np.uint64)
        self._tokens, self._unknown = dict.fromkeys(SIDES, 0), dict.fromkeys(SIDES, 0)

    def add(self, part: Part) -> None:
        """Counts the pairs that a part was made of."""
        self._verdicts[: len(part["verdicts"])] += part["verdicts"]  # an earlier version's part has fewer
        self._copied += int(part["copied"])
        for side in SIDES:
            self._tokens[side] += int((part[f"{side}_lengths"] + 1).sum())
            self._unknown[side] += int(np.count_nonzero(part[f"{side}_ids"] == UNKNOWN_ID))
        if room := REMEMBERED - len(self._hashes):  # else each part of a large corpus would copy them all
            self._hashes = np.concatenate([self._hashes, part["hashes"][:room]])

    def counts(self) -> PairCounts:
        """What has been counted."""
        return PairCounts(
            kept=int(self._verdicts[KEPT]),
            empty=int(self._verdicts[EMPTY]),
            too_long=int(self._verdicts[TOO_LONG]),
            bad_ratio=int(self._verdicts[BAD_RATIO]),
            source_tokens=self._tokens["source"],
            target_tokens=self._tokens["target"],
            copied=self._copied,
            repeated=len(self._hashes) - len(np.unique(self._hashes)),
            unknown_source=self._unknown["source"],
            unknown_target=self._unknown["target"],
            unknown_tag=int(self._verdicts[UNKNOWN_TAG]),
        )
