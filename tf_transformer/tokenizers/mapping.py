"""Which tokens of an old vocabulary stand for each token of a new one, so that trained embeddings are not lost."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tf_transformer.tokenizers.base import END_ID, UNKNOWN_ID, Tokenizer

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # SentencePiece's name of a byte, which is no text


@dataclass(frozen=True)
class TokenMapping:
    """Where the embeddings of a new vocabulary come from; `map_tokens` makes it.

    Attributes:
        kept: for each new token that the old vocabulary has too, the old id.
        averaged: for each other token that the old tokenizer can spell, the ids of its pieces there.
        new: the tokens that it can't spell.

    Example:
        >>> mapping = TokenMapping(kept={0: 1}, averaged={1: [0, 1]}, new=[2])
        >>> mapping.embeddings(np.array([[2.0], [4.0]]), initial=np.zeros((3, 1))).tolist()
        [[4.0], [3.0], [0.0]]
    """

    kept: dict[int, int]
    averaged: dict[int, list[int]]
    new: list[int]

    def counts(self) -> dict[str, int]:
        """How many tokens are kept, averaged and new."""
        return {"kept": len(self.kept), "averaged": len(self.averaged), "new": len(self.new)}

    def embeddings(self, old: np.ndarray, initial: np.ndarray) -> np.ndarray:
        """Gives the new tokens the rows of the old ones.

        Args:
            old: the trained rows, float (old tokens, ...).
            initial: what a new token begins with, float (new tokens, ...).

        Returns:
            Float, in the shape of `initial`.
        """
        mapped = initial.copy()
        for token, there in self.kept.items():
            mapped[token] = old[there]
        for token, pieces in self.averaged.items():
            mapped[token] = old[pieces].astype("float64").mean(axis=0)
        return mapped


def map_tokens(old: Tokenizer, new: Tokenizer, other: Tokenizer | None = None) -> TokenMapping:
    """Finds each token of a new vocabulary in an old one, by what it spells.

    The special tokens are the same in all. A token is kept if the old vocabulary has one that spells the same, at
    the same position in a word; SentencePiece's `▁dog` is WordPiece's `dog`. Any other is spelled in the old one's
    pieces, unknown ones left out.

    Args:
        old: the tokenizer that the embeddings were trained with.
        new: the tokenizer that takes its place.
        other: one of the same vocabulary as `old` that splits text of another language, as MarianMT has. A token is
            then spelled by the one that leaves fewer pieces unknown, and if they are equal by the one with fewer
            pieces.

    Returns:
        The mapping.

    Example:
        >>> from tf_transformer.tokenizers.wordpiece import WordPieceTokenizer
        >>> special = ["[PAD]", "[UNK]", "[START]", "[END]"]
        >>> old = WordPieceTokenizer([*special, "dog", "##s", "do", "##g"])
        >>> new = WordPieceTokenizer([*special, "##s", "dogs", "cat"])
        >>> mapping = map_tokens(old, new)
        >>> mapping.kept[4], mapping.averaged, mapping.new
        (5, {5: [4, 5]}, [6])
    """
    # The last one first: of two that spell the same, as a byte and a word may, the first has the place.
    there = {spelled: token for token, spelled in reversed(list(enumerate(_spellings(old)))) if token > END_ID}
    kept = {token: token for token in range(END_ID + 1)}
    others = {}
    for token, spelled in enumerate(_spellings(new)):
        if token <= END_ID:
            continue
        if spelled in there:
            kept[token] = there[spelled]
        else:
            others[token] = spelled
    spelled_by = [_pieces(each, there, others.values()) for each in ((old, other) if other else (old,))]
    found = {}
    for token, *spellings in zip(others, *spelled_by, strict=True):
        found[token] = [piece for piece in min(spellings, key=_badness) if piece != UNKNOWN_ID]
    averaged = {token: pieces for token, pieces in found.items() if pieces}
    unknown = [token for token, pieces in found.items() if not pieces]
    return TokenMapping(kept, averaged, unknown)


def _badness(pieces: list[int]) -> tuple[bool, int, int]:
    """The lower, the better the pieces spell a token: whether none is known, how many are not, and how many there are.

    Example:
        >>> min([[7, UNKNOWN_ID], [], [4, 5, 6], [7, 8]], key=_badness)
        [7, 8]
    """
    unknown = pieces.count(UNKNOWN_ID)
    return unknown == len(pieces), unknown, len(pieces)


def _spellings(tokenizer: Tokenizer) -> list[tuple[bool, str]]:
    return [tokenizer.spelling(piece) for piece in tokenizer.pieces(range(tokenizer.vocab_size))]


def _pieces(
    old: Tokenizer, there: dict[tuple[bool, str], int], spelled: Collection[tuple[bool, str]]
) -> Iterator[list[int]]:
    """What an old tokenizer makes of each of some tokens."""
    if not spelled:
        return
    # All at once: MarianMT's takes nearly as long for one text as for a thousand. Bytes are no text.
    flat, lengths = old.encode(["" if _BYTE.fullmatch(text) else text for _, text in spelled])
    for (begins, _), row in zip(spelled, np.split(flat, np.cumsum(lengths)[:-1]), strict=True):
        ids = row.tolist()
        if ids and not begins:
            # It takes the text for a word, so that its first piece begins one; the same within a word is meant.
            _, first = old.spelling(old.pieces(ids[:1])[0])
            ids[:1] = [] if first == "" else [there.get((False, first), ids[0])]
        yield ids
