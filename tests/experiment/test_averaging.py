"""The mean of checkpoints, against NumPy."""

import fcntl
import os

import numpy as np
import pytest

from tests.experiment.small_recipe import recipe
from tf_transformer import Transformer, UserError, experiment, load_model
from tf_transformer.experiment import averaging, fitting, runner
from tf_transformer.experiment.averaging import average_checkpoints
from tf_transformer.files.whole import written_whole
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.training import freeze


def checkpoint(run, step, width=8, heads=2, dropout=0.1, frozen=()):
    """A checkpoint of random weights."""
    model = Transformer(1, width, heads, 16, 20, 20, share_embeddings="all", dropout_rate=dropout)
    model.build(((None, None), (None, None)))
    random = np.random.default_rng(step)
    for weight in model.trainable_variables:
        weight.assign(random.standard_normal(weight.shape))
    freeze(model, frozen)
    model.save(run.checkpoints / f"step-{step:08d}.keras")
    return [np.array(weight) for weight in model.weights]


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path / "run")
    run.recipe.touch()
    return run


def test_the_last_ones_are_averaged_and_become_the_runs_model(run):
    # A training that was begun from another's state may have another rate of dropout, and files of an earlier version
    # do not say which weights are frozen.
    saved = [checkpoint(run, step, dropout=rate) for step, rate in ((10, 0.1), (20, 0.3))]
    saved.append(checkpoint(run, 100, frozen=["encoder"]))
    assert average_checkpoints(run, last=2) == run.average
    loaded = load_model(run.path)
    for got, second, third in zip(loaded.weights, *saved[1:], strict=True):
        np.testing.assert_allclose(np.array(got), (second + third) / 2, atol=1e-6)
    assert not list(run.checkpoints.glob(".partial*"))
    # Another average replaces it, and is of single steps again.
    average_checkpoints(run, last=3)
    for got, *of_steps in zip(load_model(run.path).weights, *saved, strict=True):
        np.testing.assert_allclose(np.array(got), np.mean(of_steps, axis=0), atol=1e-6)


def test_two_are_written_one_after_the_other(run, monkeypatch):
    """Else both would write into the same half-written file."""

    def written_where_held(path, what):
        descriptor = os.open(run.path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        return written_whole(path, what)

    monkeypatch.setattr(averaging, "written_whole", written_where_held)
    checkpoint(run, 10)
    assert average_checkpoints(run, last=1).is_file()


def test_more_than_there_are_is_refused(run):
    checkpoint(run, 10)
    with pytest.raises(UserError, match="only 1 checkpoints, so the last 2 can't be averaged"):
        average_checkpoints(run, last=2)
    assert not run.average.exists()


@pytest.mark.parametrize("other", [{"width": 12}, pytest.param({"heads": 4}, marks=pytest.mark.thorough)], ids=str)
def test_checkpoints_of_different_models_are_refused(run, other):
    checkpoint(run, 10, **other)
    checkpoint(run, 20)
    with pytest.raises(UserError, match="step-00000010.keras: its model differs from that of step-00000020.keras"):
        average_checkpoints(run, last=2)
    assert not run.average.exists()


def test_none_can_not_be_averaged(run):
    checkpoint(run, 10)
    for last in (0, -1):
        with pytest.raises(UserError, match="give at least 1"):
            average_checkpoints(run, last=last)
    assert not run.average.exists()


@pytest.mark.slow
def test_an_average_made_in_mid_training_is_not_its_result(eager, tmp_path, monkeypatch):
    def fit_and_average(model, training, *arguments):
        seconds = fitting.fit(model, training, *arguments)
        average_checkpoints(training.run, 2)
        return seconds

    monkeypatch.setattr(runner, "fit", fit_and_average)
    trained = experiment.train(recipe(distribution="single"), tmp_path / "run")
    assert trained.best_checkpoint() == trained.best
