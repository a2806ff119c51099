"""What a training step needs at its peak grows with the vocabulary by the matrix, and not by the logits."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "loss_memory.py"


@pytest.mark.slow
def test_the_peak_grows_by_the_matrix_and_its_gradient():
    """From 37,000 tokens to 100,000: 65 MB of matrix, 516 MB of logits. The gradient is there twice; see README.md."""
    outcome = subprocess.run(
        [sys.executable, SCRIPT, "--vocabularies", "37000", "100000"], capture_output=True, text=True, timeout=600
    )
    rows = [[cell.strip() for cell in line.split("|")] for line in outcome.stdout.splitlines()]
    small, large = ([float(row[i].replace(",", "")) for i in (2, 3, 4, 5)] for row in rows[-2:])
    logits, matrix, over_logits, projecting = (after - before for before, after in zip(small, large, strict=True))
    assert (round(logits), round(matrix)) == (516, 64)
    assert over_logits > 2 * logits
    assert projecting < 3 * matrix
