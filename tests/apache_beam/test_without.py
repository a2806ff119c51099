"""Where Apache Beam is not installed, one line says what to do."""

import subprocess
import sys

import pytest

from tests.bounded import SECONDS
from tf_transformer.apache_beam.__main__ import parser

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


@pytest.mark.parametrize("option", ["--batch-size", "--shard-lines"])
@pytest.mark.parametrize("value", ["0", "-5", "1.5", "many"])
def test_numbers_below_one_are_refused(option, value, capsys):
    given = parser().parse_args(["model", "in", "out", f"{option}=1"])
    assert vars(given)[option.strip("-").replace("-", "_")] == 1
    with pytest.raises(SystemExit):
        parser().parse_args(["model", "in", "out", f"{option}={value}"])
    told = f"argument {option}: {value} was given; it must be a whole number, at least 1"
    assert told in capsys.readouterr().err
