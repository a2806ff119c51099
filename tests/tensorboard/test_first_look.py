"""What someone sees who opens the tab for the first time: what all of it means, and room well used."""

import itertools
import math

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser import comes
from tests.tensorboard.conftest import LAYERS, STEPS, TAGS, choose_theme, drawn_weights, weights_of
from tf_transformer.inspection.pieces import shown
from tf_transformer.inspection.sentence import Inspection
from tf_transformer.tensorboard import write_page

pytestmark = pytest.mark.thorough

SIDES = {"cross": ("translation", "source"), "encoder": ("source", "source"), "decoder": ("translation", "translation")}


def make_page(folder, new_page, source, target, layers, heads, fragment="", **options):
    """Opens a page with one sentence."""
    random = np.random.default_rng(3)
    sizes = {"cross": (len(target), len(source)), "encoder": (len(source),) * 2, "decoder": (len(target),) * 2}
    attention = {kind: random.random((layers, heads, *size), "float32") for kind, size in sizes.items()}
    found = Inspection("a sentence", "ein Satz", source, target, attention, [0] * len(target), False)
    page = new_page(**options)
    page.goto(write_page(folder / "page.html", [found], "model").as_uri() + fragment)
    page.locator(".picture svg").wait_for()
    return page


def fixed(frame, name):
    """A colour of the style sheet."""
    return frame.locator(".attention").evaluate("(node, name) => getComputedStyle(node).getPropertyValue(name)", name)


PIXEL_ROW = """async image => {
    const picture = new Image();
    picture.src = image.getAttribute('href');
    await picture.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext('2d').drawImage(picture, 0, 0);
    return [...canvas.getContext('2d').getImageData(0, 0, picture.width, 1).data];
}"""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (["▁A", "▁dog", "s", "</s>"], ["(S", "(NP", "XX", ")NP", ")S", "[END]"]),
        (["▁A", "</s>"], ["(S", "(NP"]),
        (["▁(", "a", ")", "</s>"], ["▁(", "b", "</s>"]),
        (["(", "a", "##b", "[END]"], ["(", "c", "##d", "[END]"]),
    ],
    ids=["tree", "stopped", "sentencepiece", "wordpiece"],
)
def test_tokens_are_shown_as_in_pictures(tmp_path, new_page, source, target):
    page = make_page(tmp_path, new_page, source, target, layers=1, heads=1)
    assert page.locator(".chip").all_text_contents() == sum(shown(source, target), [])


@pytest.fixture(params=["Light", "Dark"])
def themed(tab, request):
    """The tab in either theme."""
    page, frame = tab()
    choose_theme(page, frame, request.param)
    yield frame
    choose_theme(page, frame, "Light")


def test_the_scale_has_the_colours_of_the_weights(themed, log_dir):
    frame = themed
    zero, one = ([int(fixed(frame, name)[at : at + 2], 16) for at in (1, 3, 5)] for name in ("--cell", "--ink"))
    _, _, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    mean = expected["cross"][-1].astype(float).mean(axis=0)
    images = {"grid": f".map[data-layer='{LAYERS - 1}'][data-picked='mean'] image", "heat": ".cells image"}
    for view, image in images.items():
        frame.locator(f"[name=view-{view}]").click()
        row = np.array(frame.locator(image).evaluate(PIXEL_ROW)).reshape(-1, 4)[:, :3]
        np.testing.assert_allclose(row, zero + mean[0][:, None] * (np.array(one) - zero), atol=1.5)
        scale = np.array(frame.locator(".scale").evaluate(PIXEL_ROW)).reshape(-1, 4)[:, :3]
        np.testing.assert_allclose(scale, np.linspace(zero, one, len(scale)), atol=1)
        expect(frame.locator(".legend text").first).to_have_text("weight 0")


def test_the_legend_tells_frames_and_bits(tab):
    _, frame = tab()
    legend = frame.locator(".legend")
    expect(legend).to_contain_text("bits: entropy, mean of the rows")
    expect(legend).to_contain_text("rows ↓ translation, attends")
    expect(legend).to_contain_text("columns → source, attended to")
    frame.locator("[name=view-heat]").click()
    expect(legend).to_contain_text("alignment, over all layers and heads")
    sample, frames = legend.locator("rect[stroke-width='2']"), frame.locator(".aligned").first
    assert sample.get_attribute("stroke") == frames.get_attribute("stroke") == fixed(frame, "--mark")
    frame.locator("select[name=kind]").select_option("encoder")  # which has no alignment
    expect(legend.locator("rect[stroke-width='2']")).to_have_count(0)
    expect(legend).not_to_contain_text("alignment")


