"""Memory of all processes of a command, held at the same time."""

import re
import subprocess
import sys

import pytest

from tests.bounded import SECONDS
from tests.documents.reading import ROOT

# Looks at the memory more often than the script does by itself.
SCRIPT = """
import sys
sys.path.insert(0, "benchmarks")
import peak_memory
peak_memory.EVERY = 0.1
sys.exit(peak_memory.main())
"""

# Has memory beside its child, until the script has gone to sleep ten times, and so looked at both of them.
PROGRAM = """
import os, re, subprocess, sys, time
from pathlib import Path

data = bytearray(200 * 2**20)
data[::1024] = b"x" * (len(data) // 1024)  # a page is there once something is written to it

def slept():
    threads = Path("/proc", sys.argv[1], "task").glob("*/status")
    return sum(int(line.split()[1]) for file in threads for line in file.open() if line.startswith("voluntary"))

if len(sys.argv) == 1:
    sys.exit(subprocess.Popen([sys.executable, __file__, str(os.getppid())]).wait() or 3)
end = slept() + 10
while slept() < end:
    time.sleep(0.05)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="proportional set sizes are Linux's")
def test_a_child_s_memory_counts(tmp_path):
    program = tmp_path / "holding.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-c", SCRIPT, sys.executable, program]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    assert process.returncode == 3, process.stderr
    peak, number = re.match(r"peak: ([\d.]+) GiB in (\d+) processes\n", process.stderr).groups()
    assert int(number) == 2
    assert 0.39 < float(peak) < 0.47
