"""Which words of a text and its translation belong together, by tokens and in the form of the decoder Pharaoh."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from tf_transformer.tokenizers.spans import words_of_tokens

# Links of words in a line, as word aligners write them: `0-0 1-2`. Numbers of more digits count no words; Python takes
# none of very many for a number.
PHARAOH = re.compile(r"\d{1,9}-\d{1,9}(\s+\d{1,9}-\d{1,9})*")


def as_pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Links in the Pharaoh form.

    Example:
        >>> as_pharaoh([(0, 0), (1, 2)])
        '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in links)


def from_pharaoh(alignment: str) -> list[tuple[int, int]]:
    """The links of an alignment, the reverse of `as_pharaoh`.

    Example:
        >>> from_pharaoh("0-0 1-2")
        [(0, 0), (1, 2)]
    """
    pairs = (link.split("-") for link in alignment.split())
    return [(int(source), int(target)) for source, target in pairs]


def word_links(
    source: str,
    target: str,
    source_tokens: Sequence[str | bytes],
    target_tokens: Sequence[str | bytes],
    alignment: Sequence[int],
) -> list[tuple[int, int]]:
    """Which words of two texts belong together: those of which a token of one is aligned to a token of the other.

    Args:
        source: a text; its words are separated by whitespace.
        target: its translation.
        source_tokens: the source's tokens, as the vocabulary has them.
        target_tokens: those of the translation.
        alignment: for each of these the position of a source token, or -1.

    Returns:
        Positions of words in source and target, counted from 0, in order.

    Example:
        >>> tokens = ["▁A", "▁green", "house", ".", "</s>"], ["▁Ein", "▁Gewächs", "haus", ".", "</s>"]
        >>> word_links("A greenhouse.", "Ein Gewächshaus.", *tokens, [0, 1, 2, 3, 4])
        [(0, 0), (1, 1)]
    """
    source_words, target_words = (
        words_of_tokens(tokens, text) for tokens, text in ((source_tokens, source), (target_tokens, target))
    )
    return sorted(
        {
            (source_word, target_word)
            for words, place in zip(target_words, alignment, strict=True)
            if place >= 0
            for target_word in words
            for source_word in source_words[place]
        }
    )


def token_links(
    source_tokens: Sequence[str], source: str, target_tokens: Sequence[str], target: str, alignment: str
) -> np.ndarray:
    """Which tokens belong together: those with characters of words that do; the reverse of `word_links`.

    Args:
        source_tokens: the source's tokens, as the vocabulary has them; fewer than 65,536.
        source: what they are the tokens of.
        target_tokens: those of the target.
        target: likewise.
        alignment: of their words, in the Pharaoh form.

    Returns:
        uint32 (links,), in order: the place of a target token times 65,536, plus that of a source token.

    Example:
        >>> tokens = ["▁A", "▁green", "house"], "A greenhouse", ["▁Ein", "▁Gewächshaus"], "Ein Gewächshaus"
        >>> [(int(link) >> 16, int(link) & 0xFFFF) for link in token_links(*tokens, "1-1")]
        [(1, 1), (1, 2)]
    """
    if not alignment:
        return np.zeros(0, np.uint32)
    of_source, of_target = (
        _tokens_of_words(words_of_tokens(tokens, text))
        for tokens, text in ((source_tokens, source), (target_tokens, target))
    )
    links = {
        target_token << 16 | source_token
        for source_word, target_word in from_pharaoh(alignment)
        for source_token, target_token in product(of_source.get(source_word, ()), of_target.get(target_word, ()))
    }
    return np.array(sorted(links), np.uint32)


def _tokens_of_words(words: Iterable[range]) -> dict[int, list[int]]:
    """The tokens of each word, of the words of each token."""
    found: dict[int, list[int]] = {}
    for token, of_token in enumerate(words):
        for word in of_token:
            found.setdefault(word, []).append(token)
    return found
