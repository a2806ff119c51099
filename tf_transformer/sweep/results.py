"""The scores of a sweep's runs, row by row, with their uncertainty."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from tf_transformer.errors import UserError

# What a sweep writes to its folder: the table after each training, the picture at its end.
TABLE, PICTURE = "results.csv", "results.png"

# The figures of a run's scores.json that are compared, with their digits; those that it has not are left out.
FIGURES = {"bleu": 2, "f1": 2, "perplexity": 3, "training_seconds": 0}
OF_ALL_SETS = ("bleu", "f1")  # these of the sets of `evaluation.also` too, as "bleu on NAME"

# (row, seed) -> the run's scores
Scores = Mapping[tuple[str, int], Mapping[str, Any]]


class Row(NamedTuple):
    """One figure of one row of a sweep, over its seeds.

    Attributes:
        row: the row's name.
        figure: "bleu", "f1", "perplexity" or "training_seconds"; "bleu on NAME" of another set that was scored.
        values: the figure of each seed that has been trained, by seed.
        mean: their mean.
        deviation: their standard deviation (n - 1); None for a single one, or where one is infinite, as the perplexity
            of a model that has gone astray may be.
        difference: the mean difference from the base row, over the seeds that both have; None of the base itself, and
            where it is no number, as that of two infinite ones.
        difference_deviation: the standard deviation of these differences; None where `deviation` would be.
    """

    row: str
    figure: str
    values: dict[int, float]
    mean: float
    deviation: float | None
    difference: float | None
    difference_deviation: float | None


def compare(scores: Scores, rows: Sequence[str]) -> list[Row]:
    """Compares the rows of a sweep; the first is the base.

    A seed decides how a run starts, so runs of one seed are compared with each other: the
    deviation of their differences is often smaller than that of the figures.

    Args:
        scores: those of each run that has ended.
        rows: the rows' names, in order.

    Returns:
        For each figure, each row that has a run.

    Example:
        >>> scores = {("base", 1): {"bleu": 30.0}, ("base", 2): {"bleu": 32.0}}
        >>> scores |= {("wide", 1): {"bleu": 31.0}, ("wide", 2): {"bleu": 33.5}}
        >>> base, wide = compare(scores, ["base", "wide"])
        >>> wide.mean, wide.difference, round(wide.difference_deviation, 3)
        (32.25, 1.25, 0.354)
    """
    found = []
    figures = {run: _figures(each) for run, each in scores.items()}
    names = dict.fromkeys(name for each in figures.values() for name in each)
    for figure in sorted(names, key=lambda name: list(FIGURES).index(name.split()[0])):
        of_row = {
            row: {seed: each[figure] for (name, seed), each in figures.items() if name == row and figure in each}
            for row in rows
        }
        base = of_row[rows[0]]
        for row, values in of_row.items():
            if not values:
                continue
            differences = [values[seed] - base[seed] for seed in values if seed in base] if row != rows[0] else []
            found.append(
                Row(
                    row,
                    figure,
                    values,
                    mean(values.values()),
                    _deviation(list(values.values())),
                    _difference(differences),
                    _deviation(differences),
                )
            )
    return found


def digits_of(figure: str) -> int:
    """With how many digits a figure of a `Row` is shown."""
    return FIGURES[figure.split()[0]]


def in_words(scores: Mapping[str, Any]) -> str:
    """The figures of a run in a line."""
    return ", ".join(f"{name} {value:,.{digits_of(name)}f}" for name, value in _figures(scores).items())


def _figures(scores: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a run that are compared, by name; infinite where `scores.json` has null, as no finite number."""
    figures = {name: scores[name] for name in FIGURES if name in scores}
    for other, each in scores.get("also", {}).items():
        figures |= {f"{name} on {other}": each[name] for name in OF_ALL_SETS if name in each}
    return {name: math.inf if value is None else value for name, value in figures.items()}


def _difference(values: list[float]) -> float | None:
    found = mean(values) if values else math.nan
    return None if math.isnan(found) else found


def _deviation(values: list[float]) -> float | None:
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def as_csv(rows: Sequence[Row]) -> str:
    """The comparison as CSV, a line for each figure of each row."""
    seeds = sorted({seed for row in rows for seed in row.values})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["row", "figure", "mean", "deviation", "difference", "difference_deviation", *(f"seed{s}" for s in seeds)]
    )
    for row in rows:
        figures = row.mean, row.deviation, row.difference, row.difference_deviation
        values = [row.values.get(seed) for seed in seeds]
        writer.writerow([row.row, row.figure, *("" if x is None else f"{x:.6g}" for x in (*figures, *values))])
    return text.getvalue()


def check_results(folder: Path, rows: Sequence[str]) -> None:
    """Raises a UserError where a folder has results that those of a sweep of these rows do not contain.

    Args:
        folder: the sweep's folder, which need not be there.
        rows: the rows' names.

    Example:
        >>> check_results(Path("runs/none"), ["base", "wide"])
    """
    table, picture = folder / TABLE, folder / PICTURE
    found = table if table.exists() else picture
    if found.exists() and not (table.exists() and _rows_of(table) <= set(rows)):
        raise UserError(
            f"{found}: not from this sweep's rows, so it was not changed; move it away, or give another "
            "folder with --run-dir"
        )


def _rows_of(table: Path) -> set[str | None]:
    """The names of the rows in a table; None among them where it is no sweep's."""
    try:
        with table.open(encoding="utf-8", newline="") as file:
            return {line.get("row") for line in csv.DictReader(file)}
    except (OSError, ValueError, csv.Error):
        return {None}
