"""A training that is killed and started again ends as one that is not: the same bits in the weights and the log."""

import math
import signal
import subprocess
import time
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.cli.command import COMMAND, contents
from tests.test_experiment import figures
from tests.tiny_run import RECIPE, settings, write_pairs
from tf_transformer.errors import UserError
from tf_transformer.run_directory import RunDirectory
from tf_transformer.training.callbacks import Checkpoints
from tf_transformer.training.state import TrainingState

# All that a training remembers beside weights and optimizer: dropout's seeds, an average of the weights, the best
# perplexity, validations without improvement. The order of the pairs changes with each epoch of two batches.
CHANGES = {
    "training__steps": 48,
    "training__validate_every": 8,
    "training__keep_checkpoints": 3,
    "training__average_checkpoints": 3,
    "training__ema": 0.9,
    "training__early_stopping": 4,
    "model__dropout_rate": 0.1,
}
SECONDS = 300


def start(folder: Path, *more: str, **changes) -> subprocess.Popen:
    overrides = [part for each in settings(folder / "data", **{**CHANGES, **changes}) for part in ("--set", each)]
    command = [COMMAND, "train", str(RECIPE), *overrides, *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ends(process: subprocess.Popen, status: int = 0) -> str:
    _, told = process.communicate(timeout=SECONDS)
    assert process.returncode == status, told
    return told


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    (folder / "data").mkdir()
    write_pairs(folder / "data")
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    """A run that nothing disturbed."""
    ends(start(folder, "--run-dir", str(folder / "whole")))
    return RunDirectory.open(folder / "whole")


def killed_after(folder: Path, name: str, states: int) -> RunDirectory:
    """A run that was killed when it had saved so many states."""
    run = RunDirectory(folder / name)
    process = start(folder, "--run-dir", str(run.path))
    deadline = time.monotonic() + SECONDS
    while not (run.training_state / f"step-{8 * states:08d}").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return run


def optimizer_state(model: keras.Model) -> list[np.ndarray]:
    """Empty for the average, which nothing is trained from."""
    return [variable.numpy() for variable in model.optimizer.variables] if getattr(model, "optimizer", None) else []


def assert_same(run: RunDirectory, other: RunDirectory) -> None:
    names = {path.name for path in run.checkpoints.iterdir()}
    assert names == {path.name for path in other.checkpoints.iterdir()}
    for name in names:
        models = [keras.saving.load_model(each.checkpoints / name) for each in (run, other)]
        ours, theirs = (model.get_weights() + optimizer_state(model) for model in models)
        assert all(np.array_equal(*values) for values in zip(ours, theirs, strict=True)), name
    for part in "train", "validation":
        ours, theirs = (figures(each.logs / part) for each in (run, other))
        for tag in ("epoch_loss", "epoch_perplexity"):
            # A validation whose state was not saved is made and logged again, alike.
            assert dict(ours[tag]) == dict(theirs[tag])


@pytest.fixture(scope="module")
def killed(folder):
    """A run that was killed twice."""
    killed_after(folder, "killed", 1)
    return killed_after(folder, "killed", 3)


def test_a_training_that_was_broken_off_is_left_alone_by_others(folder, killed):
    before = contents(killed.path)
    assert "holds another run" in ends(start(folder, "--run-dir", str(killed.path), "--resume", "never"), status=2)
    told = ends(start(folder, "--run-dir", str(killed.path), model__dff=32, seed=3), status=2)
    assert "differs in seed, model.dff" in " ".join(told.split())
    assert contents(killed.path) == before


def test_killed_twice_and_with_a_damaged_state_it_ends_as_if_nothing_had_been(folder, whole, killed):
    newest = sorted(killed.training_state.glob("step-*"))[-1]
    values = next(newest.glob("*.data-*"))
    content = bytearray(values.read_bytes())
    content[len(content) // 2] ^= 1
    values.write_bytes(content)
    told = ends(start(folder, "--run-dir", str(killed.path)))
    assert f"{newest}: damaged, passed over" in told.replace("\n", "")
    assert f"going on from step {int(newest.name.split('-')[1]) - 8}" in told
    assert_same(killed, whole)
    assert not killed.is_unfinished()
    assert "holds another run" in ends(start(folder, "--run-dir", str(killed.path)), status=2)


def test_figures_are_finite(whole):
    """What the others compare is no row of NaN."""
    losses = figures(whole.logs / "train")["epoch_loss"]
    assert len(losses) == 6 and all(math.isfinite(value) for _, value in losses)


def small_model() -> keras.Model:
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_from_a_damaged_state_a_model_gets_nothing(tmp_path, place):
    """Not even the values that stand before the damage."""
    (tmp_path / "checkpoints").mkdir()
    state, saved = TrainingState(tmp_path / "state", Checkpoints(tmp_path / "checkpoints", 1)), small_model()
    state.set_model(saved)
    state.on_epoch_end(0)
    (path,) = state.saved()
    values = next(path.glob("*.data-*"))
    content = bytearray(values.read_bytes())
    content[int(len(content) * place)] ^= 1
    values.write_bytes(content)
    model = small_model()
    before = model.get_weights()
    assert state.restore(model) == [path]
    assert all(np.array_equal(*values) for values in zip(before, model.get_weights(), strict=True))
    assert not path.exists()


def test_a_state_of_another_optimizer_is_told_and_kept(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    state, saved = TrainingState(tmp_path / "state", Checkpoints(tmp_path / "checkpoints", 1)), small_model()
    state.set_model(saved)
    state.on_epoch_end(0)
    state.checkpoints.set_model(saved)
    state.checkpoints.save()
    before = contents(tmp_path)
    model = small_model()
    model.optimizer.add_variable((), name="another")
    with pytest.raises(UserError, match="whole, but not of this model and optimizer"):
        state.restore(model)
    assert contents(tmp_path) == before
