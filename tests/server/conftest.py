"""One server process with the tiny model, for all tests that do not need one of their own, those of the page too."""

import shutil

import pytest

from tests.server.running import client_of, serving


@pytest.fixture(scope="package")
def server(tiny_run_directory, tiny_saved_model, tmp_path_factory):
    """Serves the tiny model as `tiny`, and as `plain`, in CTranslate2's format, which only translates."""
    from tf_transformer.experiment import export_run_ctranslate2

    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(tiny_saved_model, folder / "tiny" / "1")
    plain = export_run_ctranslate2(tiny_run_directory, folder / "plain")
    with serving(folder, folder / "tiny", plain, program=("-m", "tests.server.unoptimised")) as running:
        yield running


@pytest.fixture(scope="package")
def client(server):
    with client_of(server.url) as client:
        yield client
