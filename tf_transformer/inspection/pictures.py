"""Pictures of attention: a panel for each head, source tokens across, target tokens down."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from tf_transformer.inspection.fonts import choose_fonts, escape, font_of
from tf_transformer.inspection.pieces import shown

if TYPE_CHECKING:
    from tf_transformer.inspection.sentence import Inspection

_DPI = 120
_PANELS_A_ROW = 4

# Inches. A cell holds one line of label text; past _MAX_LABELS tokens the panel stops growing.
_CELL = 0.2
_MIN_PANEL = 1.0
_GAP = 0.2
_COLOUR_BAR = 0.15
_COLOUR_BAR_LABELS = 0.55

# Characters and tokens.
_MAX_LABELS = 60
_MAX_LABEL_LENGTH = 30
_TITLE_WIDTH = 100

_FAINT = "#59606b"


def plot_attention(
    attention: Any,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | Path,
    title: str | None = None,
) -> Path:
    """Writes a picture of one sentence's attention weights as a PNG file.

    Args:
        attention: float array or tensor of shape (heads, target_len, source_len), values 0 to 1.
        source_tokens: the `source_len` tokens that are attended to.
        target_tokens: the `target_len` tokens that attend.
        path: where to write the PNG; an existing file is overwritten.
        title: text above the panels, of one line or several.

    Returns:
        The path of the picture.

    Raises:
        ValueError: the shape of `attention` does not fit the tokens, or its values are not weights.

    Example:
        >>> import tempfile
        >>> weights = [[[0.9, 0.1], [0.2, 0.8]]]
        >>> folder = tempfile.mkdtemp()
        >>> plot_attention(weights, ["a", "dog"], ["ein", "Hund"], f"{folder}/attention.png").name
        'attention.png'
    """
    path = Path(path)
    figure = draw_attention(attention, source_tokens, target_tokens, title)
    figure.savefig(path, format="png", dpi=_DPI)
    return path


def plot_inspection(inspection: Inspection, path: str | Path) -> Path:
    """Writes a picture of the last layer's encoder-decoder attention, all heads, as a PNG file.

    Args:
        inspection: as `tf_transformer.inspection.inspect` gives it.
        path: where to write the PNG; an existing file is overwritten.

    Returns:
        The path of the picture.
    """
    path = Path(path)
    draw_inspection(inspection).savefig(path, format="png", dpi=_DPI)
    return path


def draw_inspection(inspection: Inspection) -> Figure:
    """Draws what `plot_inspection` writes."""
    cross = inspection.attention["cross"][-1]
    title = (
        f"Encoder-decoder attention, layer {len(inspection.attention['cross'])} (the last)\n"
        f"source: {_line(inspection.source)}\n"
        f"translation: {_line(inspection.translation)}"
    )
    return draw_attention(cross, inspection.source_tokens, inspection.target_tokens, title)


def draw_attention(
    attention: Any, source_tokens: Sequence[str], target_tokens: Sequence[str], title: str | None = None
) -> Figure:
    """Draws what `plot_attention` writes.

    Args:
        attention: float array or tensor of shape (heads, target_len, source_len), values 0 to 1.
        source_tokens: the `source_len` tokens that are attended to.
        target_tokens: the `target_len` tokens that attend.
        title: text above the panels, of one line or several.

    Returns:
        A figure with an Axes for each head, in order, and one more for the colour bar.

    Raises:
        ValueError: the shape of `attention` does not fit the tokens, or its values are not weights.

    Example:
        >>> figure = draw_attention([[[0.9, 0.1], [0.2, 0.8]]], ["a", "dog"], ["ein", "Hund"])
        >>> [axes.get_title() for axes in figure.axes]
        ['head 1', '']
    """
    weights = _check_weights(attention, len(source_tokens), len(target_tokens))
    source_texts, target_texts = shown(source_tokens, target_tokens)
    texts = [*source_texts, *target_texts, title or ""]
    # parse_math: a "$" is a token like any other, not the start of a formula.
    families, missing = choose_fonts(texts)
    font = font_of(*families)
    style = {"fontfamily": families, "parse_math": False}
    source_labels = [_shorten(escape(token, missing, font)) for token in source_texts]
    target_labels = [_shorten(escape(token, missing, font)) for token in target_texts]

    # Figure and canvas by hand: pyplot would keep every figure in a global list and pick a display.
    figure = Figure(dpi=_DPI)
    FigureCanvasAgg(figure)
    panels = []
    for head, head_weights in enumerate(weights, start=1):
        panel = figure.add_axes((0, 0, 1, 1), label=f"head {head}")
        image = panel.imshow(head_weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="none")
        panel.set_title(f"head {head}", fontsize=9, **style)
        panel.set_xlabel("source, attended to", fontsize=8, color=_FAINT, **style)
        panel.set_ylabel("translation, attends", fontsize=8, color=_FAINT, **style)
        _label(panel, source_labels, target_labels, style)
        panels.append(panel)
    bar = figure.add_axes((0, 0, 1, 1), label="colour bar")
    figure.colorbar(image, cax=bar, ticks=[0, 0.5, 1])
    bar.tick_params(labelsize=8, length=2)
    bar.set_ylabel("weight", fontsize=8, color=_FAINT, **style)
    heading = None
    if title:
        given = [escape(_line(line), missing, font) for line in title.splitlines()]
        lines = [part for line in given for part in textwrap.wrap(line, _TITLE_WIDTH)]
        heading = figure.text(0, 0, "\n".join(lines), fontsize=10, va="top", **style)
    _arrange(figure, panels, bar, heading)
    return figure


def _check_weights(attention: Any, source_length: int, target_length: int) -> np.ndarray:
    weights = np.asarray(attention, dtype=np.float32)
    expected = f"(heads, {target_length}, {source_length})"
    if weights.ndim != 3 or weights.shape[1:] != (target_length, source_length) or weights.size == 0:
        raise ValueError(
            f"attention has shape {weights.shape}; expected {expected}, with at least one head and one token "
            f"a side: there are {target_length} target tokens and {source_length} source tokens"
        )
    # Written so that NaN, which compares false, is refused too.
    # A softmax may be a rounding error above 1.
    if not ((weights >= 0) & (weights <= 1.001)).all():
        raise ValueError(
            f"attention holds values from {weights.min():g} to {weights.max():g}; "
            "expected weights, the softmax's output, from 0 to 1"
        )
    return weights


def _line(text: str) -> str:
    return " ".join(text.split())


def _shorten(label: str) -> str:
    return label if len(label) <= _MAX_LABEL_LENGTH else label[: _MAX_LABEL_LENGTH - 1] + "…"


def _label(panel: Axes, source_labels: list[str], target_labels: list[str], style: dict[str, Any]) -> None:
    """Labels each row and column, or past `_MAX_LABELS` of them every second, third..."""
    x_step = -(-len(source_labels) // _MAX_LABELS)
    y_step = -(-len(target_labels) // _MAX_LABELS)
    panel.set_xticks(
        range(0, len(source_labels), x_step),
        source_labels[::x_step],
        rotation=45,
        ha="right",
        va="center",
        rotation_mode="anchor",
        **style,
    )
    panel.set_yticks(range(0, len(target_labels), y_step), target_labels[::y_step], **style)
    panel.tick_params(labelsize=8, length=2, pad=5)


def _arrange(figure: Figure, panels: list[Axes], bar: Axes, heading: Text | None) -> None:
    """Sizes the figure to hold the panels in rows with all of their labels, and puts them in their places."""
    target_length, source_length = panels[0].images[0].get_array().shape
    width = min(max(source_length * _CELL, _MIN_PANEL), _MAX_LABELS * _CELL)
    height = min(max(target_length * _CELL, _MIN_PANEL), _MAX_LABELS * _CELL)

    # A panel still fills the figure: what sticks out is the room its labels and title take.
    figure.set_size_inches(width, height)
    renderer = figure.canvas.get_renderer()
    outline = panels[-1].get_tightbbox(renderer).transformed(figure.dpi_scale_trans.inverted())
    left, below, right, above = -outline.x0, -outline.y0, outline.x1 - width, outline.y1 - height
    column_width = left + width + right + _GAP
    row_height = above + height + below + _GAP

    rows = -(-len(panels) // _PANELS_A_ROW)
    columns = -(-len(panels) // rows)
    total_width = _GAP + columns * column_width + _COLOUR_BAR + _COLOUR_BAR_LABELS
    total_height = _GAP + rows * row_height
    if heading:
        extent = heading.get_window_extent(renderer)
        heading_height = extent.height / figure.dpi + _GAP
        total_width = max(total_width, extent.width / figure.dpi + 2 * _GAP)
        total_height += heading_height
        top = total_height - heading_height
        heading.set_position((_GAP / total_width, 1 - _GAP / total_height))
    else:
        top = total_height
    figure.set_size_inches(total_width, total_height)

    def place(axes: Axes, x: float, y: float, axes_width: float) -> None:
        axes.set_position((x / total_width, y / total_height, axes_width / total_width, height / total_height))

    first_row = top - _GAP - above - height
    for index, panel in enumerate(panels):
        row, column = divmod(index, columns)
        place(panel, _GAP + column * column_width + left, first_row - row * row_height, width)
    place(bar, _GAP + columns * column_width, first_row, _COLOUR_BAR)