@pytest.mark.parametrize("kind", list(SIDES))
def test_axes_and_columns_have_names(tab, kind):
    _, frame = tab(view="heat", kind=kind)
    rows, columns = SIDES[kind]
    expect(frame.locator(".name")).to_have_text([rows, "attends ↓", f"{columns}, attended to →"])
    frame.locator("[name=view-lines]").click()
    expect(frame.locator(".name")).to_have_text([f"{columns}, attended to", f"{rows}, attends"])


@pytest.mark.parametrize("view", ["heat", "lines"])
def test_the_decoder_attends_to_what_it_chose_before(tab, log_dir, view):
    """Position j of its input, which is column j, has the token before token j."""
    _, frame = tab(view=view, kind="decoder")
    source, target, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    assert not np.triu(expected["decoder"][0, 0], 1).any()  # row i sees inputs up to i
    inputs = ["<s>", *target[:-1]]
    titles = frame.locator(".picture text > title").all_text_contents()
    assert titles == ([*target, *inputs] if view == "heat" else [*inputs, *target])
    texts = shown(source, target)[1]
    if view == "heat":
        frame.locator(".cells").focus()
        expect(frame.locator(".told")).to_contain_text(f"{texts[0]} → <s>: 1.000")


def test_the_last_layer_and_the_mean_are_shown_first(tab, log_dir):
    page, frame = tab(view="heat")
    expect(frame.locator("select[name=layer]")).to_have_value(str(LAYERS - 1))
    expect(frame.locator("select[name=head]")).to_have_value("mean")
    _, _, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    image = frame.locator(".cells image")
    np.testing.assert_allclose(drawn_weights(image), expected["cross"][-1].astype(float).mean(axis=0), atol=0.01)
    before = image.get_attribute("href")
    frame.locator("select[name=layer]").select_option("0")
    expect(image).not_to_have_attribute("href", before)  # drawn again
    np.testing.assert_allclose(drawn_weights(image), expected["cross"][0].astype(float).mean(axis=0), atol=0.01)
    assert "p.attention.layer=0" in page.url


def test_lines_begin_at_a_weight_that_can_be_chosen(tab, new_page, log_dir):
    page, frame = tab(view="lines", layer="1")
    _, _, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    weights = expected["cross"][1].astype(np.float32)
    paths, told = frame.locator(".lines path"), frame.locator(".threshold .told")
    slider = frame.get_by_role("slider", name="Minimum weight of a line")

    def count(least):
        number = int((weights >= least).sum())
        return number, f"{number} line{'' if number == 1 else 's'}"

    assert 0 < count(0.2)[0] < count(0.19)[0] < count(0.01)[0]
    expect(slider).to_have_value("0.2")
    expect(paths).to_have_count(count(0.2)[0])
    expect(told).to_have_text(count(0.2)[1])
    slider.press("ArrowLeft")
    expect(paths).to_have_count(count(0.19)[0])
    expect(told).to_have_text(count(0.19)[1])
    expect(slider).to_be_focused()
    assert "p.attention.least=0.19" in page.url
    other = new_page()
    other.goto(page.url)
    expect(other.frame_locator("iframe:visible").locator(".lines path")).to_have_count(count(0.19)[0])
    slider.press("End")
    expect(told).to_have_text(f"no lines: the largest weight is {weights.max():.2f}")
    slider.press("Home")
    expect(paths).to_have_count(count(0.01)[0])


def test_lines_follow_the_mouse_on_the_threshold(tab):
    """The slider is held while the lines change below it; the address changes when it is let go."""
    page, frame = tab(view="lines", kind="decoder", least="0.01")  # whose first tokens have large weights
    paths, slider = frame.locator(".lines path"), frame.locator("[name=least]")
    before = paths.count()
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 8, y)
    page.mouse.down()
    counts = [before]
    for part in (0.2, 0.4, 0.6):
        page.mouse.move(box["x"] + part * box["width"], y)
        expect(paths).not_to_have_count(counts[-1])
        counts.append(paths.count())
    assert counts == sorted(counts, reverse=True)
    page.mouse.up()
    value = float(slider.input_value())
    assert 0.5 < value < 0.7
    page.wait_for_url(f"**p.attention.least={value:g}**")


def corners(label):
    """Where a label's text lies: a point on its middle line, its direction and its size."""
    return label.evaluate("""node => {
        const [matrix, box] = [node.getScreenCTM(), node.getBBox()];
        const at = new DOMPoint(box.x, box.y + box.height / 2).matrixTransform(matrix);
        return [at.x, at.y, Math.atan2(matrix.b, matrix.a), parseFloat(getComputedStyle(node).fontSize)];
    }""")


