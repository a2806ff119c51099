"""Where in a text each of its tokens stands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate

_BLANK_MARK = "\u2581"  # SentencePiece: a blank, as it stands before a word
_GOES_ON = "##"  # WordPiece: no blank here
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # SentencePiece: one byte of a character that it does not know
_NO_TEXT = {"", "<pad>", "<s>", "</s>", "[PAD]", "[START]", "[END]"}


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
    # A character's normal form may be several, such as "…", which is three full stops.
    letters = [
        (letter, at)
        for at, character in enumerate(text)
        for letter in unicodedata.normalize("NFKC", character)
        if not _is_blank(letter)
    ]
    places: dict[int, list[int]] = {}
    matcher = SequenceMatcher(None, [letter for letter, _ in owned], [letter for letter, _ in letters], autojunk=False)
    for same, a, a_end, b, b_end in matcher.get_opcodes():
        here = [at for _, at in letters[b:b_end]]
        for i, (_, owners) in enumerate(owned[a:a_end]):
            for owner in owners:
                places.setdefault(owner, []).extend([here[i]] if same == "equal" else here)
    found = (places.get(token) for token in range(len(tokens)))
    return [(min(at), max(at) + 1) if at else None for at in found]


def token_spans(tokens: Sequence[str], text: str) -> list[Span | None]:
    """As `character_spans`, in UTF-16 units, which JavaScript counts in."""
    units = [0, *accumulate(len(character.encode("utf-16-le", "surrogatepass")) // 2 for character in text)]
    return [span and (units[span[0]], units[span[1]]) for span in character_spans(tokens, text)]


def _letters_of_tokens(tokens: Sequence[str]) -> Iterator[tuple[str, range]]:
    """The tokens' characters but blanks, in order, each with the tokens that it is of: several where they are bytes."""
    has_blanks = any(token.startswith(_BLANK_MARK) for token in tokens)
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
        token = "" if tokens[at] in _NO_TEXT else tokens[at]
        if not has_blanks and token != _GOES_ON:
            token = token.removeprefix(_GOES_ON)
        for letter in token:
            if letter != _BLANK_MARK and not _is_blank(letter):
                yield letter, range(at, at + 1)
        at += 1


def _is_blank(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Cc", "Zs")
