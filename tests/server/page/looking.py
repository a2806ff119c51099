"""What is looked at in the page, and waited for."""

import re

import httpx

from tests.bounded import SECONDS
from tests.tiny_run import PAIRS

SENTENCE, GERMAN = PAIRS[0]  # A man sees a house.
OTHER, OTHER_GERMAN = PAIRS[13]


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


def is_in_view(page, selector):
    return page.evaluate(
        """selector => {
            const {top, bottom} = document.querySelector(selector).getBoundingClientRect();
            return 0 <= top && top < bottom && bottom <= window.innerHeight;
        }""",
        selector,
    )


def predict(server, signature, **inputs):
    answer = httpx.post(
        f"{server.url}/v1/models/tiny:predict", json={"signature_name": signature, "inputs": inputs}, timeout=SECONDS
    )
    return answer.raise_for_status().json()["outputs"]
