"""What a real TensorBoard serves, and what a person sees: its tab in a real browser."""

import json
import re
import urllib.error
import urllib.parse
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.tensorboard.conftest import (
    HEADS,
    LAYERS,
    NASTY,
    RUN,
    SENTENCES,
    STEPS,
    TAGS,
    address,
    cell_of,
    choose_theme,
    drawn_weights,
    fetch,
    get,
    saved,
    weights_of,
)
from tf_transformer.inspection.pieces import shown


def test_a_real_tensorboard_serves_what_the_plugin_answers(served, plugin):
    """What it answers to which request, tests/tensorboard/test_plugin.py asserts."""
    route = f"{served}/data/plugin/attention"
    assert json.loads(fetch(f"{route}/runs")) == get(plugin, "/runs").json
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(f"{route}/header?run=toy%2Fattention&tag=none&step=1")
    for trick in ("/../../../../etc/passwd", "/..%2f..%2fplugin.py", "/static/app.js", "/%2e%2e/record.py"):
        with pytest.raises(urllib.error.HTTPError, match="4\\d\\d"):
            fetch(f"{route}{trick}")


@pytest.mark.usefixtures("no_problems")
def test_the_tab_is_there_and_the_grid_draws_every_head(served, kept_page, log_dir):
    page = kept_page
    page.goto(served)
    page.get_by_role("tab", name="Attention").click()
    frame = page.frame_locator("iframe:visible")
    frame.get_by_role("radio", name=RUN).check()
    expect(frame.locator(".map")).to_have_count(LAYERS * (HEADS + 2))
    _, _, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    for layer in range(LAYERS):
        for head in range(HEADS):
            image = frame.locator(f".map[data-layer='{layer}'][data-picked='{head}'] image")
            np.testing.assert_allclose(drawn_weights(image), expected["cross"][layer, head], atol=0.01)
        for how, by_hand in (("mean", np.mean), ("max", np.max)):
            image = frame.locator(f".map[data-layer='{layer}'][data-picked='{how}'] image")
            np.testing.assert_allclose(drawn_weights(image), by_hand(expected["cross"][layer], axis=0), atol=0.01)


def test_each_head_has_its_entropy(tab, log_dir):
    _, frame = tab()
    _, _, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    weights = expected["cross"].astype(float)
    bits = -(weights * np.log2(np.maximum(weights, 1e-30))).sum(axis=-1).mean(axis=-1)
    for layer in range(LAYERS):
        for head in range(HEADS):
            text = frame.locator(f".map[data-layer='{layer}'][data-picked='{head}'] text").text_content()
            assert float(text.removesuffix(" bits")) == pytest.approx(bits[layer, head], abs=0.006)


def test_a_click_opens_a_head_and_hovering_tells_its_weights(tab, log_dir):
    page, frame = tab()
    frame.locator(".map[data-layer='1'][data-picked='2']").click()
    source, target, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    source, target = shown(source, target)
    expect(frame.locator(".cells")).to_be_focused()
    for row, column in ((0, 0), (len(target) - 1, 2), (2, len(source) - 1)):
        page.mouse.move(*cell_of(frame, row, column, len(target), len(source)))
        text = f"{target[row]} → {source[column]}: {expected['cross'][1, 2, row, column]:.3f}"
        expect(frame.locator(".told")).to_have_text(re.compile(f"^{re.escape(text)}(, aligned)?$"))
    frame.locator("select[name=kind]").select_option("encoder")
    # Drawn once it has come: what is told of the last drawing goes then.
    expect(frame.locator(".told")).to_have_text(re.compile("^Point at a cell"))
    page.mouse.move(*cell_of(frame, 1, 3, len(source), len(source)))
    expect(frame.locator(".told")).to_have_text(f"{source[1]} → {source[3]}: {expected['encoder'][1, 2, 1, 3]:.3f}")
    frame.locator("select[name=head]").select_option("max")
    page.mouse.move(*cell_of(frame, 0, 0, len(source), len(source)))
    expect(frame.locator(".told")).to_have_text(
        f"{source[0]} → {source[0]}: {expected['encoder'][1, :, 0, 0].max():.3f}"
    )


def test_the_alignment_lies_on_top(tab, log_dir):
    _, frame = tab(view="heat")
    source, target, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    mean = expected["cross"].astype(float).mean(axis=(0, 1))
    expect(frame.locator(".aligned")).to_have_count(len(target))  # each has a place
    image = frame.locator(".cells image")
    left, top, width, height = (float(image.get_attribute(name)) for name in ("x", "y", "width", "height"))
    for mark in frame.locator(".aligned").all():
        row = round((float(mark.get_attribute("y")) - top) / (height / len(target)))
        column = round((float(mark.get_attribute("x")) - left) / (width / len(source)))
        if target[row] != "</s>":
            assert column == mean[row, :-1].argmax()


