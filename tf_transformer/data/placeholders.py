"""Pairs with placeholders, from which a model learns to carry them over to the right place."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import regex

from tf_transformer.data.pairs import DerivedPairs, Pairs
from tf_transformer.data.word_pairs import WORD, learn_word_pairs
from tf_transformer.tokenizers.placeholders import PLACEHOLDERS

# So many pairs tell which words translate each other; more would take long.
SAMPLE = 50_000

# How many placeholders a pair gets, as far as it has room for them.
NUMBERS, CHANCES = (1, 2, 3, 4), (0.4, 0.3, 0.2, 0.1)

# How often one comes behind a word in place of standing for it, and how often one comes at the end of the sentence.
BEHIND, AT_THE_END = 0.3, 0.2

_END = ".!?…。！？"

_LETTERS_ALONE = regex.compile(r"[\p{L}\p{M}]+")


class _Place(NamedTuple):
    """Where a placeholder goes on either side: the characters that it replaces, none of them at the end."""

    source: tuple[int, int]
    target: tuple[int, int]


class PlaceholderPairs(DerivedPairs):
    """Pairs in which words are replaced by placeholders, the same on both sides.

    Words that both sides share are replaced, such as names and numbers, and words that translate each other. Some
    placeholders are put after such a word or at the end of the sentence, as a link may stand there. So a model
    learns what `DecodingOptions.protect` needs. The same pairs get the same placeholders each time.

    Args:
        pairs: any source of pairs.

    Example:
        >>> pairs = PlaceholderPairs([("Tom saw Mary in 1999.", "Tom sah Mary 1999.")])
        >>> list(pairs)
        [('⟦5⟧ saw ⟦7⟧ in ⟦3⟧.', '⟦5⟧ sah ⟦7⟧ ⟦3⟧.')]
    """

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        self._word_pairs: dict[str, str] | None = None

    def _pairs(self) -> Iterator[tuple[str, str]]:
        if self._word_pairs is None:
            self._word_pairs = learn_word_pairs(islice(self._origin, SAMPLE))
        for number, (source, target) in enumerate(self._origin):
            yield _changed(source, target, self._word_pairs, random.Random(number))


def _changed(source: str, target: str, word_pairs: dict[str, str], chance: random.Random) -> tuple[str, str]:
    """A pair with placeholders; where a side has no text, as it is."""
    if not source.strip() or not target.strip():
        return source, target
    found = _words_of_both(source, target, word_pairs)
    (wanted,) = chance.choices(NUMBERS, CHANCES)
    places = chance.sample(found, min(wanted, len(found)))
    places = [_behind(place) if chance.random() < BEHIND else place for place in places]
    if not places or chance.random() < AT_THE_END:
        places.append(_Place(*(_before_the_full_stop(text) for text in (source, target))))
    names = chance.sample(PLACEHOLDERS, len(places))
    return tuple(
        _with_placeholders(text, [(place[side], name) for place, name in zip(places, names, strict=True)])
        for side, text in enumerate((source, target))
    )


def _words_of_both(source: str, target: str, word_pairs: dict[str, str]) -> list[_Place]:
    """Words that occur once on each side, shared or translated; of two for one word of the target the first."""
    sides = [list(WORD.finditer(text)) for text in (source, target)]
    counts = [Counter(match[0] for match in side) for side in sides]
    in_target = {match[0]: match.span() for match in sides[1] if counts[1][match[0]] == 1}
    places: dict[str, _Place] = {}
    for match in sides[0]:
        word = match[0]
        is_name = word in in_target and (len(word) > 3 or word != word.lower() or not _LETTERS_ALONE.fullmatch(word))
        other = word if is_name and word not in word_pairs else word_pairs.get(word)
        if counts[0][word] == 1 and other in in_target:
            places.setdefault(other, _Place(match.span(), in_target[other]))
    return list(places.values())


def _behind(place: _Place) -> _Place:
    return _Place(*((end, end) for _, end in place))


def _before_the_full_stop(text: str) -> tuple[int, int]:
    end = len(text.rstrip().rstrip(_END).rstrip())
    return end, end


def _with_placeholders(text: str, places: list[tuple[tuple[int, int], str]]) -> str:
    """The text with each name in its place, and a blank before it where it replaces nothing."""
    for (start, end), name in sorted(places, reverse=True):
        blank = " " if start == end and start > 0 else ""
        text = f"{text[:start]}{blank}{name}{text[end:]}"
    return text
