"""A real browser and its pages, for every test that looks at one."""

import contextlib
import shutil
import time
from functools import partial

import pytest

from tests.bounded import SECONDS

BROWSERS = "chromium", "chromium-browser", "google-chrome"
BROWSER_ARGUMENTS = [
    "--no-sandbox",  # which a container's root can't have
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
VIEWPORT = {"width": 1280, "height": 800}


@contextlib.contextmanager
def running_chromium():
    """A headless Chromium, driven by Playwright."""
    path = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if not path:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is here")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=1000 * SECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium():
    with running_chromium() as browser:
        yield browser


@contextlib.contextmanager
def new_context(chromium, **options):
    """What pages share, such as what they have stored."""
    with contextlib.closing(chromium.new_context(viewport=VIEWPORT, **options)) as context:
        context.set_default_timeout(1000 * SECONDS)
        yield context


@pytest.fixture(scope="module")
def context(chromium):
    """That of all pages of a file: a page with one of its own takes a second more."""
    with new_context(chromium) as context:
        yield context


@pytest.fixture(scope="module")
def problems():
    """What the pages have told the console of errors."""
    return []


def comes(page, condition):
    """Waits until something holds, while the browser goes on."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        page.wait_for_timeout(20)


def make_page(context, problems, stack, viewport=VIEWPORT, color_scheme=None):
    """Opens a page that is closed with the stack."""
    page = context.new_page()
    stack.callback(page.close)
    if viewport != VIEWPORT:
        page.set_viewport_size(viewport)
    if color_scheme:
        page.emulate_media(color_scheme=color_scheme)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    return page


@pytest.fixture
def no_problems(problems):
    """No page may tell the console of an error."""
    problems.clear()
    yield
    assert problems == []


@pytest.fixture
def new_page(context, problems, no_problems):
    """Opens pages of a given size."""
    with contextlib.ExitStack() as stack:
        yield partial(make_page, context, problems, stack)