def test_the_slider_changes_the_step(tab, log_dir):
    page, frame = tab(view="heat", layer="0", head="1")
    slider = frame.get_by_role("slider", name="Step")
    for step in reversed(STEPS[:-1]):
        slider.press("ArrowLeft")
        expect(slider).to_have_attribute("aria-valuetext", f"step {step}")
        source, target, expected = weights_of(log_dir, TAGS[0], step)
        page.mouse.move(0, 0)
        expect(frame.locator(".sentences dd").nth(1)).to_have_text("".join(shown(source, target)[1]))
        page.mouse.move(*cell_of(frame, 0, 1, len(target), len(source)))
        expect(frame.locator(".told")).to_contain_text(f"{expected['cross'][0, 1, 0, 1]:.3f}")


@pytest.mark.thorough
def test_the_address_brings_the_view_back(tab, new_page):
    page, frame = tab()
    frame.get_by_role("radio", name=TAGS[1]).check()
    frame.locator("[name=view-lines]").click()
    frame.locator("select[name=kind]").select_option("decoder")
    frame.locator("select[name=layer]").select_option(index=1)
    frame.get_by_role("slider", name="Step").press("Home")
    frame.locator("[name=head-2]").uncheck()
    expect(frame.locator(".lines path[data-head='2']")).to_have_count(0)
    lines = frame.locator(".lines path").count()
    other = new_page()
    other.goto(page.url)
    again = other.frame_locator("iframe:visible")
    expect(again.locator(".lines path")).to_have_count(lines)
    expect(again.get_by_role("radio", name=TAGS[1])).to_be_checked()
    expect(again.locator("select[name=kind]")).to_have_value("decoder")
    expect(again.locator("select[name=layer]")).to_have_value("1")
    expect(again.locator("[name=head-2]")).not_to_be_checked()
    expect(again.get_by_role("slider", name="Step")).to_have_attribute("aria-valuetext", f"step {STEPS[0]}")


def test_a_link_names_all_that_is_shown_and_can_be_followed_in_an_open_page(tab, served):
    """What is shown first, too: whoever follows it later may have other runs, and newer steps."""
    page, frame = tab(run="")
    frame.get_by_role("radio", name=RUN).check()
    frame.locator(".map[data-layer='1'][data-picked='2']").click()
    expect(frame.locator(".cells")).to_be_focused()
    for name, value in {"run": RUN, "tag": TAGS[0], "step": str(STEPS[-1]), "layer": "1", "head": "2"}.items():
        assert f"p.attention.{name}={urllib.parse.quote(value, safe='')}" in page.url
    link = address(served, tag=TAGS[2], step=str(STEPS[0]), view="lines")
    page.evaluate("link => { location.hash = new URL(link).hash; }", link)
    expect(frame.locator(".lines")).to_have_count(1)
    expect(frame.get_by_role("radio", name=TAGS[2])).to_be_checked()
    expect(frame.get_by_role("slider", name="Step")).to_have_attribute("aria-valuetext", f"step {STEPS[0]}")


def test_only_what_is_shown_is_fetched(kept_page, tab):
    asked = []

    def note(request):
        if "/layer?" in request.url:
            asked.append(request.url)

    kept_page.on("request", note)
    _, frame = tab(view="heat", layer="1")
    assert len(asked) == 1 and "kind=cross" in asked[0] and "layer=1" in asked[0]
    frame.locator("select[name=head]").select_option("max")  # of the same layer
    frame.locator("[name=view-lines]").click()
    expect(frame.locator(".lines")).to_have_count(1)
    assert len(asked) == 1
    frame.locator("[name=view-grid]").click()
    expect(frame.locator(".map")).to_have_count(LAYERS * (HEADS + 2))
    assert len(asked) == LAYERS
    kept_page.remove_listener("request", note)


@pytest.mark.parametrize("state", [{"kind": "constructor"}, {"view": "toString"}, {"layer": "-1", "head": "99"}])
def test_an_address_with_nonsense_shows_something_all_the_same(tab, state):
    _, frame = tab(**state)
    expect(frame.locator(".problem")).to_have_count(0)


