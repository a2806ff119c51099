"""The hypotheses of a beam search, as a translator's function `translate_with_search` records them."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

import tf_transformer as tt


class Hypothesis(NamedTuple):
    """What a search had at a step: its last token, and the place of its parent among the step before.

    `score` is that of one that has closed, else None; `wins` tells whether it became the best translation.
    """

    token: str
    log_probability: float
    parent: int
    score: float | None
    continued: bool
    wins: bool


def search(translator: tt.Translator, text: str, beam: int = 4, alpha: float = 0.6) -> list[list[Hypothesis]]:
    """The hypotheses of each step, likeliest first."""
    options = [tf.constant(value) for value in (beam, 1, alpha, 1, 0)]
    found = translator.functions["translate_with_search"](tf.constant([text]), tf.constant([""]), *options)
    names = "token", "log_probability", "parent", "token_score", "fate", "wins"
    steps = []
    for step in zip(*(found[name][0].numpy() for name in names), strict=True):
        hypotheses = []
        for token, log_probability, parent, score, fate, wins in zip(*step, strict=True):
            if fate:
                score = float(score) if fate == b"closed" else None
                told = token.decode(), float(log_probability), int(parent), score, fate == b"continued", bool(wins)
                hypotheses.append(Hypothesis(*told))
        steps.append(hypotheses)
    return steps
