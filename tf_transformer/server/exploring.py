"""What the signatures that look into a translation give, as the page reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transformer.server.requests import Refusal

# A word of more tokens is looked into up to here.
MOST_TOKENS = 12
MOST_IDS = 4096


def prefixes_of(ids: Any, start: Any, end: Any) -> np.ndarray:
    """What comes before each token from `start` to `end`, one row each, padded with 0.

    Args:
        ids: a translation's ids.
        start: the place of the first token that another could stand for.
        end: the place behind the last.

    Raises:
        Refusal: they are no such thing.

    Example:
        >>> prefixes_of([5, 6, 7, 3], 1, 3).tolist()
        [[5, 0], [5, 6]]
    """
    whole = isinstance(ids, list) and len(ids) <= MOST_IDS and all(type(each) is int for each in [*ids, start, end])
    if not whole or not 0 <= start < end <= len(ids) or any(not 0 <= each < 2**31 for each in ids):
        raise Refusal(400, "ids must be a list of token ids, and start and end places in it")
    rows = [ids[:place] for place in range(start, min(end, start + MOST_TOKENS))]
    padded = np.zeros((len(rows), len(rows[-1])), np.int32)
    for row, prefix in zip(padded, rows, strict=True):
        row[: len(prefix)] = prefix
    return padded


def as_words(found: dict[str, np.ndarray], chosen: Sequence[int]) -> list[dict[str, Any]]:
    """The likeliest other ways to write a word, and the word itself.

    Another word can part from the chosen one at each of its tokens. Its probability is that of the tokens up to there,
    the first that differs included.

    Args:
        found: what `next_tokens` gives behind each prefix of the word.
        chosen: the word's own tokens.

    Returns:
        Likeliest first: "translation", how it goes on; "probability"; and whether the sentence "ends" here.
    """
    from tf_transformer.tokenizers.base import END_ID  # which imports TensorFlow

    words, before = [], 1.0
    rows = zip(found["id"], found["probability"], found["translation"], chosen, strict=False)
    last = len(found["id"]) - 1
    for row, (ids, probabilities, translations, own) in enumerate(rows):
        for token, probability, translation in zip(ids.tolist(), probabilities, translations, strict=True):
            if token != own or row == last:
                told = {"translation": translation.decode("utf-8", "replace"), "ends": token == END_ID}
                words.append({**told, "probability": float(before * probability)})
        # A token that a beam search chose may be none of the likeliest: it is less likely than they are.
        own_place = np.flatnonzero(ids == own)
        before *= float(probabilities[own_place[0]] if own_place.size else probabilities[-1])
    return sorted(words, key=lambda word: -word["probability"])


def as_steps(found: dict[str, np.ndarray]) -> list[list[dict[str, Any]]]:
    """The hypotheses of each step of the first row's search, likeliest first.

    Args:
        found: what `translate_with_search` gives.
    """
    names = "token", "parent", "log_probability", "token_score", "highest_score", "fate", "wins"
    steps = []
    for step in zip(*(found[name][0] for name in names), strict=True):
        hypotheses = []
        for token, parent, log_probability, score, highest, fate, wins in zip(*step, strict=True):
            if fate:
                hypotheses.append(
                    {
                        "token": token.decode("utf-8", "replace"),
                        "parent": int(parent),
                        "logProbability": float(log_probability),
                        "score": float(score),
                        "highest": float(highest),
                        "fate": fate.decode(),
                        "wins": bool(wins),
                    }
                )
        steps.append(hypotheses)
    return steps
