"""The page for keyboards, phones, other scripts and little light; and a text is never markup."""

import re
from urllib.parse import quote

import httpx
import pytest

from tests.bounded import SECONDS
from tests.browser import comes
from tests.server.page.looking import SENTENCE, translated


def test_by_keyboard_alone(open_page):
    page = open_page()
    press, focused = page.keyboard.press, "document.activeElement"
    assert page.evaluate(f"{focused}.id") == "source"
    page.keyboard.type("Our dog sees the green house.")
    page.wait_for_selector(".alternatives")
    for name in ("share", "copy"):
        press("Tab")
        assert page.evaluate(f"{focused}.id") == name
    press("Tab")
    assert page.evaluate(f"{focused}.dataset.word") == "0"
    outline = page.evaluate(f"getComputedStyle({focused}).outlineStyle")
    assert outline != "none"
    offered = 0
    for place in range(page.locator("#target .word").count()):
        assert page.evaluate(f"{focused}.dataset.word") == str(place)
        page.wait_for_selector("#behind .marked, #target .marked")
        press("Enter")
        page.wait_for_selector("#offer button:focus")
        offered = page.locator("#offer button").count()
        if offered > 1:
            break
        press("Escape")
        press("ArrowRight")
    assert offered > 1
    press("ArrowDown")
    press("Enter")
    page.wait_for_selector("#undo")
    assert page.evaluate(f"{focused}.dataset.word") == str(place)
    press("Tab")
    assert page.evaluate(f"{focused}.id") == "undo"
    press("Tab")
    assert page.evaluate(f"{focused}.id") == "tab-alternatives"
    press("ArrowLeft")
    page.wait_for_selector(".tree .node")
    assert page.evaluate(f"{focused}.id") == "tab-search"
    press("Tab")
    before = page.evaluate(f"{focused}.getAttribute('aria-label')")
    press("ArrowLeft")
    after = page.evaluate(f"{focused}.getAttribute('aria-label')")
    assert before.startswith("step ") and int(after.split()[1].strip(",")) == int(before.split()[1].strip(",")) - 1


