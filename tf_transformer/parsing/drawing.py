"""Draws trees as text for a terminal, as an image and as an HTML page.

All three lay the sentence out from top to bottom, a word a line, and let the constituents grow from left to right: so
a sentence of any length keeps the width of a page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tf_transformer.parsing.tree import LEAF, OPEN, Leaf, Tree
from tf_transformer.tokenizers.marks import WORD

# Inches in a picture, at so many dots; pixels of a page are 1/96 of them.
_ROW, _COLUMN, _MARGIN = 0.24, 0.85, 0.2
_ELBOW = 0.85  # of a column: where a line turns to the children
_DPI = 120
_MOST_DOTS = 30_000  # a side; beyond, matplotlib refuses
_PIXELS = 96

_LINE_COLOUR, _LABEL_COLOUR, _TAG_COLOUR = "#9aa5b1", "#1f5fa8", "#7b8794"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>Trees</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }}
section {{ margin-bottom: 2.5rem; overflow-x: auto; }}
h2 {{ font-size: 1rem; font-weight: normal; max-width: 60rem; }}
svg {{ font-size: 13px; fill: currentColor; }}
path {{ stroke: #9aa5b1; fill: none; }}
.label {{ font-weight: 600; fill: light-dark(#1f5fa8, #7db4f0); }}
.tag {{ fill: light-dark(#616e7c, #9aa5b1); }}
</style>
</head>
<body>
<h1>Trees</h1>
{sections}
</body>
</html>
"""


def draw_text(tree: Tree) -> str:
    """Draws a tree for a terminal.

    A constituent of words alone takes one line. Tags are shown after their words, except for `XX`, which says nothing.

    Args:
        tree: The tree.

    Returns:
        Lines, without a newline at the end.

    Example:
        >>> from tf_transformer.parsing import read_tree
        >>> print(draw_text(read_tree("(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (PRP it))) (. .))")))
        S
        ├── NP  The/DT dog/NN
        ├── VP
        │   ├── sees/VBZ
        │   └── NP  it/PRP
        └── ./.
    """
    lines = []
    waiting: list[tuple[str, str, Tree | Leaf]] = [("", "", tree)]  # what stands before it and what it holds, and it
    while waiting:
        before, inside, node = waiting.pop()
        if isinstance(node, Leaf):
            lines.append(before + _tagged(node))
        elif all(isinstance(child, Leaf) for child in node.children):
            lines.append(f"{before}{node.label}  {' '.join(map(_tagged, node.children))}")
        else:
            lines.append(before + node.label)
            *others, last = node.children
            waiting.append((inside + "└── ", inside + "    ", last))
            waiting.extend((inside + "├── ", inside + "│   ", child) for child in reversed(others))
    return "\n".join(lines)


def _tagged(leaf: Leaf) -> str:
    return leaf.word if leaf.tag == WORD else f"{leaf.word}/{leaf.tag}"