def test_lines_are_the_weights_and_a_token_shows_its_own(tab, log_dir):
    page, frame = tab(view="lines", layer="1", heads="0.3", least="0.01")
    source, target, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    heads = expected["cross"][1][[0, 3]].astype(float)
    expect(frame.locator(".lines path")).to_have_count(int((heads >= 0.01).sum()))
    path = frame.locator(".lines path[data-head='3'][data-row='1'][data-column='2']")
    assert float(path.get_attribute("stroke-opacity")) == pytest.approx(max(heads[1, 1, 2], 0.06), abs=0.001)
    shown = frame.locator(".lines path[visibility=visible]")
    frame.locator(".token[data-side=column]").nth(2).hover()
    expect(shown).to_have_count(int((heads[:, :, 2] >= 0.01).sum()))
    frame.locator(".token[data-side=row]").nth(0).focus()
    expect(shown).to_have_count(int((heads[:, 0] >= 0.01).sum()))
    frame.locator("[name=none]").click()
    expect(frame.locator(".lines path")).to_have_count(0)
    frame.locator("[name=all]").click()
    expect(frame.locator(".lines path")).to_have_count(int((expected["cross"][1] >= 0.01).sum()))


def test_runs_and_sentences_are_filtered_by_regular_expressions(tab):
    _, frame = tab(run="")
    runs, tags = (frame.get_by_role("radiogroup", name=name).get_by_role("radio") for name in ("Run", "Sentence"))
    expect(runs).to_have_count(3)
    frame.locator("[name=runs]").fill("^toy|long$")
    expect(runs).to_have_count(2)
    frame.locator("[name=runs]").fill("TOY")
    expect(runs).to_have_count(1)
    expect(frame.locator("[name=runs]")).to_be_focused()
    frame.locator("[name=tags]").fill("dog")
    expect(tags).to_have_count(1)
    expect(frame.locator(".sentences dd").first).to_contain_text("Our")
    frame.locator("[name=tags]").fill("(")  # not a regular expression, yet
    expect(tags).to_have_count(len(TAGS))
    expect(frame.locator("[name=tags]")).to_have_attribute("aria-invalid", "true")
    frame.locator("[name=tags]").fill("nothing has this")
    expect(frame.locator(".empty")).to_contain_text("No run or sentence")


def test_tokens_of_any_script_are_text_and_nothing_else(tab, log_dir):
    page, frame = tab(tag=TAGS[1])
    source, target, _ = weights_of(log_dir, TAGS[1], STEPS[-1])
    for view in ("grid", "heat", "lines"):
        frame.locator(f"[name=view-{view}]").click()
        frame.locator(".picture svg").wait_for()
        chips = frame.locator(".sentences dd").first.locator(".chip")
        assert chips.all_text_contents() == shown(source, target)[0]
        assert [chip.get_attribute("title") for chip in chips.all()] == source
    joined = "".join(source).replace("▁", " ")
    assert "강아지" in joined and "שלום" in joined and "<script>" in joined
    expect(frame.locator(".sentences dd").nth(2)).to_have_text("<i>Ein</i> Verweis")
    assert frame.get_by_role("radio", name=NASTY).count() == 1
    for each in page.frames:
        assert each.evaluate("window.hit === undefined")
    assert frame.locator(".attention script, .attention b, .attention i").count() == 0


@pytest.mark.parametrize(
    "view", ["grid", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("heat", "lines"))]
)
def test_what_is_shown_is_saved(tab, log_dir, view):
    page, frame = tab(tag=TAGS[1], view=view, layer="1", kind="cross")
    source, target, expected = weights_of(log_dir, TAGS[1], STEPS[-1])
    picture = saved(page, frame, "svg").decode()
    ElementTree.fromstring(picture)  # XML that others can read
    alone = page.context.new_page()
    alone.set_content(picture)
    if view != "grid":
        titles = alone.locator("text > title").all_text_contents()
        assert sorted(titles) == sorted([*source, *target])
    assert alone.locator("svg").count() == 1 and alone.locator(".cursor").count() == 0
    text = " ".join(alone.locator("svg text").all_text_contents())
    for part in ("source, attended to", "attends", TAGS[1], f"step {STEPS[-1]}", "encoder–decoder attention"):
        assert part in text
    assert all(f"head {head}" in text for head in range(1, HEADS + 1)) == (view != "heat")
    assert alone.locator(".scale").count() == (view != "lines")
    alone.close()
    png = saved(page, frame, "png")
    assert png.startswith(b"\x89PNG")
    drawn = ElementTree.fromstring(picture)
    for place, name in ((16, "width"), (20, "height")):
        assert int.from_bytes(png[place : place + 4], "big") == pytest.approx(2 * float(drawn.get(name)), abs=2)
    found = json.loads(saved(page, frame, "json"))
    assert (found["run"], found["tag"], found["step"], found["kind"]) == (RUN, TAGS[1], STEPS[-1], "cross")
    assert (found["columns"], found["rows"]) == (source, target)
    layers = slice(None) if view == "grid" else slice(1, 2)
    assert found["layers"] == list(range(LAYERS))[layers]
    np.testing.assert_array_equal(np.array(found["weights"], np.float16), expected["cross"][layers])


