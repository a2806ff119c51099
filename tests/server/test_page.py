"""The page at `/` in a browser, over a real server with a SavedModel and a model that only translates."""

import json
import re
import shutil
from urllib.parse import quote

import httpx
import pytest

from tests.bounded import SECONDS
from tests.browser import comes
from tests.server.running import serving
from tests.tiny_run import PAIRS

SENTENCE, GERMAN = PAIRS[0]  # A man sees a house.
OTHER, OTHER_GERMAN = PAIRS[13]


@pytest.fixture(scope="module")
def server(tiny_run_directory, tiny_saved_model, tmp_path_factory):
    """Serves the tiny model as `tiny`, and as `plain`, in CTranslate2's format."""
    from tf_transformer.experiment import export_run_ctranslate2

    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(tiny_saved_model, folder / "tiny" / "1")
    plain = export_run_ctranslate2(tiny_run_directory, folder / "plain")
    with serving(folder, folder / "tiny", plain) as running:
        yield running


@pytest.fixture
def open_page(new_page, server):
    """Opens the page, with a text in its address; no request may go to another host."""
    asked = []

    def opened(text="", address="", **options):
        page = new_page(**options)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{server.url}/{address or (text and f'#t.text={quote(text)}')}")
        if text:
            page.wait_for_selector(".word, .written:not(:empty)")
        return page

    yield opened
    assert asked and all(url.startswith((f"{server.url}/", "data:", "blob:")) for url in asked)


def written(page):
    return page.inner_text("#target").strip()


def translated(page, text):
    page.wait_for_function("text => document.querySelector('#target').innerText.trim() === text", arg=text)


def texts_of(page, selector):
    """Gives what tells every text that an element has from now on, also those that it has for a moment."""
    page.evaluate(
        """selector => {
            const node = document.querySelector(selector);
            window.texts = [];
            const observer = new MutationObserver(() => window.texts.push(node.innerText));
            observer.observe(node, {childList: true, subtree: true});
        }""",
        selector,
    )
    return lambda: page.evaluate("window.texts")


def word(page, text):
    return page.locator("#target .word").filter(has_text=re.compile(f"^{re.escape(text)}$"))


def marked(page, side):
    return page.locator(f"{side} .marked").all_inner_texts()


def predict(server, signature, **inputs):
    answer = httpx.post(
        f"{server.url}/v1/models/tiny:predict", json={"signature_name": signature, "inputs": inputs}, timeout=SECONDS
    )
    return answer.raise_for_status().json()["outputs"]


# -- translating ----


def test_what_is_typed_is_translated(open_page):
    page = open_page()
    assert page.locator("#explore").is_hidden()
    page.locator("#source").press_sequentially(SENTENCE[:-3])
    page.locator("#source").press_sequentially(SENTENCE[-3:])
    translated(page, GERMAN)
    assert page.inner_text("#source-name") == "English" and page.inner_text("#target-name") == "German"
    assert page.text_content("#said") == GERMAN  # which a screen reader tells
    page.fill("#source", f"{SENTENCE} {OTHER}\n\n{SENTENCE}")
    translated(page, f"{GERMAN} {OTHER_GERMAN}\n\n{GERMAN}")
    page.click("#clear")
    translated(page, "")
    assert page.locator("#explore").is_hidden() and page.locator("#copy").is_hidden()


def test_an_old_answer_never_comes_over_a_newer_one(open_page):
    page = open_page()
    held, ended = [], []
    page.on("requestfailed", lambda request: ended.append(request.failure))
    page.route("**/page/translate", lambda route: held.append(route) if len(held) < 1 else route.continue_())
    page.fill("#source", SENTENCE)
    page.wait_for_selector("#status:has-text('Translating…')")
    comes(page, lambda: held)
    page.fill("#source", OTHER)
    translated(page, OTHER_GERMAN)
    comes(page, lambda: ended)
    assert len(held) == 1 and ended == ["net::ERR_ABORTED"]  # the first was given up


