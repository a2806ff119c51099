"""The complete state of a training, from which an interrupted run resumes exactly."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tf_transformer.errors import UserError, why_not_written
from tf_transformer.files.whole import PARTIAL, REPLACED, folder_written_whole
from tf_transformer.runs.checkpoints import Checkpoints
from tf_transformer.runs.directory import step_name
from tf_transformer.training.averaged_weights import AveragedWeights
from tf_transformer.training.pace import Pace
from tf_transformer.training.step_count import steps_taken
from tf_transformer.training.step_faults import ADVICE

# Two, so that a damaged one costs no more than the time since the one before.
KEPT = 2


class TrainingState(keras.callbacks.Callback):
    """Saves the state at the end of each epoch, after all other callbacks, and as often as wanted in between.

    A state is weights, optimizer and random seeds, in a TensorFlow checkpoint, which has checksums, together with what
    the callbacks and the metrics remember. The place in the data is the step: batches come in an order that the seed
    decides. It is written beside, synced and renamed, so that none is ever half there; from a copy, by a thread of its
    own, so that training goes on meanwhile.

    Args:
        directory: where the states lie.
        checkpoints: knows the best perplexity so far.
        average: holds the weights in training while the model shows their average, if there is one.
        early_stopping: counts validations without improvement, if that ends the training.
        pace: takes the time of an epoch, if anything does.
        seconds_between: how long to train from one state to the next within an epoch, and at least until that one is
            written; infinite for none there, and 0 for one after each step, however long it takes.
        origin_step: the step of the state of another run that this one began from, if it did.
        check: called before a state is saved in the middle of an epoch; raises where the last step was faulty.
        save_beginning: whether to save a state before the first step too, so that a training that begins with another
            model's weights needs that model once.

    Attributes:
        step: updates made when the state was saved that training goes on from; 0 at the start.
        epoch: validations made by then.
        seconds: time spent on the training by then.
        ended: whether the training had ended.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        checkpoints: Checkpoints,
        average: AveragedWeights | None = None,
        early_stopping: keras.callbacks.EarlyStopping | None = None,
        pace: Pace | None = None,
        seconds_between: float = 60.0,
        origin_step: int | None = None,
        check: Callable[[], None] = lambda: None,
        save_beginning: bool = False,
    ) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.checkpoints = checkpoints
        self.average = average
        self.early_stopping = early_stopping
        self.pace = pace
        self.seconds_between = seconds_between
        self.origin_step = origin_step
        self.check = check
        self.save_beginning = save_beginning
        self.step = self.epoch = 0
        self.seconds = 0.0
        self.ended = False
        self._began = self._saved_at = time.perf_counter()
        self._remembered: dict[str, Any] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None

    @property
    def saves_within_epochs(self) -> bool:
        return math.isfinite(self.seconds_between)

    def saved(self) -> list[Path]:
        """The states there are, oldest first."""
        return saved_states(self.directory)

    def restore(self, model: keras.Model) -> list[Path]:
        """Gives a built and compiled model the newest state that is whole; without any, the model stays as it is.

        What the run wrote after that state is removed, since it will be written again.

        Returns:
            The damaged states that were passed over.

        Raises:
            UserError: the newest state that is whole holds other variables than the model and its optimizer, or there
                are states and none is whole; nothing is removed, and nothing is in the model.
        """
        variables = [variable.value for variable in _variables(model)]
        damaged, remembered = [], None
        for path in reversed(self.saved()):
            remembered = _read(path, variables)
            if remembered is not None:
                self._take_over(model, remembered)
                break
            damaged.append(path)
        if damaged and remembered is None:
            raise UserError(
                f"{self.directory}: all saved states are damaged ({', '.join(path.name for path in damaged)}), so "
                "this run can't resume; nothing was removed, and the checkpoints can still be used; train in "
                "another folder with --run-dir"
            )
        self._remove_later(damaged)
        return damaged

    def _take_over(self, model: keras.Model, remembered: dict[str, Any]) -> None:
        """Goes on from a state, whose variables are in the model, with what was remembered beside them."""
        self._remembered = remembered
        self.step = steps_taken(model)
        self.epoch, self.seconds, self.ended = (remembered[name] for name in ("epoch", "seconds", "ended"))
        if self.step == self.origin_step:  # what ended another run, or was about to, is not this one's
            self.ended = False
            remembered.pop("early_stopping", None)
            # Its best checkpoint was not copied; one that is here was written after that state.
            self.checkpoints.forget_best()
            # Figures of other metrics, where only one of the runs has `data.alignments`, count for nothing here.
            if len(remembered["metrics"]) != len(model.metrics_variables):
                remembered |= {"metrics": [], "epoch_seconds": 0.0}
        self.checkpoints.best = remembered["best"] if self.checkpoints.has_best() else float("inf")

    def _remove_later(self, damaged: list[Path]) -> None:
        """Removes damaged states, half-written ones, and what the run wrote after the state that it goes on from."""
        half_written = (self.directory.glob(f"{beginning}*") for beginning in (PARTIAL, REPLACED))
        for left in itertools.chain(damaged, *half_written):
            shutil.rmtree(left)
        self.checkpoints.forget_after(self.step)
        if not self.ended:
            self.checkpoints.forget_average()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Keras's early stopping forgets everything when a training begins.
        if self.early_stopping:
            for name, value in self._remembered.get("early_stopping", {}).items():
                setattr(self.early_stopping, name, value)
        if self.pace:
            self.pace.seconds = self._remembered.get("epoch_seconds", 0.0)
        if self.save_beginning and not self.saved():
            self._save([])
            self.wait()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        # Which Keras has just begun again; they tell of the whole epoch, and so of what came before the state.
        metrics, self._remembered["metrics"] = self._remembered.get("metrics", []), []
        for parts, values in zip(self._metrics_parts() if metrics else [], metrics, strict=True):
            # Another run, whose state this one begins from, may have had another number of devices.
            if len(values) != len(parts):
                values = [sum(values), *[0.0] * (len(parts) - 1)]
            for part, value in zip(parts, values, strict=True):
                part.assign(value)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._writing and self._writing.done():
            self.wait()
        # A disk may be slower than that: training does not stand still for it.
        busy = self._writing and self.seconds_between > 0
        due = time.perf_counter() - self._saved_at >= self.seconds_between
        # Where the epoch ends a validation is due, and a state after it.
        if due and not busy and not self.model.stop_training:
            self.save()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch = epoch + 1
        self._save([])

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.wait()

    def save(self) -> None:
        """Begins to save the state in the middle of an epoch.

        Raises:
            UserError: the last step was faulty, or the state before could not be saved.
        """
        self.check()
        self._save([[part.numpy().item() for part in parts] for parts in self._metrics_parts()])

    def wait(self) -> None:
        """Waits until the state that is being saved lies there.

        Raises:
            UserError: it can't be written, or holds what is not finite; the earlier states stay.
        """
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def _metrics_parts(self) -> list[tuple[Any, ...]]:
        """The variables of the metrics, of each what every device has, which counts its own."""
        local = self.model.distribute_strategy.experimental_local_results
        return [local(variable.value) for variable in self.model.metrics_variables]

    def _save(self, metrics: list[list[float]]) -> None:
        self.wait()
        remembered = {
            "epoch": self.epoch,
            "seconds": self.seconds + time.perf_counter() - self._began,
            "ended": self.model.stop_training,
            "best": self.checkpoints.best,
            "metrics": metrics,
        }
        if self.pace:
            remembered["epoch_seconds"] = self.pace.spent()
        if self.early_stopping:
            remembered["early_stopping"] = {name: getattr(self.early_stopping, name) for name in ("wait", "best")}
        with self.average.hidden() if self.average else nullcontext():
            copies = _copies(self.model)
        self._writing = self._thread.submit(self._write, steps_taken(self.model), copies, json.dumps(remembered))
        self._saved_at = time.perf_counter()

    def _write(self, step: int, copies: list[Any], remembered: str) -> None:
        import tensorflow as tf

        path = self.directory / step_name(step)
        _check_finite(self.model, copies, step)
        checkpoint = tf.train.Checkpoint(variables=copies, remembered=tf.Variable(remembered))
        try:
            with folder_written_whole(path) as partial:
                checkpoint.write(str(partial / "variables"))
        except (OSError, tf.errors.OpError) as error:
            raise UserError(
                f"{path}: the state can't be saved: {why_not_written(error)}; when that is fixed, {self.place()}"
            ) from None
        for old in self.saved()[:-KEPT]:
            shutil.rmtree(old)

    def place(self) -> str:
        """Says from where the same command resumes."""
        states = self.saved()
        where = f"resumes from step {state_step(states[-1]):,}" if states else "starts from the beginning"
        return f"the same command {where}"


