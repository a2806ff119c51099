"""The page of the server in a browser."""

from urllib.parse import quote

import pytest

from tests.browser import running_chromium


@pytest.fixture(scope="package")
def chromium():
    """One for all files."""
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def lasting_page(context, server):
    """Keeps what it has loaded at hand for the others, which then take half the time."""
    context.new_page().goto(server.url)


@pytest.fixture
def open_page(new_page, server, lasting_page):
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
