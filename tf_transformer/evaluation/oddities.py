"""Translations that repeat themselves, copy their source, or have an odd length: what BLEU hardly notices."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from tf_transformer.data.text_filters import is_repetitive, overlap
from tf_transformer.protection.patterns import WITHOUT_BLANKS

# Letters and digits that stand together, with their combining marks: without these the words of Hindi would be single
# letters. Scripts that write no blanks between words, as Chinese, Japanese and Thai, are taken letter by letter.
_MARKS = r"\p{M}\u200c\u200d"
WORD = regex.compile(
    rf"{WITHOUT_BLANKS}[{_MARKS}]*|[[\p{{L}}\p{{N}}_]--{WITHOUT_BLANKS}][[\p{{L}}\p{{N}}_{_MARKS}]--{WITHOUT_BLANKS}]*",
    flags=regex.VERSION1,  # which has --, "but not"
)

MOST_IN_A_ROW = 2
COPIED_SHARE = 0.5
DEVIATIONS = 3

ODDITIES = ("repeats", "copies", "odd_length")


def share_of_oddities(
    sources: Sequence[str], translations: Sequence[str], references: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Counts odd translations, and by the same measure odd references: what is usual in these texts.

    Args:
        sources: the source sentences.
        translations: theirs, in the same order.
        references: what they should have been.

    Returns:
        "translations" and "references", of each the percentages by the names in `ODDITIES`: what `repeats`, what
        `copies`, and what has an odd length for its source, by more than three standard deviations of the references'.

    Example:
        >>> sources = ["a red house", "two dogs run"]
        >>> references = ["ein rotes Haus", "zwei Hunde rennen"]
        >>> found = share_of_oddities(sources, ["ein Haus Haus Haus", "two dogs"], references)
        >>> found["translations"]["repeats"], found["references"]
        (50.0, {'repeats': 0.0, 'copies': 0.0, 'odd_length': 0.0})
    """
    lengths = [(len(source), len(reference)) for source, reference in zip(sources, references, strict=True)]

    def shares(texts: Sequence[str]) -> dict[str, float]:
        odd_lengths = _odd_lengths(
            [(len(source), len(text)) for source, text in zip(sources, texts, strict=True)], lengths
        )
        pairs = list(zip(sources, texts, strict=True))
        counts = sum(repeats(*pair) for pair in pairs), sum(copies(*pair) for pair in pairs), odd_lengths
        return {name: round(100 * count / len(pairs), 2) for name, count in zip(ODDITIES, counts, strict=True)}

    return {"translations": shares(translations), "references": shares(references)}


def repeats(source: str, translation: str) -> bool:
    """Whether one to four words stand three times or more in a row in the translation, and none do in the source.

    Words are compared without regard to case. That a source may repeat rightly is taken from Raunak et al. (2021).

    Example:
        >>> repeats("He came in.", "Er kam, er kam, er kam."), repeats("No, no, no!", "Nein, nein, nein!")
        (True, False)
    """
    return _is_repetitive(translation) and not _is_repetitive(source)


def _is_repetitive(text: str) -> bool:
    return is_repetitive(WORD.findall(text.casefold()), MOST_IN_A_ROW)


def copies(source: str, translation: str) -> bool:
    """Whether source and translation have at least half of their words in common (Ott et al., 2018).

    Example:
        >>> copies("A man in Rome", "A man in Rom"), copies("A man in Rome", "Ein Mann in Rom")
        (True, False)
    """
    return bool(translation.strip()) and overlap(source, translation, WORD) >= COPIED_SHARE


def _odd_lengths(lengths: Sequence[tuple[int, int]], usual: Sequence[tuple[int, int]]) -> int:
    """How many targets have a length that is odd by the model of Gale and Church (1993).

    In characters, a target's length is that of its source times a ratio, with a variance in proportion to the source's
    length; ratio and variance are those of the usual pairs.

    Args:
        lengths: of source and target each.
        usual: the same of pairs that are known to be right.
    """
    ratio = sum(target for _, target in usual) / max(sum(source for source, _ in usual), 1)
    squares = [(target - ratio * source) ** 2 / source for source, target in usual if source]
    variance = sum(squares) / max(len(squares), 1)
    return sum((target - ratio * source) ** 2 > DEVIATIONS**2 * variance * source for source, target in lengths)
