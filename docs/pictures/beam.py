"""A beam search replayed with the whole model at each step, so that every hypothesis it ever had can be shown."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import tf_transformer as tt

START, END = 2, 3


class Hypothesis(NamedTuple):
    """What a search had at a step.

    `parent` is its place among the hypotheses of the step before; `score` is that of one that has closed, else None.
    """

    tokens: tuple[int, ...]
    log_probability: float
    parent: int
    score: float | None


def penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by (Wu et al., 2016)."""
    return ((5 + length) / 6) ** alpha


def replay(translator: tt.Translator, text: str, beam: int = 4, alpha: float = 0.6) -> list[list[Hypothesis]]:
    """The hypotheses of each step, likeliest first, until no live one can beat the best that has closed."""
    source = translator.tokenizers.source.tokenize([text])[0].numpy()
    source = np.array([[*source, END]])
    limit = min(source.shape[1] + 50, translator.model.max_length)
    live = [Hypothesis((START,), 0.0, -1, None)]
    steps, best = [], -np.inf
    while live and len(steps) < limit:
        # A hypothesis's place among all of the last step's, those that have closed among them.
        places = [place for place, each in enumerate(steps[-1]) if each.score is None] if steps else [0]
        targets = np.array([each.tokens for each in live])
        logits = np.array(translator.model((np.repeat(source, len(live), axis=0), targets)), "float64")[:, -1]
        highest = logits.max(axis=1, keepdims=True)
        gains = logits - highest - np.log(np.exp(logits - highest).sum(axis=1, keepdims=True))
        gains[:, 0] = -np.inf  # padding
        totals = gains + np.array([[each.log_probability] for each in live])
        step = []
        for place in np.argsort(-totals, axis=None, kind="stable")[:beam]:
            row, token = np.unravel_index(place, totals.shape)
            score = totals[row, token] / penalty(len(steps) + 1, alpha) if token == END else None
            step.append(Hypothesis((*live[row].tokens, int(token)), float(totals[row, token]), places[row], score))
        steps.append(step)
        best = max([best, *(each.score for each in step if each.score is not None)])
        live = [each for each in step if each.score is None]
        if live and live[0].log_probability / penalty(limit, alpha) <= best:
            break
    return steps


def winner(steps: list[list[Hypothesis]]) -> Hypothesis:
    """The closed hypothesis of the highest score."""
    return max((each for step in steps for each in step if each.score is not None), key=lambda each: each.score)
