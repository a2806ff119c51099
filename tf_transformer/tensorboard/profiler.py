"""Profiles some training steps for TensorBoard's tab Profile."""

from __future__ import annotations

import os
from typing import Any

import keras


class Profiler(keras.callbacks.Callback):
    """Has TensorFlow's profiler watch some executions of the training step.

    Args:
        log_dir: the folder of one of TensorBoard's runs.
        first: the first execution that is watched, counted from 1 when the training begins or goes on.
        executions: how many are watched.
    """

    def __init__(self, log_dir: str | os.PathLike, first: int, executions: int = 10) -> None:
        super().__init__()
        self.log_dir = str(log_dir)
        self.first = first
        self.last = first + executions - 1
        self._execution = 0
        self._watching = False

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        import tensorflow as tf

        self._execution += 1
        if self._execution == self.first:
            tf.profiler.experimental.start(self.log_dir)
            self._watching = True
        if self._watching:
            self._step = tf.profiler.experimental.Trace("step", step_num=self._execution, _r=1)
            self._step.__enter__()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._watching:
            self._step.__exit__(None, None, None)
        if self._execution == self.last:
            float(logs["loss"])  # waits until a device has done the last step too
            self._stop()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self._stop()

    def _stop(self) -> None:
        import tensorflow as tf

        if self._watching:
            tf.profiler.experimental.stop()
            self._watching = False
