"""Filters of sentence pairs by their texts: each pair is kept, or dropped for one reason.

No language is identified: that takes a model. What script cannot tell apart, such as English in a German file, is
found only where it is a copy of the other side.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from tf_transformer.data.seen import Seen
from tf_transformer.data.word_pairs import LETTERS
from tf_transformer.errors import UserError

UNITS: dict[str, Callable[[str], Sequence[str]]] = {
    "words": str.split,
    "characters": lambda text: "".join(text.split()),
}

# The reasons, in the order in which they are looked for, and what they mean. The first two are told of translations.
REASONS = {
    "truncated": "longer than the model's maximum length",
    "low_score": "translation with a low score",
    "damaged": "not UTF-8, control characters, or text in the wrong encoding",
    "empty": "one side is empty",
    "too_short": "shorter than the minimum",
    "too_long": "longer than the maximum",
    "unlike_lengths": "one side too much longer than the other",
    "copied": "mostly the same words on both sides",
    "other_script": "letters of another script",
    "repetitive": "words repeated in a row",
    "duplicate": "the same as an earlier pair",
}

# What a decoder puts for bytes that it can't read; control characters; and the beginnings of umlauts, accents, quotes
# and dashes whose UTF-8 was read as Latin-1 or Windows-1252. Behind a word in capitals such as "IRMÃ" a quote or a
# dash is genuine, so it is taken for the rest of a letter only where another follows; "—", the rest of "×", never.
_DAMAGE = regex.compile(
    r"\N{REPLACEMENT CHARACTER}|(?!\t)\p{Cc}|[ÃÂ][\x80-\xbf]|Ã[€ƒ†‡ˆ‰ŠŒŽ˜šœžŸ]|Ã[‚„…‘’“”•–™‹›](?=\p{L})|â€"
)
_WORD = regex.compile(LETTERS)
_LETTERS = regex.compile(r"\p{L}+")

# Up to so many words, or characters, are looked at as what may be repeated.
LONGEST_REPEATED = 4


@dataclass(frozen=True)
class PairLimits:
    """What a pair of sentences must meet to be kept. The defaults drop what is very seldom a translation.

    Attributes:
        unit: what lengths and repetitions are counted in: "words", separated by spaces, or "characters" other
            than spaces, for languages that are written without spaces.
        min_length: the minimum on each side.
        max_length: the maximum on each side.
        max_ratio: maximum ratio of the longer side to the shorter one.
        max_overlap: the largest share of the longer side's words that may be on the other side too, case and
            punctuation aside; 1 for any.
        max_repeats: how many times in a row a sequence of up to four words (or characters) may occur.
        source_script: the script of the source's letters by its Unicode name, such as "Latin" or "Cyrillic"; several
            joined with "+", such as "Han+Hiragana+Katakana"; None for any.
        target_script: likewise.
        min_script: the smallest share of letters that must be in the script.
        duplicates: whether duplicate pairs are kept.

    Raises:
        UserError: a value that is not allowed; the message names it and what is allowed.

    Example:
        >>> PairLimits(max_ratio=2.5, target_script="Cyrillic").max_length
        200
    """

    unit: str = "words"
    min_length: int = 1
    max_length: int = 200
    max_ratio: float = 3.0
    max_overlap: float = 0.75
    max_repeats: int = 4
    source_script: str | None = None
    target_script: str | None = None
    min_script: float = 0.5
    duplicates: bool = False

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise UserError(f"unit is {self.unit!r}; it must be {' or '.join(UNITS)}")
        for name, least, most in (
            ("min_length", 1, None),
            ("max_length", self.min_length, None),
            ("max_ratio", 1, None),
            ("max_overlap", 0, 1),
            ("max_repeats", 1, None),
            ("min_script", 0, 1),
        ):
            value = getattr(self, name)
            if not value >= least or (most is not None and value > most):
                limit = f"at least {least}" if most is None else f"from {least} to {most}"
                raise UserError(f"{name} is {value}; it must be {limit}")
        for script in (self.source_script, self.target_script):
            _letters_of(script)


class PairFilter:
    """Says of one pair after another whether it is kept, or why not.

    Reasons are checked in the order of `REASONS`, and the first that applies is reported.

    Args:
        limits: what a pair must meet.

    Attributes:
        counts: how many pairs were dropped for each reason; those kept are under "kept".

    Example:
        >>> pairs = PairFilter(PairLimits())
        >>> pairs.reason("A dog runs.", "Ein Hund läuft."), pairs.reason("A dog runs.", "a dog runs")
        (None, 'copied')
        >>> dict(pairs.counts)
        {'kept': 1, 'copied': 1}
    """

    def __init__(self, limits: PairLimits) -> None:
        self.limits = limits
        self.counts: Counter[str] = Counter()
        self._units = UNITS[limits.unit]
        self._source_letters, self._target_letters = map(_letters_of, (limits.source_script, limits.target_script))
        self._seen = Seen()

    def reason(self, source: str, target: str) -> str | None:
        """The reason to drop the next pair, one of `REASONS`; None where it is kept."""
        reason = self._first_reason(source, target)
        self.counts[reason or "kept"] += 1
        return reason

    def count(self, reason: str, pairs: int = 1) -> None:
        """Counts pairs that were dropped for one of `REASONS` before they could be filtered."""
        self.counts[reason] += pairs

    def as_dict(self) -> dict[str, Any]:
        """How many pairs came, how many were kept, and how many were dropped for each reason; as JSON has it."""
        dropped = {reason: self.counts[reason] for reason in REASONS if self.counts[reason]}
        return {"pairs": self.counts.total(), "kept": self.counts["kept"], "dropped": dropped}

    def _first_reason(self, source: str, target: str) -> str | None:
        limits = self.limits
        if _DAMAGE.search(source) or _DAMAGE.search(target):
            return "damaged"
        sides = self._units(source), self._units(target)
        shorter, longer = sorted(map(len, sides))
        if not shorter:
            return "empty"
        if shorter < limits.min_length:
            return "too_short"
        if longer > limits.max_length:
            return "too_long"
        if longer / shorter > limits.max_ratio:
            return "unlike_lengths"
        if limits.max_overlap < 1 and overlap(source, target) > limits.max_overlap:
            return "copied"
        if any(
            letters and script_share(text, letters) < limits.min_script
            for text, letters in ((source, self._source_letters), (target, self._target_letters))
        ):
            return "other_script"
        if any(is_repetitive(side, limits.max_repeats) for side in sides):
            return "repetitive"
        if not limits.duplicates and self._seen.add(source, target):
            return "duplicate"
        return None


def overlap(source: str, target: str, word: regex.Pattern = _WORD) -> float:
    """The share of the longer side's words that are on the other side too, each as often as it is there.

    Args:
        source: a text; case, accents' form and punctuation do not matter, unless there is nothing but punctuation.
        target: likewise.
        word: what matches a word.

    Example:
        >>> overlap("Tom is cool.", "Tom ist cool!")
        0.6666666666666666
    """
    texts = (unicodedata.normalize("NFC", text) for text in (source, target))
    words, others = (word.findall(text.casefold()) or [text] for text in texts)
    if set(words).isdisjoint(others):  # as nearly always
        return 0.0
    return (Counter(words) & Counter(others)).total() / max(len(words), len(others))


def script_share(text: str, letters: regex.Pattern) -> float:
    """The share of a text's letters that are of a script; 1 where there is no letter, of which nothing can be told."""
    count = sum(map(len, _LETTERS.findall(text)))
    return sum(map(len, letters.findall(text))) / count if count else 1.0


