"""Chooses installed fonts for plots, and replacements for characters that no font has."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

# Comes with matplotlib, so it is always there; the other fonts are asked only for what it lacks.
MAIN_FONT = "DejaVu Sans"


def choose_fonts(texts: Iterable[str]) -> tuple[list[str], set[str]]:
    """Finds installed font families that hold the texts together, and the characters none of them holds."""
    # What is not printable (controls, direction marks, joiners) would be invisible or move its neighbours.
    characters = {c for c in "".join(texts) if c != " "}
    unprintable = {c for c in characters if not c.isprintable()}
    missing = characters - unprintable
    fonts = font_manager.fontManager.ttflist
    installed = {font.name for font in fonts if font.style == "normal" and font.weight == 400}
    # The "last resort" fonts claim every character and draw a placeholder.
    others = sorted(name for name in installed if "lastresort" not in name.replace(" ", "").lower())
    families = []
    for family in [MAIN_FONT, *others]:
        if families and not missing:
            break
        font = font_of(family)
        held = {c for c in missing if font.get_char_index(ord(c))}
        # The main font is always there: it also draws the escapes, the ellipsis and the numbers of the heads.
        if held or family == MAIN_FONT:
            families.append(family)
            missing -= held
    return families, missing | unprintable


def font_of(*families: str) -> FT2Font:
    """Looked up by family, as matplotlib will: of each one file is drawn with, and what it lacks with the next."""
    files = [font_manager.findfont(font_manager.FontProperties(family=[family])) for family in families]
    return font_manager.get_font(files)


def escape(text: str, missing: set[str], font: FT2Font) -> str:
    r"""The text with Python's escapes, such as \uac15, for the characters that cannot be drawn."""
    shown = "".join(c.encode("unicode_escape").decode() if c in missing else c for c in text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            font.set_text(shown)
        except UserWarning:  # a letter and a mark on it are one drawing, and no font has them both
            return shown.encode("ascii", "backslashreplace").decode()
    return shown