def saved_states(directory: Path) -> list[Path]:
    """The states in a folder, oldest first."""
    return sorted(directory.glob("step-*"))


def state_step(path: Path) -> int:
    """The steps that had been taken when a state was saved."""
    return int(path.name.removeprefix("step-"))


def is_whole(path: Path) -> bool:
    """Whether a state can be read; each value has a checksum."""
    import tensorflow as tf

    try:
        reader = tf.train.load_checkpoint(str(path / "variables"))
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    except (tf.errors.OpError, ValueError):
        return False
    return True


def _read(path: Path, variables: list[Any]) -> dict[str, Any] | None:
    """Reads a state into variables; gives what was remembered, or None if it is damaged.

    Raises:
        UserError: it holds other variables; then none is changed.
    """
    import tensorflow as tf

    remembered = tf.Variable("", dtype=tf.string)
    try:
        if _holds(path, variables):
            checkpoint = tf.train.Checkpoint(variables=variables, remembered=remembered)
            checkpoint.read(str(path / "variables")).assert_consumed()
            return json.loads(remembered.numpy())
    except (tf.errors.OpError, ValueError):
        return None
    raise UserError(
        f"{path}: does not match this model and optimizer; resume with the version of the package that saved it, or "
        "give another folder with --run-dir"
    )


def _holds(path: Path, variables: list[Any]) -> bool:
    """Whether a state is of such variables; asked before any of them is changed.

    Raises:
        ValueError, OpError: the state is damaged.
    """
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path / "variables"))
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    saved = {name: (shapes[name], dtypes[name]) for name in shapes if name.startswith("variables/")}
    return saved == {
        f"variables/{index}/.ATTRIBUTES/VARIABLE_VALUE": (variable.shape.as_list(), variable.dtype)
        for index, variable in enumerate(variables)
    }


def _variables(model: keras.Model) -> list[Any]:
    """Every variable there is: `variables` of a model holds the state of its random seeds too."""
    return [*model.variables, *model.optimizer.variables]


def _copies(model: keras.Model) -> list[Any]:
    """The values of all variables, in memory of their own."""
    import tensorflow as tf

    with tf.device("CPU"):
        return [tf.Variable(variable.value) for variable in _variables(model)]


def _check_finite(model: keras.Model, copies: list[Any], step: int) -> None:
    """Keeps what no training could go on from out of the saved states."""
    for variable, copy in zip(_variables(model), copies, strict=True):
        if copy.dtype.is_floating and not np.isfinite(copy.numpy()).all():
            raise UserError(f"step {step:,}: {variable.path} is no longer finite; {ADVICE}")
