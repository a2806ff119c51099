"""The page of scaling has what the script reckons, and the formulas are the ring's."""

from pathlib import Path

import pytest
import scaling

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_tables():
    assert scaling.reckon() in (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")


def test_a_ring_by_hand():
    """Four devices: each sends 6 quarters of 8 GB, at 0.8 GB/s, and waits 6 times for a message."""
    link = scaling.Link("slow", 1e9, 0.5)
    assert scaling.all_reduce_seconds(8e9, 4, link) == pytest.approx(6 / 4 * 8 / 0.8 + 6 * 0.5)
    assert scaling.all_reduce_seconds(8e9, 1, link) == 0


def test_the_rates_of_the_h100_are_those_that_were_measured():
    """They are in the table of docs/gpu.md, in the rows of steps without XLA."""
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    for name, rate in scaling.H100_RATE.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {name}, `jit_compile: false` |")]
        assert row.split("|")[3].strip() == f"{rate:,.0f}"
