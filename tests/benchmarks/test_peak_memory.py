"""Memory of all processes of a command, held at the same time."""

import re
import subprocess
import sys

import pytest

from tests.documents import ROOT


@pytest.mark.skipif(sys.platform != "linux", reason="proportional set sizes are Linux's")
def test_a_child_s_memory_counts(tmp_path):
    program = tmp_path / "holding.py"
    program.write_text(
        "import subprocess, sys, time\n"
        "data = bytearray(b'x' * 200 * 2**20)\n"
        "child = None if len(sys.argv) > 1 else subprocess.Popen([sys.executable, __file__, 'child'])\n"
        "time.sleep(5)\n"
        "sys.exit(child.wait() or 3 if child else 0)\n"
    )
    words = [sys.executable, ROOT / "benchmarks" / "peak_memory.py", sys.executable, program]
    process = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert process.returncode == 3
    peak, number = re.match(r"peak: ([\d.]+) GiB in (\d+) processes\n", process.stderr).groups()
    assert int(number) == 2
    assert 0.39 < float(peak) < 0.47