def test_alternatives_are_those_of_the_model_with_their_scores(open_page, server):
    page = open_page(SENTENCE)
    page.wait_for_selector(".alternatives")
    expected = predict(server, "translate_nbest", text=[SENTENCE])
    assert page.locator(".alternatives .text").all_inner_texts() == expected["translation"][0]
    shown = [float(text.replace("−", "-")) for text in page.locator(".alternatives .score").all_inner_texts()]
    assert shown == pytest.approx(expected["score"][0], abs=0.006)
    second = page.locator(".alternatives button").nth(1)
    second.click()
    translated(page, expected["translation"][0][1])
    page.wait_for_selector(".alternatives li:nth-child(2) [aria-pressed=true]")
    assert page.locator(".alternatives [aria-pressed=true]").count() == 1
    page.click("#undo")
    translated(page, GERMAN)


# -- words ----


def test_words_that_go_together_are_marked_from_either_side(open_page, server):
    page = open_page(SENTENCE)
    page.wait_for_selector(".alternatives")
    seen = predict(server, "attention", source=[SENTENCE], target=[GERMAN])
    place = [token.strip("▁") for token in seen["target_tokens"][0]].index("Haus")
    goes_with = seen["source_tokens"][0][seen["alignment"][0][place]].strip("▁")
    word(page, "Haus").hover()
    comes(page, lambda: (marked(page, "#behind"), marked(page, "#target")) == ([goes_with], ["Haus"]))

    # The field's own letters lie over those that are marked.
    box = page.locator("#behind span").filter(has_text=re.compile(f"^{goes_with}$")).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    comes(page, lambda: "Haus" in marked(page, "#target") and marked(page, "#behind") == [goes_with])

    page.focus("#source")
    page.mouse.move(5, 5)
    page.evaluate("place => document.getElementById('source').setSelectionRange(place, place)", SENTENCE.index("house"))
    comes(page, lambda: marked(page, "#behind") == ["house"])


def test_a_word_offers_what_was_likely_and_goes_on_from_it(open_page, server):
    """In a sentence that the model has not learned, where it is less sure."""
    text = "Our dog sees the green house."
    page = open_page(text)
    translated_by_itself = written(page)
    words = page.locator("#target .word")
    for number in range(words.count()):
        words.nth(number).click()
        page.wait_for_selector("#offer button")
        others = page.locator("#offer button[aria-checked=false]")
        if others.count():
            break
    told = [float(share.split()[-2]) for share in page.locator("#offer .share").all_inner_texts()]
    assert told == sorted(told, reverse=True) and sum(told) <= 100.5
    assert page.locator("#offer [aria-checked=true] .text").all_inner_texts() == [words.nth(number).inner_text()]
    chosen = others.first.locator(".text").inner_text()
    begin = page.evaluate(
        "n => [...document.querySelectorAll('#target .word')].slice(0, n).map(w => w.innerText)", number
    )
    others.first.click()
    page.wait_for_selector("#undo")
    assert page.locator("#target .word").all_inner_texts()[: number + 1] == [*begin, chosen]
    assert page.locator("#target .fixed").all_inner_texts() == [*begin, chosen]
    # It is what the model writes behind that prefix.
    prefix = re.search(r"t\.from\.0=([^&]+)", page.url)[1]
    options = {"beam_size": 4, "num_hypotheses": 1, "alpha": 0.6, "min_length": 1, "max_length": 0, "top_k": 0}
    options |= {"temperature": 0.0, "top_p": 1.0, "seed": 0, "replace_unknown": False, "protect": False}
    options["no_repeat_ngram_size"] = 0
    given = {"text": [text], "prefix": [httpx.URL(f"http://x/?q={prefix}").params["q"]]}
    expected = predict(server, "translate_with_options", **given, **options)
    assert written(page) == expected["translation"][0][0] != translated_by_itself
    page.click("#undo")
    translated(page, translated_by_itself)


def test_an_address_is_all_that_it_takes_to_share(open_page, server):
    page = open_page("Our dog sees the green house.")
    page.wait_for_selector(".alternatives")
    page.locator(".alternatives button").nth(1).click()
    page.click("#tab-search")
    page.wait_for_selector(".tree")
    page.fill("#source", f"{OTHER} Our dog sees the green house.")
    page.wait_for_function("() => document.querySelectorAll('#target .sentence').length === 2")
    page.wait_for_selector("#undo")
    expected = written(page)
    told = texts_of(page, "#share")
    page.click("#share")
    comes(page, lambda: "Copied" in told())  # for a second
    again = open_page(address=page.url.removeprefix(f"{server.url}/"))
    again.wait_for_selector(".tree")
    again.wait_for_selector("#undo")
    assert written(again) == expected
    assert again.input_value("#source") == f"{OTHER} Our dog sees the green house."
    # The text is in the address's fragment, which is not sent, and in bodies, which are not logged.
    assert "green" not in server.log.read_text() and "gr%C3%BCn" not in server.log.read_text()


