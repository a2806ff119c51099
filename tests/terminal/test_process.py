"""What the environment of a command tells TensorFlow."""

import os
import shlex

import pytest

from tf_transformer.terminal import process


@pytest.mark.parametrize("name", ["cache", "my cache", """a "b" 'c' \\d\\"""])
def test_xlas_programs_are_kept_in_the_folder_whatever_its_name(tmp_path, monkeypatch, name):
    """TensorFlow reads quotes as a shell does: tests/cli/test_processes.py looks where the programs are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    monkeypatch.delenv("TF_XLA_FLAGS")  # so that it is as before at the end
    process.keep_what_xla_compiles()
    folder = tmp_path / name / "tf_transformer" / "xla"
    assert folder.is_dir()
    assert shlex.split(os.environ["TF_XLA_FLAGS"]) == [f"--tf_xla_persistent_cache_directory={folder}"]


@pytest.mark.parametrize(
    ("bound", "own", "expected"), [(64, None, "3"), (3, None, None), (64, "7", "7")], ids=["quota", "none", "user's"]
)
def test_operations_have_no_more_threads_than_a_quota_allows(monkeypatch, bound, own, expected):
    monkeypatch.setattr("tf_transformer.session.c_api.library", lambda: None)
    monkeypatch.setattr(process, "cores", lambda: 3)
    monkeypatch.setattr(process, "bound_cores", lambda: bound)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", own or "")
    if own is None:
        monkeypatch.delenv("TF_NUM_INTRAOP_THREADS")
    with process.quiet_tensorflow(session=True):
        pass
    assert os.environ.get("TF_NUM_INTRAOP_THREADS") == expected
