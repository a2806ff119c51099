"""Tables and a picture of what `layers.py` has measured."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Exponents of n and of d in Table 1, at a fixed batch; and the multiply-adds of a whole layer, projections included.
TABLE = {
    "self-attention": ((2, 1), lambda n, d, k, r: 4 * n * d**2 + 2 * n**2 * d),
    "restricted self-attention": ((1, 1), lambda n, d, k, r: 4 * n * d**2 + 2 * r * n * d),
    "LSTM": ((1, 2), lambda n, d, k, r: 8 * n * d**2),
    "GRU": ((1, 2), lambda n, d, k, r: 6 * n * d**2),
    "convolution": ((1, 2), lambda n, d, k, r: k * n * d**2),
    "dilated convolution": ((1, 2), lambda n, d, k, r: k * n * d**2),
}
KERNEL = 3
PATHS = {
    "self-attention": "1",
    "restricted self-attention": "n / r",
    "LSTM": "n",
    "GRU": "n",
    "convolution": "n / k",
    "dilated convolution": "log n",
}
COLOURS = {
    "self-attention": "#1f77b4",
    "restricted self-attention": "#17becf",
    "LSTM": "#d62728",
    "GRU": "#ff7f0e",
    "convolution": "#2ca02c",
    "dilated convolution": "#98df8a",
}
# A slope is that of lengths, or widths, from here on: below, what an operation costs at all is most of the time.
LONG = 256


def medians(result: dict[str, Any], what: str) -> dict[tuple[str, int, int], float]:
    """The median seconds by layer, n and d."""
    rows = (row for row in result["times"] if row["what"] == what)
    return {(row["layer"], row["n"], row["d"]): median(row["seconds"]) for row in rows}


def slope(xs: list[int], seconds: list[float]) -> float:
    """The exponent e of `seconds = c x^e`, fitted in logarithms."""
    return float(np.polyfit(np.log(xs), np.log(seconds), 1)[0])


def crossing(ns: list[int], first: list[float], second: list[float]) -> float | None:
    """The length from which the first takes longer, between two measured ones by straight lines in logarithms."""
    ratio = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    for i in range(len(ns) - 1):
        if ratio[i] < 0 <= ratio[i + 1]:
            share = -ratio[i] / (ratio[i + 1] - ratio[i])
            return math.exp(math.log(ns[i]) + share * math.log(ns[i + 1] / ns[i]))
    return None


def report(result: dict[str, Any]) -> str:
    """All tables, as Markdown."""
    batch, tokens = medians(result, "fixed batch"), medians(result, "fixed tokens")
    ns, ds = (sorted({key[place] for key in batch}) for place in (1, 2))
    reach = 2 * result["window"] + 1
    lines = ["## Milliseconds, forward and backward, fixed tokens", ""]
    lines += _header(["layer", "d", *(f"n {n:,}" for n in ns)])
    for name in TABLE:
        for d in ds:
            lines.append(_row([name, d, *(f"{1000 * tokens[name, n, d]:.1f}" for n in ns)]))
    lines += ["", "## Exponents, fixed batch: measured, that of the operations, that of the table", ""]
    lines += _header(
        ["layer", f"of n (d {ds[-1]})", "operations", "table", f"of d (n {ns[-1]:,})", "operations", "table"]
    )
    long, wide = [n for n in ns if n >= LONG] or ns, ds
    for name, ((of_n, of_d), operations) in TABLE.items():
        d, n = ds[-1], ns[-1]
        lines.append(
            _row(
                [
                    name,
                    f"{slope(long, [batch[name, n, d] for n in long]):.2f}",
                    f"{slope(long, [operations(n, d, KERNEL, reach) for n in long]):.2f}",
                    of_n,
                    f"{slope(wide, [batch[name, n, d] for d in wide]):.2f}",
                    f"{slope(wide, [operations(n, d, KERNEL, reach) for d in wide]):.2f}",
                    of_d,
                ]
            )
        )
    lines += ["", "## Length from which self-attention takes longer", ""]
    lines += _header(
        [
            "d",
            "than LSTM, fixed batch",
            "fixed tokens",
            "operations, 2d",
            "than GRU, fixed batch",
            "fixed tokens",
            "operations, d",
        ]
    )
    for d in ds:
        cells: list[Any] = [d]
        for other, operations in ("LSTM", 2 * d), ("GRU", d):
            for times in batch, tokens:
                found = crossing(ns, [times["self-attention", n, d] for n in ns], [times[other, n, d] for n in ns])
                cells.append("never" if found is None else f"{found:,.0f}")
            cells.append(f"{operations:,}")
        lines.append(_row(cells))
    lines += ["", "## Restricted self-attention at fixed tokens: time against that of n 512", ""]
    flat = [n for n in ns if n >= 512] or ns
    lines += _header(["d", *(f"n {n:,}" for n in flat)])
    for d in ds:
        first = tokens["restricted self-attention", flat[0], d]
        lines.append(_row([d, *(f"{tokens['restricted self-attention', n, d] / first:.2f}" for n in flat)]))
    lines += ["", "## Path from the first input to the last output of 64 positions", ""]
    lines += _header(["layer", "measured", "table"])
    lines += [_row([name, result["paths"][name], PATHS[name]]) for name in TABLE]
    machine = result["machine"]
    return "\n".join([*lines, "", f"{machine['cpu']}, {machine['threads']} threads.", ""])


def _header(cells: list[Any]) -> list[str]:
    return [_row(cells), _row(["---"] * len(cells))]


def _row(cells: list[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def draw(result: dict[str, Any]) -> Figure:
    """Draws time over length, a panel for each width, at fixed tokens above and at a fixed batch below."""
    ds = sorted({row["d"] for row in result["times"]})
    figure = Figure(figsize=(3.4 * len(ds), 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, len(ds), sharex=True, sharey="row", squeeze=False)
    for row, what in zip(panels, ("fixed tokens", "fixed batch"), strict=True):
        times = medians(result, what)
        ns = sorted({n for _, n, _ in times})
        for panel, d in zip(row, ds, strict=True):
            for name in TABLE:
                panel.plot(ns, [1000 * times[name, n, d] for n in ns], "o-", ms=3, color=COLOURS[name], label=name)
            panel.set(xscale="log", yscale="log", title=f"d {d}, {what}")
            panel.set_xticks(ns, [str(n) for n in ns], rotation=60, fontsize=7)
            panel.minorticks_off()
            panel.grid(alpha=0.3)
        row[0].set_ylabel("milliseconds, forward and backward")
    for panel in panels[-1]:
        panel.set_xlabel("length n")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
