"""How long training waits for its data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from tf_transformer.layers.masks import PAD_ID

if TYPE_CHECKING:
    import tensorflow as tf


class DataWait(keras.callbacks.Callback):
    """Adds `data_wait` to the figures of each epoch: the share of the training time spent waiting for the next batch.

    And `padding`: the share of the batches' source and target positions that hold no token.

    A step that begins before its batch is ready waits for it. Keras fetches the batch inside its compiled step, so the
    two times are noted on both sides: here when a step begins, in the dataset when a batch is ready. The first step is
    left out: in it the model is traced, before the first batch is asked for, and its time is told on its own.
    """

    def __init__(self) -> None:
        super().__init__()
        # Of each batch, by its number: positions that hold a token, all positions, and when it was ready. Keras begins
        # anew after a few batches that it throws away; what comes then has the same numbers.
        self._ready: dict[int, tuple[int, int, float]] = {}
        self._used = 0  # how many of these have been trained on
        self._first_step: float | None = None  # when it began

    def watch(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the same batches, each of which notes when it is ready. They must be what `fit` is given."""
        import tensorflow as tf

        def note(number: np.ndarray, source_ids: np.ndarray, labels: np.ndarray) -> np.ndarray:
            filled = sum(np.count_nonzero(ids != PAD_ID) for ids in (source_ids, labels))
            self._ready[int(number)] = filled, source_ids.size + labels.size, time.perf_counter()
            return labels

        def pass_on(number: Any, batch: Any) -> Any:
            inputs, labels = batch
            noted = tf.numpy_function(note, [number, inputs[0], labels], labels.dtype)
            return inputs, tf.ensure_shape(noted, labels.shape)

        return batches.enumerate().map(pass_on)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun: list[float] = []  # when the step of each batch began
        self._spent = 0.0

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._first, self._now = batch, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._first_step is None:
            self._first_step = self._now
        else:
            self._spent += time.perf_counter() - self._now
        # Several begin at once where `steps_per_execution` says so.
        self._begun += [self._now] * (batch - self._first + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        filled, sizes, ready = zip(*(self._ready.pop(self._used + i) for i in range(len(self._begun))), strict=True)
        self._used += len(self._begun)
        # Of steps that begin at once, a later one's wait holds the earlier ones'.
        waits = {begun: max(0.0, when - begun) for begun, when in zip(self._begun, ready, strict=True)}
        waits.pop(self._first_step, None)
        logs["padding"] = 1 - sum(filled) / sum(sizes)
        logs["data_wait"] = sum(waits.values()) / self._spent if waits else 0.0