@pytest.mark.parametrize(
    ("view", "width"), [("heat", 420), ("heat", 900), ("heat", 1400), ("lines", 420), ("lines", 1400)]
)
def test_sixty_labels_keep_clear_of_each_other(tmp_path, new_page, view, width):
    words = [f"▁Wort{number}" for number in range(60)]
    viewport = {"width": width, "height": 900}
    page = make_page(tmp_path, new_page, words, words, 1, 2, f"#view={view}", viewport=viewport)
    labels = [corners(label) for label in page.locator(".picture text:has(title)").all()]
    for side in (labels[:60], labels[60:]):
        for (x, y, angle, size), (next_x, next_y, _, _) in itertools.pairwise(side):
            assert size >= 11
            # From one middle line to the next; a text's letters are as high as its size.
            assert abs((next_y - y) * math.cos(angle) - (next_x - x) * math.sin(angle)) >= 0.98 * size
    if width == 1400:
        assert page.locator(".picture").evaluate("node => node.scrollWidth <= node.clientWidth")


@pytest.mark.parametrize(("view", "share"), [("grid", 0.75), ("lines", 0.4), ("heat", 0.3)])
def test_a_small_model_has_the_room_of_the_page(tmp_path, new_page, view, share):
    tokens = ["▁A", "▁dog", "▁sleeps", "▁in", "▁the", "▁green", "▁house", ".", "</s>"]
    viewport = {"width": 1400, "height": 900}
    page = make_page(tmp_path, new_page, tokens, tokens, 1, 2, f"#view={view}", viewport=viewport)
    images = ".lines" if view == "lines" else ".picture image:not(.scale)"
    boxes = [image.bounding_box() for image in page.locator(images).all()]
    wide = max(box["x"] + box["width"] for box in boxes) - min(box["x"] for box in boxes)
    room = page.locator(".picture").bounding_box()["width"]
    assert share * room < wide < room
    page.set_viewport_size({"width": 900, "height": 900})  # and follows the window
    # The page's own policy forbids what Playwright's wait_for_function evaluates, so this asks again and again.
    comes(page, lambda: page.locator(".picture").evaluate("node => node.scrollWidth <= node.clientWidth"))
    boxes = [image.bounding_box() for image in page.locator(images).all()]
    assert max(box["x"] + box["width"] for box in boxes) - min(box["x"] for box in boxes) < wide
    assert page.locator(".picture").evaluate("node => node.scrollWidth <= node.clientWidth")


PIECES = [
    (["▁A", "▁green", "house", ".", "▁.", "</s>"], ["A", "green", "·house", "·.", ".", "</s>"]),
    (["▁", "犬", "▁▁", "▁a▁b", "<0xEA>", "<unk>"], ["␣", "·犬", "␣␣", "a␣b", "·<0xEA>", "<unk>"]),
    (["a", "green", "##house", "##", "</s>"], ["a", "green", "·house", "##", "</s>"]),
    (["plain", "words", "."], ["plain", "words", "."]),
]


@pytest.mark.parametrize(("tokens", "texts"), PIECES)
def test_pieces_are_shown_as_words_and_what_goes_on_with_them(tmp_path, new_page, tokens, texts):
    assert shown(tokens) == [texts]
    page = make_page(tmp_path, new_page, tokens, tokens, 1, 2, "#view=heat&kind=encoder")
    assert page.locator(".sentences dd").first.locator(".chip").all_text_contents() == texts
    drawn = page.locator(".picture text:has(title)").evaluate_all("nodes => nodes.map(node => node.lastChild.data)")
    assert drawn == [*texts, *texts]
    dots = any(text.startswith("·") for text in texts)
    expect(page.locator(".legend", has_text="· no space before the token")).to_have_count(int(dots))


def test_the_page_has_no_control_without_effect(tmp_path, new_page):
    page = make_page(tmp_path, new_page, ["▁A"], ["▁Ein"], 1, 2)
    choices = page.locator(".choices")
    expect(choices.locator("button, [type=range], [type=search]").and_(page.locator(":visible"))).to_have_count(0)
    expect(choices.get_by_role("radio")).to_have_count(1)
    expect(choices.locator(".only")).to_have_text("model")


def test_the_page_has_a_filter_for_several_sentences(tmp_path, new_page):
    weights = {"cross": np.ones((1, 1, 1, 1), "float32")}
    found = [Inspection(text, "x", ["▁" + text], ["▁x"], weights, [0], False) for text in ("one", "two")]
    page = new_page()
    page.goto(write_page(tmp_path / "page.html", found, "model").as_uri())
    page.get_by_role("searchbox", name="Filter sentences").fill("two")
    expect(page.get_by_role("radio")).to_have_count(1)
    expect(page.locator(".sentences dd").first).to_have_text("two")
    page.get_by_role("searchbox", name="Filter sentences").fill("")
    expect(page.get_by_role("radio")).to_have_count(2)
