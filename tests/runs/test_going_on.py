"""A training that is killed or stopped, and started again, ends as one that is not: the same bits in weights and log.

Here processes train, of which some are killed: most of this is slow, and so are the twenty kills of one training in
`tests/runs/test_kills.py`. What one process can tell of it is in `tests/runs/test_resuming.py`.
"""

import math
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import keras
import numpy as np
import pytest

import tf_transformer.models.transformer  # noqa: F401  Keras loads the class once it is imported
from tests.bounded import eventually, started
from tests.cli.command import COMMAND, contents
from tests.experiment.looked_at import figures
from tests.tiny_run import RECIPE, settings, write_pairs
from tf_transformer import experiment, load_recipe
from tf_transformer.errors import UserError
from tf_transformer.runs import Checkpoints
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.state import TrainingState, state_step
from tf_transformer.training.pace import Pace

# All that a training remembers beside weights and optimizer: dropout's seeds, an average of the weights, the best
# perplexity, validations without improvement, an epoch's figures so far. The order of the pairs changes with each epoch
# of two batches.
CHANGES = {
    "training__steps": 48,
    "training__validate_every": 8,
    "training__keep_checkpoints": 3,
    "training__average_checkpoints": 3,
    "training__ema": 0.9,
    "training__early_stopping": 4,
    "training__save_every_seconds": 0,  # after each step
    "training__parallel_parts": 2,  # whose operations run in any order
    "model__dropout_rate": 0.1,
}
SECONDS = 300


def overrides(folder: Path, **changes) -> list[str]:
    return settings(folder / "data", **{**CHANGES, **changes})


