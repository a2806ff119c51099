"""Which words of a sentence the words of its translation come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tf_transformer.inspection.pieces import CONTINUES, SHOWN_BLANK, shown
from tf_transformer.tokenizers.marks import BLANK, NO_TEXT

if TYPE_CHECKING:
    from tf_transformer.inspection.sentence import Inspection


class AlignedWord(NamedTuple):
    """A word of a translation, and the source's words that its tokens attend to most, in the source's order."""

    text: str
    sources: list[str]


def aligned_words(seen: Inspection) -> list[AlignedWord]:
    """Puts the tokens of a sentence and its translation together to words.

    Example:
        >>> from tf_transformer.inspection.sentence import Inspection
        >>> tokens = ["▁A", "▁green", "house", ".", "</s>"], ["▁Ein", "▁Gewächs", "haus", ".", "</s>"]
        >>> seen = Inspection("A greenhouse.", "Ein Gewächshaus.", *tokens, {}, [0, 1, 2, 3, 4], False)
        >>> for word in aligned_words(seen):
        ...     print(word.text, "←", *word.sources)
        Ein ← A
        Gewächshaus. ← greenhouse.
    """
    source, target = shown(seen.source_tokens, seen.target_tokens)
    source_words, word_of_source = _words(source)
    target_words, word_of_target = _words(target)
    found: list[set[int]] = [set() for _ in target_words]
    for word, aligned in zip(word_of_target, seen.alignment, strict=True):
        if word is not None and aligned >= 0 and word_of_source[aligned] is not None:
            found[word].add(word_of_source[aligned])
    return [
        AlignedWord(text, [source_words[index] for index in sorted(sources)])
        for text, sources in zip(target_words, found, strict=True)
    ]


def _words(tokens: Sequence[str]) -> tuple[list[str], list[int | None]]:
    """The words, and the word of each token; of a control token None."""
    words: list[str] = []
    places: list[int | None] = []
    for token in tokens:
        if token in NO_TEXT:
            places.append(None)
            continue
        if not words or not token.startswith(CONTINUES):
            words.append("")
        words[-1] += token.removeprefix(CONTINUES).strip(BLANK + SHOWN_BLANK)
        places.append(len(words) - 1)
    return words, places