def test_copying_gives_the_translation(open_page, server):
    page = open_page(SENTENCE)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page.click("#copy")
    comes(page, lambda: page.evaluate("navigator.clipboard.readText()") == GERMAN)


# -- the search and attention ----


def test_the_search_is_shown_as_a_tree_with_why_each_lost(open_page, server):
    page = open_page(SENTENCE)
    page.click("#tab-search")
    page.wait_for_selector(".tree .node")
    options = {"beam_size": 4, "num_hypotheses": 1, "alpha": 0.6, "min_length": 1, "max_length": 0}
    found = predict(server, "translate_with_search", text=[SENTENCE], prefix=[""], **options)
    fates = [fate for step in found["fate"][0] for fate in step if fate]
    assert page.locator(".tree .node").count() == len(fates)
    for fate in set(fates):
        assert page.locator(f".tree .node.{fate}").count() == fates.count(fate)
    wins = sum(map(sum, found["wins"][0]))
    assert page.locator(".tree .node.wins").count() == wins
    assert page.locator(".tree path.line").count() == len(fates) - sum(map(bool, found["fate"][0][0]))
    told = page.locator(".tree .told")
    assert told.inner_text().startswith(f"{GERMAN} is the translation: finished with the best score")
    reasons = {"dropped": "was dropped: the 4 likeliest", "closed": "lost: finished with the score"}
    for fate, reason in reasons.items():
        losers = page.locator(f".tree .node.{fate}:not(.wins)")
        assert losers.count()
        losers.first.hover()
        assert reason in told.inner_text()


def test_all_heads_are_drawn_by_tensorboard_s_own_code(open_page):
    page = open_page(SENTENCE)
    page.click("#tab-attention")
    page.wait_for_selector(".attention .map")
    assert page.locator(".attention .map").count() == 4  # two heads, their mean and their maximum
    page.click("[name=view-lines]")
    page.wait_for_selector(".attention .lines path")
    page.fill("#source", OTHER)
    translated(page, OTHER_GERMAN)
    page.wait_for_function(
        "words => words.every(word => [...document.querySelectorAll('.attention .token')]"
        ".some(token => token.textContent.includes(word)))",
        arg=["child", "Kind"],
    )
    with page.expect_download() as saved:
        page.click("[name=png]")
    assert saved.value.suggested_filename.endswith(".png")


def test_a_model_that_only_translates_says_so(open_page):
    page = open_page(SENTENCE)
    page.wait_for_selector(".alternatives")
    page.select_option("#model", "plain")
    page.wait_for_selector("text=This model only translates")
    assert written(page) == GERMAN
    assert page.locator("#explore").is_hidden() and page.locator("#target [role=button]").count() == 0
    page.reload()
    page.wait_for_selector("text=This model only translates")
    assert page.input_value("#model") == "plain"


# -- for everybody ----


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
        page.evaluate("Promise.all(document.getAnimations().map((fading) => fading.finished))")
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


def test_scripts_from_right_to_left_run_that_way(open_page):
    """The tiny model knows none; its answer is put in the place of the server's."""
    page = open_page()
    hebrew = "המורה קוראת ספר."
    part = {"source": hebrew, "text": hebrew, "score": -1.0, "truncated": False}
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
    page.fill("#source", f"{SENTENCE} {ODD[0]}")
    page.wait_for_timeout(1500)
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


# -- errors ----


@pytest.fixture
def failing(open_page, problems):
    """A page whose next requests to translate get these answers instead; the browser tells the console of them."""

    def opened(*answers):
        page, left = open_page(), list(answers)

        def answer(route):
            if not left:
                return route.continue_()
            given = left.pop(0)
            return route.abort() if given is None else route.fulfill(**given)

        page.route("**/page/translate", answer)
        return page

    yield opened
    assert all("Failed to load resource" in problem for problem in problems)
    problems.clear()


