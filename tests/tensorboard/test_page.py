"""The page from the disk, and in a notebook, in a real browser."""

import contextlib
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser import make_page, new_context
from tests.tensorboard.conftest import cell_of, saved
from tf_transformer.inspection.sentence import Inspection
from tf_transformer.tensorboard import show, write_page


def inspection(text="Ein </script> 강아지"):
    random = np.random.default_rng(3)
    source, target = text.split(" "), ["a", "<!--", "\u2028"]
    attention = {
        "encoder": random.random((2, 3, 3, 3), "float32"),
        "decoder": random.random((2, 3, 3, 3), "float32"),
        "cross": random.random((2, 3, 3, 3), "float32"),
    }
    return Inspection(text, "a", source, target, attention, [0, 1, 2], False)


@pytest.fixture
def offline_page(chromium, problems, no_problems):
    """A page without a network."""
    with new_context(chromium, offline=True) as context, contextlib.ExitStack() as stack:
        yield make_page(context, problems, stack)


def test_the_page_opens_from_the_disk_without_a_network(tmp_path, offline_page):
    found = inspection()
    path = write_page(tmp_path / "out put.html", [found, inspection("A B C")], "runs/<b>", ["Verweis", None])
    page = offline_page
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    expect(page.locator(".map")).to_have_count(2 * (3 + 2))
    page.locator(".map[data-layer='1'][data-picked='2']").click()
    page.mouse.move(*cell_of(page, 2, 1, 3, 3))
    weight = np.float16(found.attention["cross"][1, 2, 2, 1])
    expect(page.locator(".told")).to_contain_text(f"→ </script>: {weight:.3f}")
    expect(page.locator(".sentences dd").nth(2)).to_have_text("Verweis")
    page.get_by_role("radio", name="2 A B C").check()
    expect(page.locator(".sentences dd").first).to_have_text("ABC")
    assert page.title() == "Attention: runs/<b>"
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []
    page.reload()
    expect(page.get_by_role("radio", name="2 A B C")).to_be_checked()
    assert json.loads(saved(page, page, "json"))["columns"] == ["A", "B", "C"]


def test_what_reads_from_right_to_left_is_shown_so(tmp_path, new_page):
    page = new_page()
    page.goto(write_page(tmp_path / "page.html", [inspection("שלום לך \x01")], "model").as_uri())
    words = page.locator(".sentences dd").first
    assert words.evaluate("node => getComputedStyle(node).direction") == "rtl"
    first, second = (words.locator(".chip").nth(place).bounding_box()["x"] for place in (0, 1))
    assert first > second
    page.locator("[name=view-lines]").click()
    ElementTree.fromstring(saved(page, page, "svg").decode())  # in spite of a control character
    assert saved(page, page, "png").startswith(b"\x89PNG")


def test_past_eight_heads_dashes_tell_them_apart(tmp_path, new_page):
    random = np.random.default_rng(3)
    found = inspection()._replace(attention={"cross": random.random((1, 16, 3, 3), "float32")})
    page = new_page()
    page.goto(write_page(tmp_path / "page.html", [found], "model").as_uri() + "#view=lines")
    looks = [
        tuple(
            page.locator(f".lines path[data-head='{head}']").first.get_attribute(name)
            for name in ("stroke", "stroke-dasharray")
        )
        for head in range(16)
    ]
    assert len(set(looks)) == 16


def test_a_notebook_shows_the_page_in_a_frame(new_page):
    page = new_page()
    page.set_content(f"<h1>notebook</h1>{show([inspection()])._repr_html_()}")
    frame = page.frame_locator("iframe")
    expect(frame.locator(".map")).to_have_count(2 * (3 + 2))
    frame.locator("[name=view-lines]").click()
    expect(frame.locator(".lines")).to_have_count(1)