CONTRASTS = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = channels(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const isSeen = (node) => node.checkVisibility({opacityProperty: true, visibilityProperty: true})
    && !node.closest('.behind, .unseen, [aria-hidden=true]');
  const found = {};
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !isSeen(node)) continue;
    const style = getComputedStyle(node);
    const ink = channels(node.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(node))].sort((x, y) => y - x);
    found[`${node.tagName}.${node.getAttribute('class')} ${node.textContent.slice(0, 20)}`] = (a + 0.05) / (b + 0.05);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(open_page, scheme):
    """The contrast that WCAG 2.2 asks of text at level AA."""
    page = open_page(SENTENCE, color_scheme=scheme)
    page.wait_for_selector(".alternatives")
    grounds = []
    for tab in ("alternatives", "search", "attention"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector({"alternatives": ".alternatives", "search": ".tree", "attention": ".attention svg"}[tab])
        page.wait_for_selector(".panel:not(.faded)")
        page.evaluate("Promise.all(document.querySelector('.panel').getAnimations().map((fading) => fading.finished))")
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 15
        assert {name: ratio for name, ratio in contrasts.items() if ratio < 4.5} == {}
        grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (max(map(int, re.findall(r"\d+", grounds[0]))) < 60) == (scheme == "dark")


def test_a_narrow_phone_scrolls_one_way_only(open_page):
    page = open_page(f"{SENTENCE} {'Donaudampfschifffahrtsgesellschaft' * 3}", viewport={"width": 390, "height": 844})
    for tab in ("alternatives", "attention", "search"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector({"alternatives": ".alternatives", "search": ".tree", "attention": ".attention svg"}[tab])
        for number in range(5):  # from the left side to the right one
            page.locator("#target .word").nth(number).click()
            page.wait_for_selector("#offer button")
            box = page.locator("#offer").bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= 390
            page.keyboard.press("Escape")
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_what_a_narrow_phone_has_no_room_for_is_wrapped_or_fades_out(open_page):
    page = open_page(f"{SENTENCE} {SENTENCE}", viewport={"width": 390, "height": 844})
    page.click("#tab-attention")
    page.wait_for_selector(".attention .map")
    right = "node => node.getBoundingClientRect().right"
    edge = page.locator(".picture").evaluate(right)
    ends = [node.evaluate(right) for node in page.locator(".picture .legend text").all()]
    assert len(ends) >= 4 and max(ends) <= edge
    page.click("#tab-search")
    page.wait_for_selector(".tree")
    faded = "node => parseFloat(getComputedStyle(node).getPropertyValue('--rest'))"
    box = page.locator(".tree .scroll")
    assert box.evaluate(faded) > 20
    box.evaluate("node => node.scrollLeft = node.scrollWidth")
    comes(page, lambda: box.evaluate(faded) == 0)
    page = open_page(address="docs", viewport={"width": 390, "height": 844})
    assert page.get_by_role("link", name="This page as an OpenAPI description").count() == 1
    assert page.evaluate(
        "[...document.querySelectorAll('pre')].every(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)"
    )


def test_scripts_from_right_to_left_run_that_way(open_page):
    """The tiny model knows none; its answer is put in the place of the server's."""
    page = open_page()
    hebrew = "המורה קוראת ספר."
    part = {"source": hebrew, "read": hebrew, "text": hebrew, "score": -1.0, "truncated": False}
    page.route("**/page/translate", lambda route: route.fulfill(json={"parts": ["", part, ""]}))
    page.fill("#source", hebrew)
    translated(page, hebrew)
    for name in ("#source", "#behind", "#target"):
        assert page.evaluate("name => document.querySelector(name).matches(':dir(rtl)')", name)
    first, second = (page.locator("#target .word").nth(place).bounding_box()["x"] for place in (0, 1))
    assert first > second
    page.locator("#target .word").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.word") == "1"


# -- safety ----

ODD = [
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "</textarea><svg onload=alert(1)>",
    "javascript:alert(1)",
    "&lt;b&gt; &amp; <b>bold</b>",
    "{{7*7}} ${7*7}",
    "\u202eevil\u202c \u0000 \u200b",
]


def test_a_text_is_never_markup(open_page):
    """Typed, in the address, and in all that a server could answer; a dialog or an error fails the test."""
    page = open_page("\n".join(ODD))
    page.wait_for_selector("#explore:not([hidden])")
    for tab in ("alternatives", "attention", "search"):
        page.click(f"#tab-{tab}")
        page.wait_for_selector({"alternatives": ".alternatives", "search": ".tree", "attention": ".attention svg"}[tab])
    before = page.locator("body *").count()
    assert not page.locator("main img, main script, main b, main iframe").count()

    def hostile(value):
        if isinstance(value, str):
            return ODD[0]
        if isinstance(value, list):
            return [hostile(each) for each in value]
        return {key: hostile(each) for key, each in value.items()} if isinstance(value, dict) else value

    page.route("**/page/search", lambda route: route.fulfill(json=hostile(route.fetch().json())))
    page.route("**/page/sentence", lambda route: route.fulfill(json=hostile(route.fetch().json())))
    with page.expect_response("**/page/search"):
        page.fill("#source", f"{SENTENCE} {ODD[0]}")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.click("#tab-alternatives")
    page.wait_for_selector(".alternatives")
    assert before and not page.locator("main img, main script").count()
    hash_ = f"#t.text={quote(ODD[0])}&t.view={quote(ODD[0])}&t.model={quote(ODD[1])}&t.from.0={quote(ODD[0])}&t.at=x"
    page = open_page(address=hash_)
    page.wait_for_selector("#target .word")
    assert page.input_value("#source") == ODD[0] and not page.locator("main img").count()


def test_the_policy_lets_nothing_in(server):
    answer = httpx.get(f"{server.url}/", timeout=SECONDS)
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|<style|\son\w+=|https?://", answer.text)
    for file in re.findall(r'(?:src|href)="(static/[^"]+)"', answer.text):
        assert httpx.get(f"{server.url}/{file}", timeout=SECONDS).status_code == 200