def refusal(status, message, **headers):
    return {"status": status, "headers": headers, "body": json.dumps({"error": message})}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([refusal(429, "too many", **{"Retry-After": "1"})], "The server is busy. Trying again"),
        ([refusal(503, "the server is starting", **{"Retry-After": "1"})], "The server is starting. Trying again"),
        (
            [refusal(503, "the server is starting", **{"Retry-After": "0.1"})] * 8,
            "The server is starting. Trying again",
        ),
        ([refusal(503, "the server is draining", **{"Retry-After": "1"})], "The server is about to end. Trying again"),
        ([None], "The server can’t be reached. Trying again"),
        ([refusal(502, "")], "The server does not answer. Trying again"),
    ],
    ids=["busy", "starting", "starting for long", "draining", "out of reach", "proxy"],
)
def test_what_may_pass_is_told_and_tried_again(failing, answers, told):
    page = failing(*answers)
    texts = texts_of(page, "#status")
    page.fill("#source", SENTENCE)
    translated(page, GERMAN)
    assert any(text.startswith(told) for text in texts())
    comes(page, lambda: page.inner_text("#status") == "")


def test_what_does_not_pass_is_told_and_left(failing):
    page = failing(refusal(413, "too large"), refusal(500, "an error of the server; its log says where"))
    page.fill("#source", SENTENCE)
    page.wait_for_selector("#status:has-text('This text is too long for one request.')")
    page.fill("#source", SENTENCE[:-1])
    page.wait_for_selector("#status:has-text('The server made an error')")
    page.fill("#source", SENTENCE)
    translated(page, GERMAN)


def test_a_server_that_wants_a_key_is_asked_for_it(failing):
    page = failing(refusal(401, "this server wants an API key"), refusal(403, "Invalid API key"))
    keys = []

    def note(request):
        if request.url.endswith("/page/translate"):
            keys.append(request.headers.get("authorization"))

    page.on("request", note)
    page.fill("#source", SENTENCE)
    for key, told in (("wrong", "wants a key"), ("right", "does not know this key")):
        page.wait_for_selector(f"#status:has-text('{told}')")
        page.wait_for_selector("#key input:focus")
        page.keyboard.type(key)
        page.keyboard.press("Enter")
    translated(page, GERMAN)
    assert keys[:3] == [None, "Bearer wrong", "Bearer right"]


def test_a_text_above_the_limit_is_not_sent(open_page):
    page = open_page()
    page.fill("#source", "a" * 20_001)
    page.wait_for_selector("#status.problem:has-text('20,001 characters; at most 20,000')")


def test_offline_and_back(failing):
    page = failing()
    page.context.set_offline(True)
    page.fill("#source", SENTENCE)
    page.wait_for_selector("#status:has-text('You are offline. Trying again')")
    page.context.set_offline(False)
    translated(page, GERMAN)


@pytest.mark.parametrize(
    ("route", "body", "status", "told"),
    [
        ("translate", {"model": "none", "text": "a"}, 404, "no such model"),
        ("translate", {"model": "tiny"}, 400, "text must be a string"),
        ("translate", {"model": "tiny", "text": "a", "prefixes": []}, 200, ""),
        ("translate", {"model": "tiny", "text": "a", "prefixes": [1]}, 400, "prefixes must be an object"),
        ("translate", {"model": "tiny", "text": "a", "prefixes": {"0": "Haus " * 50}}, 400, "as many tokens"),
        ("words", {"model": "tiny", "source": "a", "ids": [5], "start": 0, "end": 2}, 400, "ids must be a list"),
        ("words", {"model": "tiny", "source": "a", "ids": ["5"], "start": 0, "end": 1}, 400, "ids must be a list"),
        ("words", {"model": "tiny", "source": "a", "ids": [10**6, 5], "start": 1, "end": 2}, 400, "prefix_ids must be"),
        ("search", {"model": "plain", "source": "a"}, 400, "plain"),
        ("attention", {"model": "plain", "source": "a", "target": "b"}, 400, "no attention"),
        ("sentence", {"model": "plain", "source": "a", "target": "b"}, 200, ""),
        ("sentence", {"model": "tiny", "source": "", "target": ""}, 200, ""),
        ("search", {"model": "tiny", "source": ""}, 200, ""),
    ],
    ids=str,
)
def test_requests_that_cannot_be_are_refused_in_words(server, route, body, status, told):
    answer = httpx.post(f"{server.url}/page/{route}", json=body, timeout=SECONDS)
    assert answer.status_code == status, answer.text
    assert told in answer.json().get("error", "")
