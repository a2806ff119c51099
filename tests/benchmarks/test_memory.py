"""A program that trains, exports or loads models again and again does not grow."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "memory.py"


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["fit", "export", "load"])
def test_ten_rounds_grow_by_less_than_a_hundredth_after_the_third(loop):
    outcome = subprocess.run([sys.executable, SCRIPT, "--loops", loop], capture_output=True, text=True, timeout=1200)
    assert outcome.returncode == 0, outcome.stderr
    cells = [cell.strip() for cell in outcome.stdout.splitlines()[-1].strip("| ").split("|")]
    third, last = (float(cells[i].replace(",", "")) for i in (3, 10))
    assert last < 1.01 * third, outcome.stdout
