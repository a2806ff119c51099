"""The checkpoints that a training writes: the newest and the best."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from tf_transformer.errors import UserError
from tf_transformer.files.whole import PARTIAL, written_whole
from tf_transformer.layers.arguments import check_sizes
from tf_transformer.runs.directory import AVERAGE, BEST, INTERRUPTED, step_checkpoints, step_name
from tf_transformer.training.step_count import steps_taken


class Checkpoints(keras.callbacks.Callback):
    """Saves the whole model, optimizer included, at the end of each epoch, and keeps the newest and the best.

    Writes `step-00000400.keras` and so on, and `best.keras`, the one with the lowest `val_perplexity`. A
    half-written one is never found.

    Args:
        directory: where the checkpoints are.
        keep: how many of the newest are kept, at least 1.

    Raises:
        ValueError: `keep` is below 1.
        UserError: when training begins, checkpoints of later steps are there, which would be taken for its newest.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     kept = Checkpoints(folder, keep=2)
        ...     _ = model.fit(np.ones((3, 1)), np.ones(3), batch_size=1, epochs=4, callbacks=[kept], verbose=0)
        ...     sorted(os.listdir(folder))
        ['step-00000009.keras', 'step-00000012.keras']
    """

    def __init__(self, directory: str | os.PathLike, keep: int = 5) -> None:
        super().__init__()
        self.directory = Path(directory)
        (self.keep,) = check_sizes(keep=keep)
        self.best = float("inf")

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        steps = steps_taken(self.model)
        if later := self._later_than(steps):
            raise UserError(
                f"{self.directory}: {later[-1].name} is from a later step than the model's, {steps}, so from another "
                "run; choose another folder, or move the checkpoints away"
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        path = self._write(f"{step_name(steps_taken(self.model))}.keras", self.model.save)
        perplexity = (logs or {}).get("val_perplexity")
        if perplexity is not None and perplexity < self.best:
            self.best = perplexity
            self._write(BEST, lambda partial: shutil.copyfile(path, partial))
        for old in step_checkpoints(self.directory)[: -self.keep]:
            old.unlink()

    def has_best(self) -> bool:
        """Whether there is a best one yet."""
        return (self.directory / BEST).exists()

    def save_interrupted(self) -> Path:
        """Saves the model in the middle of an epoch, for whoever wants to look at it; `forget_after` removes it."""
        return self._write(INTERRUPTED, self.model.save)

    def _write(self, name: str, write: Callable[[Path], Any]) -> Path:
        path = self.directory / name
        advice = "when that is fixed, the same command resumes from the last saved state"
        with written_whole(path, "the checkpoint", advice) as partial:
            write(partial)
        return path

    def forget_after(self, step: int) -> None:
        """Removes the checkpoints of later steps, that of an interruption, and half-written ones, which a kill left."""
        for file in self._later_than(step):
            file.unlink()
        for file in (self.directory / INTERRUPTED, *self.directory.glob(f"{PARTIAL}*")):
            file.unlink(missing_ok=True)

    def _later_than(self, step: int) -> list[Path]:
        return [file for file in step_checkpoints(self.directory) if file.name > f"{step_name(step)}.keras"]

    def forget_best(self) -> None:
        """Removes the best one; that of the next validation takes its place."""
        self.best = float("inf")
        (self.directory / BEST).unlink(missing_ok=True)

    def forget_average(self) -> None:
        """Removes the average of checkpoints, which would be taken for the model of a training that goes on."""
        (self.directory / AVERAGE).unlink(missing_ok=True)
