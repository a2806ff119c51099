"""What the environment of a command tells TensorFlow."""

import os
import resource
import shlex
import signal
from pathlib import Path

import pytest

from tf_transformer.files.home import below_home
from tf_transformer.terminal import process


@pytest.fixture
def unset(monkeypatch):
    """Takes variables out of the environment, which are as before at the end."""

    def unset(*names):
        for name in names:
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)

    return unset


@pytest.fixture
def kept_in(tmp_path, monkeypatch, unset):
    """Where XLA's programs are kept, in a cache of the given name; None for nowhere."""

    def kept_in(name="cache"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        unset("TF_XLA_FLAGS")
        process.keep_what_xla_compiles()
        flags = shlex.split(os.environ.get("TF_XLA_FLAGS", ""))
        return Path(flags[0].removeprefix("--tf_xla_persistent_cache_directory=")) if flags else None

    return kept_in


@pytest.mark.parametrize("name", ["cache", "my cache", """a "b" 'c' \\d\\"""])
def test_xlas_programs_are_kept_in_the_folder_whatever_its_name(kept_in, tmp_path, name):
    """TensorFlow reads quotes as a shell does: tests/cli/test_processes.py looks where the programs are."""
    folder = kept_in(name)
    assert folder.is_dir() and not list(folder.iterdir())
    assert folder.parent == tmp_path / name / "tf_transformer" / "xla"


def test_xlas_programs_are_not_kept_where_they_can_not_be_written(kept_in):
    """A file may have only some bytes, which is as if a quota were used up."""
    assert kept_in()
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
        assert kept_in() is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_xlas_programs_are_kept_apart_for_each_kind_of_machine(kept_in, tmp_path, monkeypatch):
    processor, gpu = tmp_path / "cpuinfo", tmp_path / "information"
    monkeypatch.setattr(process, "_MACHINE", (str(processor), str(gpu)))
    processor.write_text(
        "model name\t: A\ncpu MHz\t: 2596.1\nflags\t: fpu avx2\n\nmodel name\t: A\nflags\t: fpu avx2\n"
    )
    folder = kept_in()
    processor.write_text(
        "model name\t: A\ncpu MHz\t: 3000.0\nflags\t: fpu avx2\n"
    )  # faster, and without the other core
    assert kept_in() == folder
    processor.write_text("model name\t: A\ncpu MHz\t: 3000.0\nflags\t: fpu avx2 avx512f\n")
    folders = {folder, kept_in()}
    gpu.write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 1\n")
    folders.add(kept_in())
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"the next {name}")
    folders.add(kept_in())
    assert len(folders) == 4


def test_a_home_that_can_only_be_read_is_still_what_a_tilde_means(tmp_path, monkeypatch, unset):
    monkeypatch.setenv("HOME", str(tmp_path))
    unset("KERAS_HOME", "MPLCONFIGDIR")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with process.some_home():
        assert below_home("~/corpus") == tmp_path / "corpus"
        folders = [Path(os.environ[name]) for name in ("KERAS_HOME", "MPLCONFIGDIR")]
        assert all(folder.is_dir() and folder != tmp_path for folder in folders)


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
