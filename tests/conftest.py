"""What every test may use."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora beside the checkout; skips the test where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("needs the real corpora in ../shared/data, which are not here")
    return SHARED_DATA
