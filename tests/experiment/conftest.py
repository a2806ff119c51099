"""What fine-tunings begin from."""

import shutil

import pytest

from tests.experiment.fine_tuned import OTHERS
from tests.tiny_run import write_pairs
from tf_transformer.runs.directory import RunDirectory


@pytest.fixture(scope="module")
def origin(tiny_run_directory, tmp_path_factory):
    """A copy of the run, which tests may take away."""
    return RunDirectory(shutil.copytree(tiny_run_directory.path, tmp_path_factory.mktemp("origin") / "run"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two sets of pairs: those that the origin knows, and others."""
    folder = tmp_path_factory.mktemp("data")
    write_pairs(folder)
    for name in ("pairs.en", "pairs.de"):
        (folder / name).rename(folder / name.replace("pairs", "known"))
    write_pairs(folder, OTHERS)
    return folder
