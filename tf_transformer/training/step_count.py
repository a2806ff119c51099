"""Counts the steps of a training, and ends its epochs and the training at their steps."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.training.loss_scaling import LossScaling


def steps_taken(model: keras.Model) -> int:
    """How many steps the model has been trained for, each with a batch of its own."""
    optimizer = model.optimizer
    steps = optimizer.steps if isinstance(optimizer, LossScaling) else optimizer.iterations
    return int(keras.ops.convert_to_numpy(steps))


class StepCounter(keras.callbacks.Callback):
    """Counts the steps itself: reading the optimizer's count would wait until the device has done the step.

    Within an epoch each batch is a step.

    Attributes:
        taken: how many steps the model has been trained for, with the last one that was started.
    """

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.taken = self._before_epoch = steps_taken(self.model)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.taken = self._before_epoch + batch + 1


class EpochEnds(StepCounter):
    """Ends Keras's epochs where validations are due, and training at its last step.

    A training run that resumes in the middle of an epoch has less of it left than Keras thinks. This callback must come
    before all others that may stop training.

    Args:
        steps: how many steps the training run has.
        validate_every: how many steps an epoch has.

    Example:
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> ends = EpochEnds(steps=5, validate_every=2)
        >>> history = model.fit(np.ones((9, 1)), np.ones(9), batch_size=1, epochs=9, callbacks=[ends], verbose=0)
        >>> len(history.epoch), steps_taken(model)
        (3, 5)
    """

    def __init__(self, steps: int, validate_every: int) -> None:
        super().__init__()
        self.steps = steps
        self.validate_every = validate_every

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        # Keras stops after the epoch that this ends.
        self.model.stop_training = self.taken >= self.steps or self.taken % self.validate_every == 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.model.stop_training = self.taken >= self.steps
