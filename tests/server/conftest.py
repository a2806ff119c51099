"""One server process with the tiny model, for all tests that do not need one of their own."""

import shutil

import pytest

from tests.server.running import client_of, serving


@pytest.fixture(scope="package")
def server(tiny_saved_model, tmp_path_factory):
    """Serves the tiny model as `tiny`."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copytree(tiny_saved_model, folder / "tiny" / "1")
    with serving(folder, folder / "tiny") as running:
        yield running


@pytest.fixture(scope="package")
def client(server):
    with client_of(server.url) as client:
        yield client
