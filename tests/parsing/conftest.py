"""What the tests of parsing share."""

import pytest


@pytest.fixture(scope="session")
def craft(shared_data):
    """The folder of the CRAFT treebank; skips the test where it is absent."""
    folder = shared_data / "trees"
    if not folder.is_dir():
        pytest.skip("needs the CRAFT treebank in ../shared/data/trees, which is not here")
    return folder
