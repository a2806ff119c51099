"""The base class of callbacks that write for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import keras

from tf_transformer.tensorboard.event_file import EventFile
from tf_transformer.training.step_count import steps_taken


class SummaryCallback(keras.callbacks.Callback):
    """Writes summaries for TensorBoard under the number of updates made.

    Args:
        log_dir: the folder of one of TensorBoard's runs; or its event file, where other callbacks write to it too.
    """

    def __init__(self, log_dir: str | os.PathLike | EventFile) -> None:
        super().__init__()
        self.file = log_dir if isinstance(log_dir, EventFile) else EventFile(log_dir)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within it, summaries go to the file, under the number of updates made."""
        with self.file.writing(steps_taken(self.model)):
            yield
