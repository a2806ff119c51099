"""Plots a sweep: a panel for each metric, a line for each row, a dot for each seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tf_transformer.sweep.results import Row, digits_of

# Inches.
_ROW, _PANEL, _HEAD = 0.3, 3.2, 0.9
_DPI = 120


def plot_rows(rows: Sequence[Row], path: str | Path) -> Path:
    """Writes the picture.

    Args:
        rows: as `compare` gives them, of at least one run.
        path: where the PNG goes; what is there is overwritten.

    Returns:
        The path.
    """
    figures = list(dict.fromkeys(row.figure for row in rows))
    names = list(dict.fromkeys(row.row for row in rows))
    size = (_PANEL * len(figures) + 1.5, _ROW * len(names) + _HEAD)
    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(figures), sharey=True, squeeze=False)[0]
    for panel, name in zip(panels, figures, strict=True):
        for row in (row for row in rows if row.figure == name):
            place = names.index(row.row)
            values = list(row.values.values())
            panel.plot(values, [place] * len(values), "o", color="#1f5fa8", alpha=0.5, markersize=5)
            panel.plot([row.mean], [place], "|", color="black", markersize=14)
            if row.row == names[0]:
                panel.axvline(row.mean, color="#9aa5b1", linewidth=0.8, linestyle="--")
        low, high = panel.get_xlim()
        least = 10.0 ** -digits_of(name)  # what is shown as one number is drawn in one place
        if high - low < least:
            panel.set_xlim(low - least, high + least)
        panel.set_title(name.replace("_", " "), fontsize=10)
        panel.set_yticks(range(len(names)), names, fontsize=9)
        panel.tick_params(axis="x", labelsize=8)
        panel.grid(axis="x", alpha=0.3)
        panel.locator_params(axis="x", nbins=4)
    panels[0].set_ylim(len(names) - 0.5, -0.5)  # the first row at the top, and none on the frame
    figure.supxlabel("dot: a seed; bar: the mean; dashed line: the base", fontsize=8)
    figure.savefig(path)
    return Path(path)
