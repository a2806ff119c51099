"""What the page tells of errors, and what it does about them."""

import json

import httpx
import pytest

from tests.bounded import SECONDS
from tests.browser import comes
from tests.server.page.looking import GERMAN, SENTENCE, is_in_view, marked, texts_of, translated, word


def fail(page, *answers):
    """The page's next requests to translate get these answers instead."""
    left = list(answers)

    def answer(route):
        if not left:
            return route.continue_()
        given = left.pop(0)
        return route.abort() if given is None else route.fulfill(**given)

    page.route("**/page/translate", answer)


@pytest.fixture
def failing(open_page, problems):
    """Opens a page whose first requests fail; the browser tells the console of them."""

    def opened(*answers):
        page = open_page()
        fail(page, *answers)
        return page

    yield opened
    assert all("Failed to load resource" in problem for problem in problems)
    problems.clear()


def refusal(status, message, **headers):
    return {"status": status, "headers": headers, "body": json.dumps({"error": message})}


SOON = {"Retry-After": "0.1"}
PASSING = [
    ([refusal(429, "too many", **SOON)], "The server is busy. Trying again"),
    ([refusal(503, "the server is starting", **SOON)], "The server is starting. Trying again"),
    ([refusal(503, "the server is starting", **SOON)] * 8, "The server is starting. Trying again"),
    ([refusal(503, "the server is draining", **SOON)], "The server is shutting down. Trying again"),
    ([None], "The server can’t be reached. Trying again"),
    ([refusal(502, "", **SOON)], "The server does not respond. Trying again"),
]


def test_what_may_pass_is_told_and_tried_again(failing):
    page = failing()
    for answers, told in PASSING:
        fail(page, *answers)
        texts = texts_of(page, "#status")
        page.fill("#source", SENTENCE)
        translated(page, GERMAN)
        assert any(text.startswith(told) for text in texts())
        comes(page, lambda: page.inner_text("#status") == "")
        page.fill("#source", "")
        translated(page, "")


def test_what_does_not_pass_is_told_and_left(failing):
    page = failing(refusal(413, "too large"), refusal(500, "internal server error; the server's log has the details"))
    page.fill("#source", SENTENCE)
    page.wait_for_selector("#status:has-text('This text is too long for one request.')")
    page.fill("#source", SENTENCE[:-1])
    page.wait_for_selector("#status:has-text('An error occurred on the server')")
    page.fill("#source", SENTENCE)
    translated(page, GERMAN)
    page.route("**/page/translate", lambda route: route.fulfill(**refusal(413, "too large")))
    page.fill("#source", SENTENCE[:-1])
    translated(page, "")  # what is left would be the translation of another text


def test_a_server_that_wants_a_key_is_asked_for_it(failing):
    page = failing(refusal(401, "this server requires an API key"), refusal(403, "Invalid API key"))
    keys = []

    def note(request):
        if request.url.endswith("/page/translate"):
            keys.append(request.headers.get("authorization"))

    page.on("request", note)
    page.fill("#source", SENTENCE)
    unknown = "does not accept this key"
    for key, told in (
        ("wrong", "requires an API key"),
        ("ключ", unknown),
        ("right", unknown),
    ):  # no header brings "ключ"
        page.wait_for_selector(f"#status:has-text('{told}')")
        page.wait_for_selector("#key input:focus")
        page.keyboard.type(key)
        page.keyboard.press("Enter")
    translated(page, GERMAN)
    assert keys[:3] == [None, "Bearer wrong", "Bearer right"]


def test_a_late_failure_opens_no_offer(failing):
    page, held = failing(), []
    page.route("**/page/sentence", lambda route: held.append(route))
    page.fill("#source", SENTENCE)
    translated(page, GERMAN)
    word(page, "Haus").click()
    page.wait_for_selector("#offer:has-text('Asking the model')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#offer", state="hidden")
    held[0].fulfill(**refusal(400, "out of order"))
    page.wait_for_selector("#status:has-text('Out of order.')")
    assert page.locator("#offer").is_hidden()


DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def test_a_text_above_the_limit_is_not_sent(open_page):
    page = open_page()
    for screen in (DESKTOP, PHONE):
        page.set_viewport_size(screen)
        page.fill("#source", SENTENCE)
        translated(page, GERMAN)
        word(page, "Haus").hover()
        comes(page, lambda: marked(page, "#target"))
        page.fill("#source", "a " * 10_001)
        page.wait_for_selector("#status.problem:has-text('20,002 characters; at most 20,000')")
        assert is_in_view(page, "#source-name") and is_in_view(page, "#status")
        translated(page, "")
        assert not marked(page, "#behind")
        assert page.locator("#offer").is_hidden() and page.locator("#explore").is_hidden()


def test_characters_are_counted_as_the_server_does(open_page):
    page = open_page()
    page.fill("#source", "😀" * 10_001)
    translated(page, "😀" * 10_001)
    assert page.inner_text("#count") == "10,001 of 20,000 characters"


def test_a_sentence_that_is_cut_is_told_in_view(open_page):
    page = open_page()
    for screen in (DESKTOP, PHONE):
        page.set_viewport_size(screen)
        page.fill("#source", "")
        translated(page, "")
        page.fill("#source", "a man sees the house and " * 100)
        page.wait_for_selector("#status.problem:has-text('too long for the model')")
        assert is_in_view(page, "#source-name") and is_in_view(page, "#status")


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
        ("search", {"model": "plain", "source": "a"}, 400, "no search to show"),
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
