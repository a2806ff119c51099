"""A callback that shows the moving average of the weights wherever a model in training is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np


class AveragedWeights(keras.callbacks.Callback):
    """Shows the moving average of the weights whenever a model in training is evaluated; training has its own weights.

    The average is in the model from the start of a validation, or the end of an epoch, to the start of the next epoch,
    and after training. Callbacks that use the model at an epoch's end must come after this one. The model must be
    compiled with an optimizer that has `use_ema=True`.

    Keras's `SwapEMAWeights` rounds the weights that training continues from, and leaves the wrong ones in the model if
    training ends before its last epoch.

    Example:
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9), "mse")
        >>> average = AveragedWeights()
        >>> _ = model.fit(np.ones((9, 1)), 9 * np.ones(9), batch_size=1, callbacks=[average], verbose=0)
        >>> kernel = model.get_weights()[0]
        >>> with average.hidden():
        ...     bool(kernel < model.get_weights()[0])  # the average lags behind
        True
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_training: list[Any] | None = None

    def set_model(self, model: keras.Model) -> None:
        if model is not self._model:
            self._in_training = None  # those of the model before
        super().set_model(model)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        # After an earlier training the average is in the model, unless other weights were put into it since then.
        if self._in_training is not None and not self._is_shown():
            self._in_training = None

    def _is_shown(self) -> bool:
        """Whether the model's weights are the average, to the bit."""
        if not self.model.optimizer.built:
            return False  # compiled again: this one's average begins with the weights that are there
        found = self.model.get_weights()
        self.model.optimizer.finalize_variable_values(self.model.trainable_variables)
        average = self.model.get_weights()
        if all(np.array_equal(*both) for both in zip(found, average, strict=True)):
            return True
        self.model.set_weights(found)
        return False

    def show_average(self) -> None:
        """Puts the average into the model, if it isn't there."""
        if self._in_training is None:
            self._in_training = self.model.get_weights()
            self.model.optimizer.finalize_variable_values(self.model.trainable_variables)

    def hide_average(self) -> None:
        """Puts the weights in training back into the model, if they aren't there."""
        if self._in_training is not None:
            self.model.set_weights(self._in_training)
            self._in_training = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within it, the weights in training are in the model."""
        shown = self._in_training is not None
        self.hide_average()
        try:
            yield
        finally:
            if shown:
                self.show_average()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.hide_average()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.show_average()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.show_average()
