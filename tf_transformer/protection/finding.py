"""Finds a glossary's terms in a text, and what is protected in it anyway, from left to right."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tf_transformer.protection.patterns import (
    EMOJI,
    KEPT_BUT_MAIL,
    MAIL,
    NUMBERS_WITHOUT_UNIT,
    QUANTITY,
    WORD_WITH_DIGIT,
)

# One regular expression of all kinds would be tried at each character, and of a long number or word read the rest each
# time: the square of its length. So each kind is looked for by itself, and what none of it is found in is passed over
# at once: if a word is no mail address, its end is none either. Of two kinds at one place the first counts.
_BEFORE_TERMS = (
    f"{KEPT_BUT_MAIL}|{EMOJI}",
    f"{MAIL}|(?P<passed>[A-Za-z0-9][A-Za-z0-9._%+-]*)",
    f"{QUANTITY}|(?P<passed>{NUMBERS_WITHOUT_UNIT})",
)
# A word that ends in a digit may be a term; if not, its end is no quantity.
_BEHIND_TERMS = (f"{WORD_WITH_DIGIT}|(?P<passed>[A-Za-z_]+)",)


class Finder:
    """Finds terms, each a match whose `lastgroup` is "term", and other spans, in which there is no term.

    Args:
        terms: the regular expression of a term, without groups that capture.

    Example:
        >>> finder = Finder("dog|km")
        >>> [(found[0], found.lastgroup) for found in finder.find("dog 5 km {dog}")]
        [('dog', 'term'), ('5 km', None), ('{dog}', None)]
    """

    def __init__(self, terms: str) -> None:
        self._kinds = [re.compile(kind) for kind in (*_BEFORE_TERMS, f"(?P<term>{terms})", *_BEHIND_TERMS)]

    def find(self, text: str) -> Iterator[re.Match]:
        """All of them in order; none begins before the last one ends."""
        following = [_next(kind, text, 0) for kind in self._kinds]
        while found := min(filter(None, following), key=re.Match.start, default=None):
            yield found
            for number, kind in enumerate(self._kinds):
                if following[number] and following[number].start() < found.end():
                    following[number] = _next(kind, text, found.end())


def _next(kind: re.Pattern, text: str, place: int) -> re.Match | None:
    """The next one of a kind that begins at a place or behind it."""
    while (found := kind.search(text, place)) and found.lastgroup == "passed":
        place = found.end()
    return found
