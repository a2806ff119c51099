"""The benchmark of translations in shards measures both, and leaves nothing behind."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bounded import SECONDS
from tests.tiny_run import write_pairs

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "shards.py"


@pytest.mark.thorough
def test_both_are_measured(tiny_saved_model, tmp_path):
    source, _ = write_pairs(tmp_path)
    words = [sys.executable, SCRIPT, tiny_saved_model, source, "--lines", "100", "--rounds", "2", "--beam-size", "1"]
    outcome = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert outcome.returncode == 0, outcome.stderr
    head, *rounds, clock, processors = outcome.stdout.splitlines()
    assert head.startswith("100 lines, tensorflow, beam 1, ")
    assert [line.partition(":")[0] for line in rounds] == ["round 1", "round 2"]
    figures = r"[\d,]+ lines a second alone, [\d,]+ in shards, [+-][\d.]+%"
    assert re.fullmatch(f"by the clock: {figures}", clock) and re.fullmatch(f"of the processors: {figures}", processors)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.de", "pairs.en"]
