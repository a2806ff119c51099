"""The scores of several sets side by side, those before a fine-tuning beside those after it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# Of scores.json, with their digits; a parser has F1 in place of BLEU and chrF.
FIGURES = {"BLEU": ("bleu", 2), "chrF": ("chrf", 2), "F1": ("f1", 2), "perplexity": ("perplexity", 3)}


def in_short(scores: Mapping[str, Any]) -> str:
    """The figures of one set, in a line.

    Example:
        >>> in_short({"bleu": 31.456, "perplexity": 6.2})
        'BLEU 31.46, perplexity 6.200'
    """
    return ", ".join(f"{name} {shown(scores[key], digits)}" for name, (key, digits) in FIGURES.items() if key in scores)


def shown(figure: float | None, digits: int) -> str:
    """A figure with so many digits. One that is not finite is None in `scores.json`.

    Example:
        >>> shown(6.2, 3), shown(None, 3)
        ('6.200', 'not finite')
    """
    return "not finite" if figure is None or not math.isfinite(figure) else f"{figure:.{digits}f}"


def score_table(scores: Mapping[str, Any]) -> list[list[str]]:
    """The rows of a table of all that a training scored at its end, the first with the columns' names.

    Args:
        scores: what `scores.json` holds.

    Returns:
        A row for each set; empty where there is one set alone, and nothing to compare its figures with.

    Example:
        >>> scores = {"set": "test", "sentences": 1000, "bleu": 35.0}
        >>> before = {"test": {"bleu": 12.0}, "old": {"bleu": 40.0}}
        >>> for row in score_table({**scores, "also": {"old": {"sentences": 50, "bleu": 38.5}}, "before": before}):
        ...     print(row)
        ['set', 'sentences', 'BLEU before', 'BLEU after']
        ['test', '1,000', '12.00', '35.00']
        ['old', '50', '40.00', '38.50']
    """
    if not scores.keys() & {"also", "before"}:
        return []
    sets = {scores["set"]: scores, **scores.get("also", {})}
    columns = [("set", lambda name: name), ("sentences", lambda name: f"{sets[name]['sentences']:,}")]
    times = {" before": scores["before"], " after": sets} if "before" in scores else {"": sets}
    for title, (key, digits) in FIGURES.items():
        for when, of_sets in times.items():
            if any(key in of_set for of_set in of_sets.values()):
                columns.append((title + when, lambda name, each=of_sets, k=key, d=digits: _cell(each, name, k, d)))
    return [[title for title, _ in columns], *([value(name) for _, value in columns] for name in sets)]


def aligned(table: list[list[str]]) -> list[str]:
    """The lines of a table in plain text: the first column to the left, the others to the right.

    Example:
        >>> aligned([["set", "BLEU"], ["news", "8.00"]])
        ['set    BLEU', 'news   8.00']
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "   ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in table)
    ]


def _cell(of_sets: Mapping[str, Any], name: str, key: str, digits: int) -> str:
    scores = of_sets.get(name, {})
    return shown(scores[key], digits) if key in scores else "-"
