"""A callback that tells how fast a training is: learning rate, tokens per second, gradient norm."""

from __future__ import annotations

import time
from typing import Any

import keras

from tf_transformer.training.optimizer import gradient_norm


class Pace(keras.callbacks.Callback):
    """Adds `learning_rate` and `tokens_per_second` to the figures of each epoch, before TensorBoard writes them.

    Real target tokens are counted, and the time of training alone, without validation. The model must be compiled
    with the metric `TokenCount`. Where the optimizer keeps it, the last step's `gradient_norm` is added too.

    Attributes:
        seconds: of the epoch, before its training was interrupted and, in its validation, up to that; else 0.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.training import TokenCount
        >>> model = keras.Sequential([keras.layers.Dense(5)])
        >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=[TokenCount()])
        >>> history = model.fit(np.zeros((2, 3, 4)), np.ones((2, 3)), callbacks=[Pace()], verbose=0)
        >>> sorted(history.history)
        ['learning_rate', 'loss', 'tokens', 'tokens_per_second']
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._start: float | None = None  # when the time that `seconds` does not hold yet began

    def spent(self) -> float:
        """The seconds of training in this epoch so far."""
        return self.seconds + (time.perf_counter() - self._start if self._start is not None else 0.0)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Validation is part of the epoch; the time ends where it begins.
        self.seconds, self._start = self.spent(), None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs["tokens_per_second"] = logs["tokens"] / self.spent()
        self.seconds, self._start = 0.0, None
        logs["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        norm = float(gradient_norm(self.model))
        if norm:
            logs["gradient_norm"] = norm
