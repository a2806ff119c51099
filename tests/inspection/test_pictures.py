"""The attention picture: what it shows, cell by cell, and that every token can be read."""

import itertools
import logging
import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib import font_manager
from matplotlib.image import imread

from tf_transformer.inspection.pictures import draw_attention, draw_inspection, plot_attention
from tf_transformer.inspection.sentence import Inspection

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def bundled_fonts(monkeypatch):
    """Only the fonts that come with matplotlib, so that a test does not hang on the machine's."""
    bundled = matplotlib.get_data_path()
    fonts = [font for font in font_manager.fontManager.ttflist if str(font.fname).startswith(bundled)]
    assert {"DejaVu Sans", "STIXGeneral"} <= {font.name for font in fonts}
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)


def attention(heads, target_length, source_length, seed=0):
    weights = np.random.default_rng(seed).random((heads, target_length, source_length))
    return weights / weights.sum(axis=-1, keepdims=True)


def words(count, prefix="wort"):
    return [f"{prefix}{i}" for i in range(count)]


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def brightness(pixels, panel, row, column):
    """How bright the middle of a cell is in an image whose first row is the top one."""
    x, y = panel.transData.transform((column, row))
    return pixels[len(pixels) - 1 - int(y), int(x), :3].mean()


def test_the_png_shows_each_weight_in_its_cell(tmp_path):
    # Weights of all sizes, in an order that no flip or transposition of the picture leaves as it was.
    weights = np.random.default_rng(1).permutation(2 * 4 * 6).reshape(2, 4, 6) / 47
    path = plot_attention(weights, words(6), words(4), tmp_path / "attention.png", title="A title")
    assert path == tmp_path / "attention.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(path)
    figure = draw_attention(weights, words(6), words(4), title="A title")
    assert pixels.shape[:2] == tuple(figure.bbox.size[::-1].astype(int))

    cells = itertools.product(range(2), range(4), range(6))
    by_weight = sorted(cells, key=lambda cell: weights[cell])
    shades = [brightness(pixels, figure.axes[head], row, column) for head, row, column in by_weight]
    assert all(heavier < lighter for lighter, heavier in itertools.pairwise(shades))
    assert shades[0] > 0.95 and shades[-1] < 0.3


def test_one_panel_a_head_with_its_number_tokens_and_weights():
    source, target = words(5, "s"), words(3, "t")
    weights = attention(6, 3, 5)
    figure = draw_attention(weights, source, target)
    *panels, bar = figure.axes
    assert [panel.get_title() for panel in panels] == [f"head {i}" for i in range(1, 7)]
    for panel, head_weights in zip(panels, weights, strict=True):
        assert labels(panel.xaxis) == source
        assert labels(panel.yaxis) == target
        np.testing.assert_allclose(panel.images[0].get_array(), head_weights, rtol=1e-6)
        assert panel.images[0].get_clim() == (0, 1)
        # The first target token is at the top.
        assert panel.transData.transform((0, 0))[1] > panel.transData.transform((0, 2))[1]
    assert bar.get_ylim() == (0, 1)
    assert labels(bar.yaxis) == ["0.0", "0.5", "1.0"]


def test_the_axes_and_the_colours_have_names():
    *panels, bar = draw_attention(attention(2, 3, 5), words(5, "s"), words(3, "t")).axes
    for panel in panels:
        assert (panel.get_xlabel(), panel.get_ylabel()) == ("source, attended to", "translation, attends")
    assert bar.get_ylabel() == "weight"


def test_words_begin_bare_and_what_goes_on_with_one_has_a_dot():
    figure = draw_attention(attention(1, 2, 4), ["▁A", "▁green", "house", "</s>"], [".", "</s>"])
    assert labels(figure.axes[0].xaxis) == ["A", "green", "·house", "</s>"]
    assert labels(figure.axes[0].yaxis) == ["·.", "</s>"]


def test_the_picture_of_an_inspection_has_its_sentence():
    weights = attention(6, 2, 3).reshape(3, 2, 2, 3)
    found = Inspection(
        "A\tdog", "Ein Hund", ["▁A", "▁dog", "</s>"], ["▁Ein", "▁Hund"], {"cross": weights}, [0, 1], False
    )
    figure = draw_inspection(found)
    assert figure.texts[0].get_text().splitlines() == [
        "Encoder-decoder attention, layer 3 (the last)",
        "source: A dog",
        "translation: Ein Hund",
    ]
    np.testing.assert_allclose(figure.axes[1].images[0].get_array(), weights[-1, 1], rtol=1e-6)