def press_until(page, frame, key, wanted):
    """Presses a key until what is wanted has the focus."""
    for _ in range(200):
        page.keyboard.press(key)
        if wanted.evaluate("node => node === document.activeElement"):
            return
    raise AssertionError(f"{key} leads nowhere")


@pytest.mark.thorough
def test_with_the_keyboard_alone(tab, new_page, log_dir):
    page, frame = tab(new_page(), least="0.01")
    source, target, expected = weights_of(log_dir, TAGS[0], STEPS[-1])
    source, target = shown(source, target)
    press_until(page, frame, "Tab", frame.locator(".map[data-layer='0'][data-picked='1']"))
    page.keyboard.press("Enter")
    told = frame.locator(".told")
    expect(told).to_contain_text(f"{target[0]} → {source[0]}: {expected['cross'][0, 1, 0, 0]:.3f}")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp", "ArrowDown"):
        page.keyboard.press(key)
    expect(told).to_contain_text(f"{target[1]} → {source[2]}: {expected['cross'][0, 1, 1, 2]:.3f}")
    press_until(page, frame, "Shift+Tab", frame.locator("[name=view-lines]"))
    page.keyboard.press("Enter")
    expect(frame.locator(".lines")).to_have_count(1)
    expect(frame.locator("[name=view-lines]")).to_be_focused()
    press_until(page, frame, "Tab", frame.locator(".token[data-side=row]").first)
    heads = expected["cross"][0].astype(float)
    expect(frame.locator(".lines path[visibility=visible]")).to_have_count(int((heads[:, 0] >= 0.01).sum()))


def test_what_is_damaged_or_cut_is_told(tab):
    _, frame = tab(run="damaged")
    expect(frame.locator(".choices .notice")).to_contain_text("damaged/events.out.tfevents")
    expect(frame.locator(".sentences dd").first).to_have_text("a")
    frame.get_by_role("radio", name="long").check()
    expect(frame.locator(".view .notice")).to_have_text(
        "Shown: the first 256 of 300 source tokens and the first 256 of 300 target tokens."
    )
    frame.locator("[name=view-heat]").click()
    expect(frame.locator(".cells")).to_have_count(1)


CONTRASTS = """root => {
    const channels = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => {
        const [r, g, b] = channels(colour).slice(0, 3).map(c => c / 255)
            .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const under = node => {
        for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (channels(colour)[3] !== 0) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    const found = [];
    for (const node of root.querySelectorAll('*')) {
        const texts = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
        if (!texts || node.tagName === 'title') continue;
        const style = getComputedStyle(node);
        const [a, b] = [light(node.namespaceURI.endsWith('svg') ? style.fill : style.color), light(under(node))];
        found.push([node.textContent.slice(0, 30), (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
    }
    return found;
}"""


@pytest.mark.parametrize("theme", [pytest.param("Light", marks=pytest.mark.thorough), "Dark"])
def test_contrast_is_enough_in_both_modes(tab, theme):
    """WCAG's 4.5 to 1, for all text."""
    page, frame = tab(tag=TAGS[1])
    choose_theme(page, frame, theme)
    try:
        for view in ("grid", "heat", "lines"):
            frame.locator(f"[name=view-{view}]").click()
            frame.locator(".picture svg").wait_for()
            contrasts = frame.locator(".attention").evaluate(CONTRASTS)
            assert len(contrasts) > 20
            assert [each for each in contrasts if each[1] < 4.5] == []
    finally:
        choose_theme(page, frame, "Light")


def test_the_reference_stands_beside_the_translation(tab):
    _, frame = tab()
    expect(frame.locator(".sentences dt")).to_have_text(["source", "translation", "reference"])
    expect(frame.locator(".sentences dd").nth(2)).to_have_text(SENTENCES[0][1])
    frame.get_by_role("radio", name=TAGS[2]).check()
    expect(frame.locator(".sentences dt")).to_have_text(["source", "translation"])