def is_repetitive(units: Sequence[str], most: int) -> bool:
    """Whether one to four units, such as words, come more than so many times in a row.

    Example:
        >>> is_repetitive("a b c a b c a b c".split(), 2), is_repetitive("a b a b a c".split(), 2)
        (True, False)
    """
    if len(units) - len(set(units)) < most:  # as nearly always
        return False
    for length in range(1, LONGEST_REPEATED + 1):
        run = 0  # units in a row that are what stands so many units before them
        for unit, before in zip(itertools.islice(units, length, None), units, strict=False):
            run = run + 1 if unit == before else 0
            if run >= length * most:
                return True
    return False


def _letters_of(script: str | None) -> regex.Pattern | None:
    """What matches the letters of a script, or of several."""
    if script is None:
        return None
    names = script.split("+")
    try:
        if not all(map(str.isidentifier, names)):
            raise regex.error("no name")
        # Extensions, since the script of "ー", which kana share, and of Arabic's tatweel is Common.
        any_of = "".join(rf"\p{{Script_Extensions={name}}}" for name in names)
        return regex.compile(rf"[[{any_of}]&&\p{{L}}]+", flags=regex.VERSION1)
    except regex.error:
        raise UserError(
            f"Unicode has no script called {script}; give a name such as Latin, Cyrillic, Greek, Arabic, Han or "
            "Hangul, or several, such as Han+Hiragana+Katakana"
        ) from None
