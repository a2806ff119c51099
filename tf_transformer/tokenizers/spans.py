"""Where in a text each of its tokens stands."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate, takewhile

import regex

from tf_transformer.tokenizers.marks import BLANK, CONTINUATION, NO_TEXT

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # SentencePiece: one byte of a character that it does not know

# What may be one character of the normal form: a letter and its marks, Hangul in parts, kana of half width. No more
# than Unicode's "stream-safe" text has: the time of `normalize` grows with the square of the number of marks.
_IN_PARTS = regex.compile(r"[^\s\p{M}][\p{M}\p{Hangul_Syllable_Type=V}\p{Hangul_Syllable_Type=T}\uff9e\uff9f]{1,30}")

# Pairs of equal letters that are looked at for one text, which takes about a second. A line of 15,000 letters that was
# cut and has unknown words takes four million.
_MOST_WORK = 5_000_000

Span = tuple[int, int]


def character_spans(tokens: Sequence[str], text: str) -> list[Span | None]:
    """Finds the characters that each token is made of.

    Tokens are of a text's normal form, and some are unknown. So their letters are compared with the text's, blanks left
    out; where the two differ, tokens and characters between the letters that agree go together.

    Args:
        tokens: as the vocabulary has them: `▁dog`, `##s`, `<0xEA>`, `</s>`.
        text: what they are the tokens of.

    Returns:
        Start and end of each; None for a token without a character.

    Example:
        >>> character_spans(["▁A", "▁do", "g", ".", "</s>"], "A dog.")
        [(0, 1), (2, 4), (4, 5), (5, 6), None]
    """
    owned = list(_letters_of_tokens(tokens))
    parts = _parts_of_text(text)
    # A part's normal form may be several letters, such as "…", which is three full stops.
    letters = [
        (letter, at)
        for at, part in parts.items()
        for letter in unicodedata.normalize("NFKC", part)
        if not _is_blank(letter)
    ]
    places: dict[int, list[int]] = {}
    for same, a, a_end, b, b_end in _compared([letter for letter, _ in owned], [letter for letter, _ in letters]):
        here = [at for _, at in letters[b:b_end]]
        ends = here[:1] + here[-1:]
        for i, (_, owners) in enumerate(owned[a:a_end]):
            for owner in owners:
                places.setdefault(owner, []).extend([here[i]] if same == "equal" else ends)
    found = (places.get(token) for token in range(len(tokens)))
    return [(min(at), max(at) + len(parts[max(at)])) if at else None for at in found]


def words_of_tokens(tokens: Sequence[str | bytes], text: str) -> list[range]:
    """The words that each token has characters of; a token may have some of several, and a control token has none.

    Args:
        tokens: as the vocabulary has them.
        text: what they are the tokens of. Its words are what stands between blanks.

    Returns:
        Places of words, counted from 0, for each token.

    Example:
        >>> words_of_tokens(["▁A", "▁do", "g", ".", "</s>"], "A dog.")
        [range(0, 1), range(1, 2), range(1, 2), range(1, 2), range(0, 0)]
    """
    names = [token.decode("utf-8", "replace") if isinstance(token, bytes) else token for token in tokens]
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    return [
        range(bisect_right(starts, span[0]) - 1, bisect_right(starts, span[1] - 1)) if span else range(0)
        for span in character_spans(names, text)
    ]


def token_spans(tokens: Sequence[str], text: str) -> list[Span | None]:
    """As `character_spans`, in UTF-16 units, which JavaScript counts in."""
    units = [0, *accumulate(len(character.encode("utf-16-le", "surrogatepass")) // 2 for character in text)]
    return [span and (units[span[0]], units[span[1]]) for span in character_spans(tokens, text)]


def _compared(ours: list[str], theirs: list[str]) -> list[tuple[str, int, int, int, int]]:
    """The opcodes of `SequenceMatcher`, which is slow and seldom needed: mostly theirs are ours, or begin with them."""
    if theirs[: len(ours)] == ours:
        return [("equal", 0, len(ours), 0, len(ours))]
    return _BoundedMatcher(None, ours, theirs, autojunk=False).get_opcodes()


class _BoundedMatcher(SequenceMatcher):
    """A `SequenceMatcher` that ends: where letters repeat, its time grows with the cube of their number.

    Of two stretches for which too little of the time is left, only what both begin with counts as the same.
    """

    work = 0

    def find_longest_match(self, alo: int, ahi: int, blo: int, bhi: int) -> Match:
        work = sum(1 + len(self.b2j.get(letter, ())) for letter in self.a[alo:ahi])
        if self.work + work <= _MOST_WORK:
            self.work += work
            return super().find_longest_match(alo, ahi, blo, bhi)
        pairs = zip(self.a[alo:ahi], self.b[blo:bhi], strict=False)
        return Match(alo, blo, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _letters_of_tokens(tokens: Sequence[str]) -> Iterator[tuple[str, range]]:
    """The tokens' characters but blanks, in order, each with the tokens that it is of: several where they are bytes."""
    has_blanks = any(token.startswith(BLANK) for token in tokens)
    at = 0
    while at < len(tokens):
        end = at
        while end < len(tokens) and _BYTE.fullmatch(tokens[end]):
            end += 1
        if end > at:
            spelled = bytes(int(_BYTE.fullmatch(token)[1], 16) for token in tokens[at:end])
            for letter in spelled.decode("utf-8", "replace"):
                width = len(letter.encode())
                yield letter, range(at, min(at + width, end))
                at = min(at + width, end)
            at = end
            continue
        token = "" if tokens[at] in NO_TEXT else tokens[at]
        if not has_blanks and token != CONTINUATION:
            token = token.removeprefix(CONTINUATION)
        for letter in token:
            if letter != BLANK and not _is_blank(letter):
                yield letter, range(at, at + 1)
        at += 1


def _parts_of_text(text: str) -> dict[int, str]:
    """A text's characters by their place; what becomes one in the normal form, as "e" and an accent, is together."""
    parts = dict(enumerate(text))
    for found in _IN_PARTS.finditer(text):
        if not unicodedata.is_normalized("NFKC", found[0]):
            parts[found.start()] = found[0]
            for inside in range(found.start() + 1, found.end()):
                del parts[inside]
    return parts


def _is_blank(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Cc", "Zs")