def plot_tree(tree: Tree, path: str | Path) -> Path:
    """Writes a picture of a tree as a PNG file.

    Args:
        tree: The tree.
        path: Where the PNG goes; what is there is overwritten.

    Returns:
        The path of the picture.

    Example:
        >>> from tempfile import mkdtemp
        >>> from tf_transformer.parsing import read_tree
        >>> plot_tree(read_tree("(S (NP (NNS Dogs)) (VP (VBP bark)))"), f"{mkdtemp()}/tree.png").name
        'tree.png'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from tf_transformer.inspection.fonts import choose_fonts, escape, font_of

    places = _lay_out(tree)
    families, missing = choose_fonts(text for place in places for text in (place.text, place.tag))
    font = font_of(*families)
    width = _word_column(places) * _COLUMN + 0.1 * _longest(places) + 3 * _MARGIN
    height = len(tree.words()) * _ROW + 2 * _MARGIN
    figure = Figure(figsize=(width, height), dpi=min(_DPI, _MOST_DOTS / max(width, height)))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(-_MARGIN, width - _MARGIN), ylim=(height - _MARGIN, -_MARGIN))
    axes.axis("off")
    style = {"fontfamily": families, "parse_math": False}
    for place in places:
        x, y = place.column * _COLUMN, (place.row + 0.5) * _ROW
        if place.parent:
            parent_x, parent_y = place.parent.column * _COLUMN, (place.parent.row + 0.5) * _ROW
            elbow = parent_x + _ELBOW * _COLUMN
            axes.plot([parent_x, elbow, elbow, x], [parent_y, parent_y, y, y], color=_LINE_COLOUR, lw=0.8, zorder=1)
        # Lines end at the labels, which hide what is behind them.
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        look = {"color": "black"} if place.is_word else {"color": _LABEL_COLOUR, "fontweight": "bold"}
        text = axes.text(x, y, escape(place.text, missing, font), va="center", fontsize=9, bbox=ground, **look, **style)
        if place.tag:
            tag = escape(place.tag, missing, font)
            beside = {"xy": (1, 0.5), "xycoords": text, "xytext": (6, 0), "textcoords": "offset points"}
            axes.annotate(tag, **beside, va="center", fontsize=7, color=_TAG_COLOUR, **style)
    path = Path(path)
    figure.savefig(path, format="png")
    return path


def write_page(path: str | Path, trees: Sequence[Tree]) -> Path:
    """Writes trees as a page of their own: one HTML file that needs no network.

    Args:
        path: Where the page goes; what is there is overwritten.
        trees: The trees.

    Returns:
        The path of the page.

    Example:
        >>> from tempfile import mkdtemp
        >>> from tf_transformer.parsing import read_tree
        >>> write_page(f"{mkdtemp()}/trees.html", [read_tree("(S (NP (NNS Dogs)) (VP (VBP bark)))")]).name
        'trees.html'
    """
    path = Path(path)
    sections = "\n".join(
        f"<section>\n<h2>{html.escape(' '.join(tree.words()))}</h2>\n{_svg(tree)}\n</section>" for tree in trees
    )
    path.write_text(_PAGE.format(sections=sections), encoding="utf-8")
    return path


def _svg(tree: Tree) -> str:
    places = _lay_out(tree)
    column, row, margin = (round(length * _PIXELS) for length in (_COLUMN, _ROW, _MARGIN))
    lines, texts = [], []
    for place in places:
        x, y = margin + place.column * column, margin + round((place.row + 0.5) * row)
        if place.parent:
            parent_x, parent_y = margin + place.parent.column * column, margin + round((place.parent.row + 0.5) * row)
            elbow = parent_x + round(_ELBOW * column)
            # From behind the label, whose width is an estimate.
            lines.append(f"M{min(parent_x + 9 * len(place.parent.text) + 3, elbow)} {parent_y}H{elbow}V{y}H{x - 3}")
        tag = f'<tspan class="tag" dx="8">{html.escape(place.tag)}</tspan>' if place.tag else ""
        kind = "word" if place.is_word else "label"
        texts.append(f'<text class="{kind}" x="{x}" y="{y + 4}">{html.escape(place.text)}{tag}</text>')
    width = _word_column(places) * column + 11 * _longest(places) + 2 * margin
    height = len(tree.words()) * row + 2 * margin
    drawing = "\n".join([f'<path d="{"".join(lines)}"/>', *texts])
    return f'<svg width="{width}" height="{height}" role="img">\n{drawing}\n</svg>'


@dataclass(slots=True)
class _Place:
    """Where a constituent or a word stands: columns to the right, rows downward."""

    text: str
    tag: str
    is_word: bool
    parent: _Place | None
    column: int
    row: float


def _lay_out(tree: Tree) -> list[_Place]:
    """Gives each word a row, all words one column, and each constituent the middle of its children's rows."""
    places: list[_Place] = []
    path: list[tuple[_Place, list[_Place]]] = []  # the constituents that are open, with their children
    words = 0

    def put(place: _Place) -> None:
        places.append(place)
        if path:
            path[-1][1].append(place)

    for kind, node in tree.walk():
        parent = path[-1][0] if path else None
        if kind is OPEN:
            put(place := _Place(node.label, "", False, parent, len(path), 0))
            path.append((place, []))
        elif kind is LEAF:
            put(_Place(node.word, "" if node.tag == WORD else node.tag, True, parent, 0, words))
            words += 1
        else:
            place, children = path.pop()
            place.row = (children[0].row + children[-1].row) / 2
    column = _word_column(places)
    for place in places:
        if place.is_word:
            place.column = column
    return places


def _word_column(places: list[_Place]) -> int:
    return 1 + max(place.column for place in places if not place.is_word)


def _longest(places: list[_Place]) -> int:
    """How many characters the longest word has, with its tag."""
    return max(len(place.text) + len(place.tag) for place in places if place.is_word)