@contextmanager
def training(folder: Path, run: RunDirectory, *more: str, **changes) -> Iterator[subprocess.Popen]:
    """A process that trains, until the end of the context, by which it is killed."""
    given = [part for each in overrides(folder, **changes) for part in ("--set", each)]
    command = [COMMAND, "train", str(RECIPE), *given, "--run-dir", str(run.path), *more]
    with started(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def ends(process: subprocess.Popen, status: int = 0) -> str:
    """What a process told by its end, in one line."""
    _, told = process.communicate(timeout=SECONDS)
    assert process.returncode == status, told
    return " ".join(told.split())


def train_all(folder: Path, run: RunDirectory, **changes) -> str:
    """Trains to the end; gives what was told."""
    with training(folder, run, **changes) as process:
        return ends(process)


def wait_for(process: subprocess.Popen, condition) -> None:
    eventually(lambda: condition() or process.poll() is not None, SECONDS, every=0.001)
    assert process.poll() is None, process.communicate(timeout=SECONDS)


def half_written(run: RunDirectory) -> set[str]:
    """The states that are being written; or were, when the process that wrote them was killed."""
    return {path.name for path in run.training_state.glob(".partial-*")}


def newest(run: RunDirectory) -> int:
    """The step of the newest state; 0 without any."""
    return max((state_step(path) for path in run.training_state.glob("step-*")), default=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    (folder / "data").mkdir()
    write_pairs(folder / "data")
    return folder


@pytest.fixture(scope="module")
def whole(folder):
    """A run that nothing disturbed, and that saved no state within an epoch."""
    run = RunDirectory(folder / "whole")
    train_all(folder, run, training__save_every_seconds=60)
    return run


@pytest.fixture(scope="module")
def killed(folder):
    """A run that was killed at any time, and then while it wrote a state."""
    run = RunDirectory(folder / "killed")
    with training(folder, run) as process:
        wait_for(process, lambda: newest(run))
        delay = random.random()
        print(f"killed {delay:.3f} s after the first state")
        time.sleep(delay)
    reached = newest(run)
    with training(folder, run) as process:
        wait_for(process, lambda: newest(run) > reached and half_written(run))
    return run


def optimizer_state(model: keras.Model) -> list[np.ndarray]:
    """Empty for the average, which nothing is trained from."""
    return [variable.numpy() for variable in model.optimizer.variables] if getattr(model, "optimizer", None) else []


def flip_a_bit(file: Path, place: float) -> None:
    """At so far into a file, from 0 to 1."""
    content = bytearray(file.read_bytes())
    content[int(len(content) * place)] ^= 1
    file.write_bytes(content)


def assert_same(run: RunDirectory, other: RunDirectory) -> None:
    names = {path.name for path in run.checkpoints.iterdir()}
    assert names == {path.name for path in other.checkpoints.iterdir()}
    for name in names:
        models = [keras.saving.load_model(each.checkpoints / name) for each in (run, other)]
        ours, theirs = (model.get_weights() + optimizer_state(model) for model in models)
        assert all(np.array_equal(*values) for values in zip(ours, theirs, strict=True)), name
    for part in "train", "validation":
        ours, theirs = (figures(each.logs / part) for each in (run, other))
        for tag in ("quality/loss", "quality/perplexity"):
            assert ours[tag] == theirs[tag]  # each step once


def test_a_training_that_was_broken_off_is_left_alone_by_others(stopped):
    recipe, run = stopped
    before = contents(run.path)
    with pytest.raises(UserError, match="contains another run"):
        experiment.train(recipe, run.path, resume="never")
    other = recipe.model_copy(update={"seed": 3, "model": recipe.model.model_copy(update={"dff": 64})})
    with pytest.raises(UserError, match=r"differs in seed, model\.dff"):
        experiment.train(other, run.path)
    assert contents(run.path) == before


def test_a_second_process_is_refused_while_one_trains(stopped):
    """The training that ended has left no lock behind: this one takes it."""
    recipe, run = stopped
    with run.locked(), pytest.raises(UserError, match=r"another process is training here \(process \d+ on "):
        experiment.train(recipe, run.path)
    with run.locked():
        pass


@pytest.mark.slow
def test_killed_stopped_and_with_a_damaged_state_it_ends_as_if_nothing_had_been(folder, whole, killed):
    reached = newest(killed)
    with training(folder, killed) as process:
        wait_for(process, lambda: newest(killed) > reached + 2)
        process.terminate()
        told = ends(process, status=75)  # EX_TEMPFAIL
    stopped = newest(killed)
    assert stopped > reached
    assert "SIGTERM: stopping after the current step; a second signal ends the process at once" in told
    assert f"stopped by SIGTERM; the same command resumes from step {stopped}" in told
    assert not half_written(killed)

    state = killed.training_state / f"step-{stopped:08d}"
    flip_a_bit(next(state.glob("*.data-*")), 0.5)
    before = sorted(path.name for path in killed.training_state.glob("step-*"))[-2]
    told = train_all(folder, killed)
    assert f"{state}: damaged, skipped" in told
    assert f"resuming from step {int(before.split('-')[1])}" in told
    assert_same(killed, whole)
    assert not killed.is_unfinished()
    with pytest.raises(UserError, match="contains a finished training"):
        experiment.train(load_recipe(RECIPE, overrides(folder)), killed.path)


@pytest.mark.slow
def test_a_difference_of_one_bit_would_be_noticed(whole, killed, tmp_path):
    """After the test above, both runs are the same."""
    other = RunDirectory(tmp_path / "other")
    shutil.copytree(killed.path, other.path)
    model = keras.saving.load_model(other.average)
    weight = model.trainable_variables[-1]
    weight.assign(np.nextafter(weight.numpy(), np.float32(np.inf)))
    model.save(other.average)
    with pytest.raises(AssertionError, match=r"average\.keras"):
        assert_same(other, whole)


@pytest.mark.slow
def test_figures_are_finite(whole):
    """What the others compare is no row of NaN."""
    losses = figures(whole.logs / "train")["quality/loss"]
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
    state.wait()
    (path,) = state.saved()
    values = next(path.glob("*.data-*"))
    flip_a_bit(values, place)
    # What else lies there is all that is left of the training.
    state.checkpoints.set_model(saved)
    state.checkpoints.on_epoch_end(0)
    before = contents(tmp_path)
    model = small_model()
    weights = model.get_weights()
    with pytest.raises(UserError, match=r"all saved states are damaged \(step-00000000.* nothing was removed") as error:
        state.restore(model)
    assert "\n" not in str(error.value)
    assert contents(tmp_path) == before
    assert all(np.array_equal(*values) for values in zip(weights, model.get_weights(), strict=True))


class SlowDisk(list):
    """In place of a state's thread: keeps what is to be written, which is there once the test says so."""

    class Writing(Future):
        def result(self):
            assert self.done(), "training waits"

    def submit(self, write, *state):
        self.append(self.Writing())
        return self[-1]


def test_training_does_not_wait_for_a_slow_disk(tmp_path):
    """But where it is to end, or a state is wanted after each step."""
    state, disk = TrainingState(tmp_path, Checkpoints(tmp_path, 1), seconds_between=1e-9), SlowDisk()
    state._thread = disk
    state.set_model(small_model())
    for step in range(3):
        state.on_train_batch_end(step)
    assert len(disk) == 1
    disk[0].set_result(None)
    for step in range(3, 6):
        state.on_train_batch_end(step)
    assert len(disk) == 2
    with pytest.raises(AssertionError, match="training waits"):
        state.save()  # as an interruption does
    state.seconds_between = 0
    state.on_train_batch_end(6)
    with pytest.raises(AssertionError, match="training waits"):
        state.on_train_batch_end(7)


def with_another_variable(model: keras.Model) -> keras.Model:
    model.optimizer.add_variable((), name="another")
    return model


def with_another_shape(model: keras.Model) -> keras.Model:
    """Its first layer has the state's shapes; it would get the state's weights before the second is looked at."""
    other = keras.Sequential([*model.layers[:1], keras.layers.Dense(2)])
    other.compile("adam", "mse")
    other.optimizer.build(other.trainable_variables)
    return other


@pytest.mark.parametrize("change", [with_another_variable, with_another_shape])
def test_a_state_of_another_optimizer_is_told_and_kept(tmp_path, change):
    (tmp_path / "checkpoints").mkdir()
    state, saved = TrainingState(tmp_path / "state", Checkpoints(tmp_path / "checkpoints", 1)), small_model()
    state.set_model(saved)
    state.on_epoch_end(0)
    state.wait()
    state.checkpoints.set_model(saved)
    state.checkpoints.save_interrupted()
    before = contents(tmp_path)
    model = change(small_model())
    weights = model.get_weights()
    with pytest.raises(UserError, match="does not match this model and optimizer"):
        state.restore(model)
    assert contents(tmp_path) == before
    assert all(np.array_equal(*values) for values in zip(weights, model.get_weights(), strict=True))


@pytest.mark.parametrize("origin_step", [0, None], ids=["of another run", "of this run"])
def test_the_best_of_another_run_is_not_taken_for_this_one_s(tmp_path, origin_step):
    """Where this one was killed after its first validation had written its own, and before the state after it."""
    (tmp_path / "checkpoints").mkdir()
    checkpoints, saved = Checkpoints(tmp_path / "checkpoints", 1), small_model()
    state = TrainingState(tmp_path / "state", checkpoints)
    for callback in checkpoints, state:
        callback.set_model(saved)
        callback.on_epoch_end(0, {"val_perplexity": 3.0})
    state.wait()
    again = Checkpoints(tmp_path / "checkpoints", 1)
    TrainingState(tmp_path / "state", again, origin_step=origin_step).restore(small_model())
    assert (again.best, again.has_best()) == ((math.inf, False) if origin_step == 0 else (3.0, True))


@pytest.mark.parametrize("metrics", [[], ["mae"]], ids=["the same", "others"])
def test_figures_of_another_run_count_where_the_metrics_are_the_same(tmp_path, metrics):
    """They are others where one of two runs learns alignments. The time goes with them: it is that of their tokens."""
    state, saved, pace = TrainingState(tmp_path / "state", Checkpoints(tmp_path, 1), pace=Pace()), small_model(), Pace()
    state.set_model(saved)
    saved.metrics_variables[0].assign(7.0)
    state.pace.seconds = 5.0
    state.save()
    state.wait()
    model = small_model()
    model.compile(model.optimizer, "mse", metrics=metrics)
    model.test_on_batch(np.ones((1, 3)), np.ones((1, 1)))  # so that the metrics are there
    model.reset_metrics()
    again = TrainingState(tmp_path / "state", Checkpoints(tmp_path, 1), pace=pace, origin_step=0)
    again.set_model(model)
    again.restore(model)
    again.on_train_begin()
    again.on_epoch_begin(0)
    assert (float(model.metrics_variables[0]), pace.seconds) == ((0.0, 0.0) if metrics else (7.0, 5.0))
