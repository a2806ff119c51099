"""A training that was stopped, which tests go on with or damage."""

import io
import shutil

import pytest
from rich.console import Console

from tests.eager import eagerly
from tests.experiment.small_recipe import ctrl_c_after, on
from tests.tiny_run import PAIRS
from tf_transformer import experiment
from tf_transformer.experiment import runner
from tf_transformer.runs.directory import RunDirectory

STOPPED = 5  # in the middle of an epoch


class Begun(Exception):
    """All is there that the first step needs."""


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=300)


@pytest.fixture
def short(eager, tmp_path):
    return on(tmp_path, PAIRS, 64, max_length=32, steps=2, validate_every=2)


@pytest.fixture
def until_it_begins(monkeypatch):
    """Trainings end before their first step, and make no batches, which takes longest."""

    def begun(model, training, *others):
        raise Begun(others[-1])  # the step of the other run's state

    monkeypatch.setattr(runner, "tell_data", lambda *arguments: None)
    monkeypatch.setattr(runner, "recipe_batches", lambda *arguments: None)
    monkeypatch.setattr(runner, "fit", begun)


@pytest.fixture(scope="session")
def stopped_once(tmp_path_factory):
    """A recipe, and the folder of a run by it that was stopped. Nothing may be changed in it."""
    folder = tmp_path_factory.mktemp("stopped")
    loaded = on(folder, PAIRS, 64, max_length=32, steps=6, validate_every=3, save_every_seconds=60)
    with ctrl_c_after(STOPPED), eagerly():
        experiment.train(loaded, folder / "run")
    return loaded, folder / "run"


@pytest.fixture
def stopped(eager, stopped_once, tmp_path):
    """A recipe, and a run of one's own that was stopped."""
    loaded, folder = stopped_once
    shutil.copytree(folder, tmp_path / "stopped")
    return loaded, RunDirectory(tmp_path / "stopped")
