"""A server of a SavedModel and of a model that only translates, and its page in a browser."""

import shutil
from urllib.parse import quote

import pytest

from tests.server.running import serving


@pytest.fixture(scope="package")
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
