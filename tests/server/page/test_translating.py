"""What the page does: it translates, offers words, and shows the search and attention."""

import re
from urllib.parse import quote

import httpx
import pytest

from tests.browser import comes
from tests.server.page.looking import (
    GERMAN,
    OTHER,
    OTHER_GERMAN,
    SENTENCE,
    is_in_view,
    marked,
    predict,
    texts_of,
    translated,
    word,
    written,
)

# -- translating ----


def test_what_is_typed_is_translated(open_page):
    page = open_page()
    assert page.locator("#explore").is_hidden() and page.inner_text("#served") == ""
    page.locator("#source").press_sequentially(SENTENCE[:-3])
    page.locator("#source").press_sequentially(SENTENCE[-3:])
    translated(page, GERMAN)
    assert page.inner_text("#source-name") == "English" and page.inner_text("#target-name") == "German"
    assert page.text_content("#said") == GERMAN  # which a screen reader tells
    assert page.inner_text("#served") == "Translated by tiny, version 1."
    page.fill("#source", f"{SENTENCE} {OTHER}\n\n{SENTENCE}")
    translated(page, f"{GERMAN} {OTHER_GERMAN}\n\n{GERMAN}")
    page.click("#clear")
    translated(page, "")
    assert page.locator("#explore").is_hidden() and page.locator("#copy").is_hidden()
    assert page.inner_text("#served") == ""


def test_a_space_comes_between_sentences_of_a_script_without_spaces(open_page):
    page = open_page()
    told = {"score": -1.0, "truncated": False}
    first = {"source": "你好。", "read": "你好。", "text": "Hello.", "behind": " ", **told}
    second = {"source": "再见。", "read": "再见。", "text": "Goodbye.", "behind": "", **told}
    page.route("**/page/translate", lambda route: route.fulfill(json={"parts": ["", first, "", second, ""]}))
    page.fill("#source", "你好。再见。")
    translated(page, "Hello. Goodbye.")
    assert page.text_content("#said") == "Hello. Goodbye."


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


def test_a_newer_version_is_told_and_asked_again(open_page):
    page, asked = open_page(SENTENCE), []
    page.wait_for_selector(".alternatives")
    page.on("request", lambda request: asked.append(request.url))

    def newer(route):
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"version": 2})

    page.route("**/page/translate", newer)
    page.fill("#source", f"{SENTENCE} ")
    page.wait_for_selector("#served:has-text('version 2')")
    comes(page, lambda: any(url.endswith("/page/sentence") for url in asked))


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


def test_words_that_go_together_are_found_behind_a_language_tag(open_page):
    """The tiny model knows none; answers are put in the place of the server's."""
    page, asked = open_page(), []
    told = {"score": -1.0, "truncated": False}
    first = {"source": "A dog.", "read": ">>deu<< A dog.", "text": "Ein Hund.", "behind": " ", **told}
    second = {"source": "Our dog.", "read": ">>deu<< Our dog.", "text": "Unser Hund.", "behind": "", **told}
    seen = {"ids": [5, 6, 7], "alignment": [1, 2, 3], "alternatives": []}
    seen["source"] = {"tokens": [">>deu<<", "Our", "dog", "."], "spans": [[0, 7], [8, 11], [12, 15], [15, 16]]}
    seen["target"] = {"tokens": ["Unser", "Hund", "."], "spans": [[0, 5], [6, 10], [10, 11]]}

    def look(route):
        asked.append(route.request.post_data_json["source"])
        route.fulfill(json=seen)

    answer = {"parts": ["", first, " ", second, ""], "tagged": 8}
    page.route("**/page/translate", lambda route: route.fulfill(json=answer))
    page.route("**/page/sentence", look)
    page.fill("#source", ">>deu<< A dog. Our dog.")
    translated(page, "Ein Hund. Unser Hund.")
    word(page, "Unser").hover()
    comes(page, lambda: (marked(page, "#behind"), marked(page, "#target")) == (["Our"], ["Unser"]))
    assert asked[-1] == ">>deu<< Our dog."


def test_a_long_text_scrolls_in_its_box_to_what_is_pointed_at(open_page):
    page = open_page("\n".join([SENTENCE] * 40))
    last = page.locator("#target .word", has_text="Haus").last
    last.click()
    comes(page, lambda: len(marked(page, "#behind")) == 1)
    assert is_in_view(page, "#behind .marked") and is_in_view(page, "#target .marked")
    assert page.evaluate("window.scrollY") == 0
    page.wait_for_selector("#offer button")

    def apart():
        return page.locator("#offer").bounding_box()["y"] - last.bounding_box()["y"]

    before = apart()
    page.evaluate("document.querySelector('#target').scrollTop -= 30")
    comes(page, lambda: abs(apart() - before) < 1)


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


def test_what_was_chosen_for_a_sentence_does_not_stay_for_another(open_page):
    page = open_page(address=f"#t.text={quote(SENTENCE)}&t.from.0={quote('Unser Hund')}")
    page.wait_for_selector("#undo")
    assert written(page).startswith("Unser Hund")
    page.fill("#source", OTHER)
    translated(page, OTHER_GERMAN)
    comes(page, lambda: page.inner_text("#status") == "")
    page.fill("#source", f"{OTHER} {SENTENCE}")
    page.wait_for_selector("#undo")
    assert written(page).startswith(f"{OTHER_GERMAN} Unser Hund")


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
    told = texts_of(page, "#copy")
    page.click("#copy")
    comes(page, lambda: page.evaluate("navigator.clipboard.readText()") == GERMAN)
    page.click("#copy")  # while it says that it has copied
    comes(page, lambda: len(told()) == 4)
    assert told() == ["Copied", "Copied", "Copy", "Copy"]
    page.context.clear_permissions()


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


def test_an_address_keeps_no_earlier_sentence(open_page):
    page = open_page(SENTENCE)
    page.click("#tab-attention")
    page.click("[name=view-lines]")
    page.wait_for_selector(".attention .lines path")
    comes(page, lambda: "a.view=lines" in page.url)
    page.click("#clear")
    translated(page, "")
    assert "a.view=lines" in page.url and "house" not in page.url


def test_attention_is_not_drawn_while_it_is_hidden(open_page):
    """Which would tell the console of widths that are no numbers."""
    page = open_page(SENTENCE)
    page.click("#tab-attention")
    page.wait_for_selector(".attention .map")
    page.click("#tab-search")
    page.wait_for_selector(".tree")
    page.set_viewport_size({"width": 500, "height": 800})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    page.click("#tab-attention")
    page.wait_for_selector(".attention .map")
    assert page.evaluate("document.querySelector('.picture').scrollWidth") < 500  # drawn for the new width


def test_what_is_seen_of_a_sentence_is_the_chosen_model_s(open_page):
    """Also where another model translates it to the same text. Each is asked once."""
    asked = open_page(SENTENCE).evaluate(
        """async () => {
          const {makePanel} = await import('./static/panel.js');
          const [tabs, root] = [document.createElement('div'), document.createElement('div')];
          const panel = makePanel(tabs, root, {changed() {}, pick() {}});
          const asked = [];
          for (const model of ['one', 'one', 'other']) {
            const search = async () => { asked.push(model); return {steps: []}; };
            await panel.show('search', {search: true}, model, {source: 'a', shown: 'b', fixed: ''}, {search});
          }
          return asked;
        }"""
    )
    assert asked == ["one", "other"]


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
