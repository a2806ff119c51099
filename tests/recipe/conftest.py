"""What the tests of recipes share."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a recipe; gives its path."""

    def write(text):
        path = tmp_path / "x.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
