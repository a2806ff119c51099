"""Fixtures of tests of prepared pairs."""

import io

import pytest
from rich.console import Console

from tf_transformer.data.prepared import preparing


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=300)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(preparing, "PART", 100)
