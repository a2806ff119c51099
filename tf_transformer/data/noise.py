"""Noise on sentences: what people write in haste, and what makes back-translations harder to learn from.

A sentence's noise follows from the seed and the sentence's number alone, whatever process makes it, and when.
"""

from __future__ import annotations

import random
import re
import unicodedata
from dataclasses import dataclass, fields

from tf_transformer.errors import UserError

FILLER = "<blank>"

_WORD = re.compile(r"\S+")
# Of Latin, Greek and Cyrillic; the marks of other scripts are more than accents.
_ACCENTS = re.compile("[\u0300-\u036f]")


@dataclass(frozen=True)
class Noise:
    """What is changed in how many sentences, or words. Nothing is by default.

    Attributes:
        lower_case: share of sentences written in lower case.
        upper_case: share of sentences written in capitals, other sentences than those in lower case.
        no_accents: share of sentences in which letters lose their accents: "ä" becomes "a".
        typos: share of words with two letters swapped, one left out or one doubled. Words without three letters in a
            row have none.
        drop: share of words that are left out; at least one stays.
        fill: share of words replaced by `FILLER`.
        swap: maximum number of places that a word moves, in an order drawn from all such; 0 for none.
        seed: other numbers give other noise of the same kind.

    Raises:
        UserError: a value that is not allowed; the message names it and what is allowed.

    Example:
        >>> Noise(upper_case=1, no_accents=1)(1, "Ein Hund läuft.")
        'EIN HUND LAUFT.'
        >>> Noise(drop=0.1, fill=0.1, swap=3)(3, "the old man reads a long book")
        'man the old book a long'
    """

    lower_case: float = 0.0
    upper_case: float = 0.0
    no_accents: float = 0.0
    typos: float = 0.0
    drop: float = 0.0
    fill: float = 0.0
    swap: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            share = field.name not in ("swap", "seed")
            if not value >= 0 or (share and value > 1):
                raise UserError(f"{field.name} is {value}; it must be {'from 0 to 1' if share else 'at least 0'}")
        if self.lower_case + self.upper_case > 1:
            raise UserError(
                f"lower_case is {self.lower_case}; together with upper_case, {self.upper_case}, it must be at most 1"
            )

    def __call__(self, number: int, text: str) -> str:
        """The sentence of this number, with its noise."""
        draw = random.Random(f"{self.seed} {number}").random  # the one method that gives the same on every version
        case, accents = draw(), draw()
        if case < self.upper_case:
            text = text.upper()
        elif case < self.upper_case + self.lower_case:
            text = text.lower()
        if accents < self.no_accents:
            text = without_accents(text)
        if self.typos:
            text = _WORD.sub(lambda word: _mistyped(word[0], draw) if draw() < self.typos else word[0], text)
        if self.drop or self.fill or self.swap:
            text = " ".join(self._in_disorder(text.split(), draw))
        return text

    def _in_disorder(self, words: list[str], draw) -> list[str]:
        """Words left out, filled and moved, as Edunov et al. (2018) do after Lample et al. (2018)."""
        if self.drop and words:
            left = [word for word in words if draw() >= self.drop]
            words = left or [words[int(draw() * len(words))]]
        if self.fill:
            words = [FILLER if draw() < self.fill else word for word in words]
        if self.swap:
            # No word gets behind one that stood more than `swap` places after it.
            places = [place + draw() * (self.swap + 1) for place in range(len(words))]
            words = [words[place] for place in sorted(range(len(words)), key=places.__getitem__)]
        return words


def without_accents(text: str) -> str:
    """A text whose letters have lost their accents; letters of their own, such as "ß" and "ø", stay.

    Example:
        >>> without_accents("Ein schöner Café-Besuch, 日本の、й")
        'Ein schoner Cafe-Besuch, 日本の、и'
    """
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))


def _mistyped(word: str, draw) -> str:
    """A word with one typo, if it has three letters in a row."""
    starts = [i for i in range(len(word) - 2) if word[i : i + 3].isalpha()]
    if not starts:
        return word
    place, kind = starts[int(draw() * len(starts))] + int(draw() * 2), int(draw() * 3)
    one, two = word[place], word[place + 1]
    typo = (two + one if one != two else one, two, one + one + two)[kind]  # swapped, left out, doubled
    return word[:place] + typo + word[place + 2 :]