@pytest.mark.parametrize(
    "heads, target, source, title",
    [
        (1, words(1), words(1), "A title that is a good deal wider than the picture of one token"),
        (3, words(10), words(12), None),
        (8, ["ein", "▁Donaudampfschifffahrt", "."], words(20), "layer 4 " * 40),
        (5, words(30), ["a", "▁Donaudampfschifffahrtsgesellschaft"], "gjpq\n|"),
        (2, words(60), words(60), "three\nlines of\ntitle"),
    ],
)
def test_nothing_is_cut_off_and_nothing_overlaps(heads, target, source, title):
    figure = draw_attention(attention(heads, len(target), len(source)), source, target, title)
    renderer = figure.canvas.get_renderer()
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    boxes += [text.get_window_extent(renderer) for text in figure.texts]
    assert len(boxes) == heads + 1 + bool(title)
    for box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    for panel in figure.axes[:-1]:
        # Rows lie a line of text apart; slanted labels do when their feet are.
        heights = [label.get_window_extent(renderer) for label in panel.yaxis.get_ticklabels()]
        assert all(lower.y1 <= upper.y0 + 1 for upper, lower in itertools.pairwise(heights))
        feet = [panel.transData.transform((i, 0))[0] for i in range(len(source))]
        line = 8 / 72 * figure.dpi
        assert all(after - before > line * 2**0.5 for before, after in itertools.pairwise(feet))


def test_the_figure_grows_with_the_tokens_up_to_a_limit():
    def size(target_length, source_length, heads=1):
        figure = draw_attention(
            attention(heads, target_length, source_length), ["s"] * source_length, ["t"] * target_length
        )
        return figure.get_size_inches()

    width, height = size(5, 10)
    assert size(5, 20)[0] > width and size(5, 20)[1] == height
    assert size(10, 10)[1] > height and size(10, 10)[0] == width
    assert size(5, 10, heads=3)[0] < size(5, 10, heads=4)[0] == size(5, 10, heads=8)[0]
    assert tuple(size(300, 10)) == pytest.approx(tuple(size(60, 10)), abs=0.2)


def test_many_tokens_are_labelled_in_steps():
    source = words(130)
    panel = draw_attention(attention(1, 2, 130), source, ["a", "b"]).axes[0]
    assert labels(panel.xaxis) == source[::3]
    assert list(panel.get_xticks()) == list(range(0, 130, 3))


def test_dollars_markup_and_backslashes_are_drawn_as_they_stand():
    tokens = ["$x^2$", "$\\frac", "<script>", "&amp;", "\\n", "_a", "__", "", " "]
    figure = draw_attention(attention(1, 9, 9), tokens, tokens, title="$\\broken{$ <b>")
    figure.canvas.draw()  # a formula would be an error here
    panel = figure.axes[0]
    assert labels(panel.xaxis) == labels(panel.yaxis) == tokens
    assert figure.texts[0].get_text() == "$\\broken{$ <b>"
    # Drawn whole: the dollars of a formula would take no room.
    renderer = figure.canvas.get_renderer()
    whole, _, _ = renderer.get_text_width_height_descent("$x^2$", panel.xaxis.label.get_fontproperties(), False)
    drawn = panel.yaxis.get_ticklabels()[0]
    assert drawn.get_window_extent(renderer).width == pytest.approx(
        whole * drawn.get_size() / panel.xaxis.label.get_size(), rel=0.1
    )


def test_characters_that_no_font_holds_are_escaped(bundled_fonts, tmp_path, caplog):
    tokens = ["▁강아지", "é", "🥔", "a\u202eb", "\n", "\u200d"]
    figure = draw_attention(attention(2, 6, 6), tokens, tokens, title="강 $5")
    expected = ["\\uac15\\uc544\\uc9c0", "·é", "·\\U0001f954", "·a\\u202eb", "·\\n", "·\\u200d"]
    assert labels(figure.axes[0].xaxis) == labels(figure.axes[1].yaxis) == expected
    assert figure.texts[0].get_text() == "\\uac15 $5"
    with caplog.at_level(logging.WARNING):
        plot_attention(attention(2, 6, 6), tokens, tokens, tmp_path / "a.png", title="강 $5")
    assert not caplog.records


