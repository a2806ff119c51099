"""Where Apache Beam is not installed, one line says what to do."""

import subprocess
import sys

from tests.bounded import SECONDS

WITHOUT = """
import runpy, sys
sys.modules["apache_beam"] = None
sys.argv = ["program", *sys.argv[1:]]
runpy.run_module("tf_transformer.apache_beam", run_name="__main__")
"""


def test_it_is_told_how_to_install_it():
    program = [sys.executable, "-c", WITHOUT]
    ended = subprocess.run([*program, "model", "in", "out"], capture_output=True, text=True, timeout=SECONDS)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith("python -m tf_transformer.apache_beam: Apache Beam can't be imported")
    assert "pip install 'tf_transformer[beam]'" in ended.stderr
    shown = subprocess.run([*program, "--help"], capture_output=True, text=True, timeout=SECONDS)
    assert shown.returncode == 0 and "OUTPUT" in shown.stdout
