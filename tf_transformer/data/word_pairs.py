"""Words that translate each other, as far as a corpus says so by where they occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product

import regex

# Letters and digits with their combining marks, such as the vowels of Indic scripts and decomposed accents, and the
# joiners within words. (`\w` of `re` matches no marks; that of `regex` no "²", but a mark that belongs to an emoji.)
LETTERS = r"[\p{L}\p{N}_][\p{L}\p{N}\p{M}_\u200c\u200d]*"
WORD = regex.compile(rf"{LETTERS}(?:[-'’.]{LETTERS})*")

# Rarer words are paired by accident; more common ones are articles and the like, which are no text on their own.
FEWEST = 5
LARGEST_SHARE = 0.02

# Longer sentences have more pairs of words than they tell.
MOST_WORDS = 40

# Of Dice's coefficient.
LEAST = 0.4


def learn_word_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Finds words of the source and their translations: each is the other's best by Dice's coefficient.

    Dice's coefficient of two words is `2 c(s, t) / (c(s) + c(t))`, where c counts the sentence pairs that have them.

    Args:
        pairs: (source text, target text), each read once and held in memory.

    Returns:
        For each source word that has one, its translation.

    Example:
        >>> animals = [("dog", "Hund"), ("cat", "Katze"), ("cow", "Kuh")]
        >>> pairs = [(f"a {animal}", f"ein {tier}") for animal, tier in animals] * 5
        >>> pairs += [("it rains", "es regnet")] * 1000
        >>> learn_word_pairs(pairs)["dog"]
        'Hund'
    """
    sentences = [(set(WORD.findall(source)), set(WORD.findall(target))) for source, target in pairs]
    sentences = [each for each in sentences if max(map(len, each)) <= MOST_WORDS]
    counts = [Counter(word for each in sentences for word in each[side]) for side in (0, 1)]
    most = LARGEST_SHARE * len(sentences)
    telling = [{word for word, count in counted.items() if FEWEST <= count <= most} for counted in counts]
    together = Counter(
        pair for source, target in sentences for pair in product(source & telling[0], target & telling[1])
    )
    dice = {(s, t): 2 * count / (counts[0][s] + counts[1][t]) for (s, t), count in together.items()}
    # Of equals the first in the alphabet, so that the same corpus gives the same pairs.
    ranked = sorted(((value, pair) for pair, value in dice.items() if value >= LEAST), key=lambda x: (-x[0], x[1]))
    best: tuple[dict[str, str], dict[str, str]] = {}, {}
    for _, (source, target) in ranked:
        best[0].setdefault(source, target)
        best[1].setdefault(target, source)
    return {source: target for source, target in best[0].items() if best[1][target] == source}
