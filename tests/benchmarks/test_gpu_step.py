"""The benchmark of the step alone, here on the CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


# To compile takes half a minute, and is the whole of the difference.
@pytest.mark.parametrize(
    "options",
    [pytest.param([], marks=pytest.mark.thorough), pytest.param(["--xla"], marks=pytest.mark.slow)],
    ids=["plain", "xla"],
)
def test_it_tells_the_time_of_a_step(tmp_path, options):
    """Its rate is that of the positions of the batches it made: 3 rows of 28, in the median pass."""
    output = tmp_path / "figures.json"
    sizes = ["--size", "toy", "--positions", "100", "--batches", "2", "--passes", "3"]
    command = [sys.executable, BENCHMARKS / "gpu_step.py", *sizes, *options, "--output", output]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    figures = json.loads(output.read_text())
    assert len(figures["step_ms"]) == 3
    middle = sorted(figures["step_ms"])[1]
    assert figures["target_positions_a_second"] == pytest.approx(1000 * 84 / middle)
    assert f"{middle:.1f} ms a step" in told
    assert figures["xla"] == bool(options)
