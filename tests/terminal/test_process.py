"""What the environment of a command tells TensorFlow."""

import os
import shlex

import pytest

from tf_transformer.terminal.process import keep_what_xla_compiles


@pytest.mark.parametrize("name", ["cache", "my cache", """a "b" 'c' \\d\\"""])
def test_xlas_programs_are_kept_in_the_folder_whatever_its_name(tmp_path, monkeypatch, name):
    """TensorFlow reads quotes as a shell does: tests/cli/test_processes.py looks where the programs are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    monkeypatch.delenv("TF_XLA_FLAGS")  # so that it is as before at the end
    keep_what_xla_compiles()
    folder = tmp_path / name / "tf_transformer" / "xla"
    assert folder.is_dir()
    assert shlex.split(os.environ["TF_XLA_FLAGS"]) == [f"--tf_xla_persistent_cache_directory={folder}"]
