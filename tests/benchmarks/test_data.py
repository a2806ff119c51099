"""The benchmark of data, with a small corpus: each of its steps ends and tells its figures."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "data.py"


@pytest.mark.slow
def test_it_tells_its_figures(shared_data, tmp_path):
    sizes = ["--pairs", "3000", "--vocabulary", "2000", "--batch-tokens", "1000", "--cores", "1"]
    words = [sys.executable, SCRIPT, "--data", shared_data, "--folder", tmp_path, *sizes]
    outcome = subprocess.run(words, capture_output=True, text=True, timeout=900, check=True)
    told = outcome.stdout
    assert re.search(r"^corpus: 3,000 pairs, 2[0-4]\.\d words per side$", told, re.MULTILINE)
    assert re.search(r"^preparing on 1 core\(s\): .* pairs a second; .* a second of CPU$", told, re.MULTILINE)
    for name in ("batches", "streamed"):
        assert re.search(rf"^{name}: [\d,]+ pairs a second of CPU", told, re.MULTILINE)
    assert re.search(r"^new run: \d+\.\d s from the command", told, re.MULTILINE)
    assert re.search(r"^resumed at step 100,000: \d+\.\d s from the command", told, re.MULTILINE)