@pytest.fixture
def hangul_font(bundled_fonts, tmp_path):
    """An installed font whose one character is a solid square in the place of 강."""
    pen = TTGlyphPen(None)
    corners = [(0, 0), (0, 800), (800, 800), (800, 0)]
    pen.moveTo(corners[0])
    for corner in corners[1:]:
        pen.lineTo(corner)
    pen.closePath()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "kang"])
    builder.setupCharacterMap({ord("강"): "kang"})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "kang": pen.glyph()})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "kang": (800, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Test Hangul", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "hangul.ttf")
    font_manager.fontManager.addfont(tmp_path / "hangul.ttf")


def test_an_installed_font_that_holds_the_character_draws_it(hangul_font):
    figure = draw_attention(attention(1, 2, 1), ["강" * 40], ["강강", "지"])
    # The font holds this one character: dots, escapes and the panels' titles come from another.
    assert labels(figure.axes[0].xaxis) == ["강" * 29 + "…"]
    assert labels(figure.axes[0].yaxis) == ["강강", "\\uc9c0"]
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3]
    box = figure.axes[0].yaxis.get_ticklabels()[0].get_window_extent()
    ink = pixels[int(box.y0) : int(box.y1), int(box.x0) : int(box.x1)] < 128
    # An empty box or a placeholder would be an outline.
    assert ink.mean() > 0.6


def test_a_mark_that_no_font_has_together_with_its_letter_is_told(hangul_font):
    """Each has a font, but they are one drawing."""
    figure = draw_attention(attention(1, 2, 1), ["a"], ["강\u0301", "e\u0301"])
    assert labels(figure.axes[0].yaxis) == ["\\uac15\\u0301", "e\u0301"]


# Characters of any script, and some that fonts are known to trip over.
@pytest.mark.thorough
@settings(deadline=None, max_examples=25)
@given(st.lists(st.text(max_size=6), min_size=1, max_size=6))
@example(["\ufe0f", "❤️", "👩‍👩‍👧", "न्", "\u0301", "\x00", "\ud800", "\ue000", "ﷺ", "\U000e0041"])
@example(["0\u1a55", "강\u1a55x", "\u1a55"])
def test_every_character_drawn_is_in_a_font_of_the_list(tokens):
    figure = draw_attention(attention(1, len(tokens), 1), ["a"], tokens)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    label = figure.axes[0].yaxis.get_ticklabels()[0]
    held = set()
    for family in label.get_fontfamily():
        assert "resort" not in family.lower()
        with TTFont(font_manager.findfont(family), fontNumber=0, lazy=True) as font:
            held |= font.getBestCmap().keys()
    assert {ord(c) for c in "".join(labels(figure.axes[0].yaxis))} <= held


@pytest.mark.parametrize(
    "shape, words_in_message",
    [
        ((2, 5, 3), ["(2, 5, 3)", "(heads, 3, 5)", "3 target tokens", "5 source tokens"]),
        ((1, 2, 3, 5), ["(1, 2, 3, 5)", "(heads, 3, 5)"]),
        ((3, 5), ["(3, 5)", "(heads, 3, 5)"]),
        ((0, 3, 5), ["(0, 3, 5)", "at least one head"]),
    ],
)
def test_a_wrong_shape_is_named_beside_the_right_one(shape, words_in_message, tmp_path):
    with pytest.raises(ValueError) as caught:
        plot_attention(np.zeros(shape), words(5), words(3), tmp_path / "a.png")
    assert all(word in str(caught.value) for word in words_in_message)
    assert not list(tmp_path.iterdir())


def test_no_tokens_are_refused():
    with pytest.raises(ValueError, match=r"\(heads, 0, 2\).* one token a side"):
        draw_attention(np.zeros((1, 0, 2)), ["a", "b"], [])


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
def test_values_that_are_no_weights_are_refused(value):
    weights = attention(1, 2, 2)
    weights[0, 1, 1] = value
    with pytest.raises(ValueError, match="attention holds values from .* expected weights"):
        draw_attention(weights, ["a", "b"], ["a", "b"])


def test_neither_pyplot_nor_a_display_is_needed():
    code = (
        "import sys, tf_transformer.inspection.pictures as pictures; "
        "pictures.draw_attention([[[1.0]]], ['a'], ['b']).canvas.draw(); "
        "sys.exit(any(name in sys.modules for name in ('matplotlib.pyplot', 'tensorflow', 'tkinter')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
