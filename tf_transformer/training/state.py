"""The whole state of a training, from which a run that was broken off goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import keras

from tf_transformer.errors import UserError
from tf_transformer.training.callbacks import AveragedWeights, Checkpoints, steps_taken

# Two, so that a damaged one costs no more than the time since the one before.
KEPT = 2


class TrainingState(keras.callbacks.Callback):
    """Saves the state at the end of each epoch, after all other callbacks.

    A state is weights, optimizer and random seeds, in a TensorFlow checkpoint, which has checksums, together with what
    the callbacks remember. The place in the data is the step: batches come in an order that the seed decides. It is
    written beside, synced and renamed, so that none is ever half there.

    Args:
        directory: where the states lie.
        checkpoints: knows the best perplexity so far.
        average: holds the weights in training while the model shows their average, if there is one.
        early_stopping: counts validations without improvement, if that ends the training.

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
    ) -> None:
        super().__init__()
        self.directory = Path(directory)
        self.checkpoints = checkpoints
        self.average = average
        self.early_stopping = early_stopping
        self.step = self.epoch = 0
        self.seconds = 0.0
        self.ended = False
        self._began = time.perf_counter()
        self._remembered: dict[str, Any] = {}

    def saved(self) -> list[Path]:
        """The states there are, oldest first."""
        return sorted(self.directory.glob("step-*"))

    def restore(self, model: keras.Model) -> list[Path]:
        """Gives a built and compiled model the newest state that is whole; without any, the model stays as it is.

        What the run wrote after that state is removed, since it will be written again.

        Returns:
            The damaged states that were passed over.

        Raises:
            UserError: the newest state holds other variables than the model and its optimizer; nothing is removed.
        """
        import tensorflow as tf

        damaged = []
        for path in reversed(self.saved()):
            remembered = tf.Variable("", dtype=tf.string)
            try:
                _checkpoint(model, remembered).read(str(path / "variables")).assert_consumed()
                self._remembered = json.loads(remembered.numpy())
            except (tf.errors.OpError, ValueError):
                damaged.append(path)
                continue
            except AssertionError:
                raise UserError(
                    f"{path}: whole, but not of this model and optimizer; go on with the version of the package that "
                    "saved it, or give another folder with --run-dir"
                ) from None
            self.step = steps_taken(model)
            self.epoch, self.seconds, self.ended = (self._remembered[name] for name in ("epoch", "seconds", "ended"))
            self.checkpoints.best = self._remembered["best"]
            break
        for later in damaged:
            shutil.rmtree(later)
        self.checkpoints.forget_after(self.step)
        return damaged

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Keras's early stopping forgets everything when a training begins.
        if self.early_stopping:
            for name, value in self._remembered.get("early_stopping", {}).items():
                setattr(self.early_stopping, name, value)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        import tensorflow as tf

        remembered = {
            "epoch": epoch + 1,
            "seconds": self.seconds + time.perf_counter() - self._began,
            "ended": self.model.stop_training,
            "best": self.checkpoints.best,
        }
        if self.early_stopping:
            remembered["early_stopping"] = {name: getattr(self.early_stopping, name) for name in ("wait", "best")}
        path = self.directory / f"step-{steps_taken(self.model):08d}"
        partial = self.directory / f".partial-{path.name}"
        shutil.rmtree(partial, ignore_errors=True)
        if self.average:
            self.average.hide_average()
        _checkpoint(self.model, tf.Variable(json.dumps(remembered))).write(str(partial / "variables"))
        if self.average:
            self.average.show_average()
        for file in (*partial.iterdir(), partial):
            _sync(file)
        shutil.rmtree(path, ignore_errors=True)
        partial.rename(path)
        _sync(self.directory)
        for old in self.saved()[:-KEPT]:
            shutil.rmtree(old)


def _checkpoint(model: keras.Model, remembered: Any) -> Any:
    """A TensorFlow checkpoint of every variable there is."""
    import tensorflow as tf

    # `variables` of a model holds the state of its random seeds too.
    variables = [variable.value for variable in (*model.variables, *model.optimizer.variables)]
    return tf.train.Checkpoint(variables=variables, remembered=remembered)


def _sync(path: Path) -> None:
    """Has the system write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
