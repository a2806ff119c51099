"""Callbacks for each validation: metrics, averaged weights, sample translations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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


def gradient_norm(model: keras.Model) -> Any:
    """How long the last step's gradient was, as a tensor or a number that nobody has read yet; 0 if it is not known."""
    # Loss scaling wraps the optimizer that updates.
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not getattr(optimizer, "keep_gradient_norm", False):
        return 0.0
    return keras.ops.copy(optimizer.gradient_norm)


class Pace(keras.callbacks.Callback):
    """Adds `learning_rate` and `tokens_per_second` to the figures of each epoch, before TensorBoard writes them.

    Real target tokens are counted, and the time of training alone, without validation. The model must be compiled
    with the metric `TokenCount`. Where the optimizer keeps it, the last step's `gradient_norm` is added too.

    Attributes:
        seconds: of the epoch, before its training was broken off and, in its validation, up to that; else 0.

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


class EpochEnds(StepCounter):
    """Ends Keras's epochs where validations are due, and training at its last step.

    A training that goes on from the middle of an epoch has less of it left than Keras thinks. This callback must come
    before all others that may stop the training.

    Args:
        steps: how many steps the training has.
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


class AveragedWeights(keras.callbacks.Callback):
    """Shows the moving average of the weights wherever a model in training is looked at; training has its own weights.

    The average is in the model from the start of a validation, or the end of an epoch, to the start of the next epoch,
    and after training. Callbacks that look at the model at an epoch's end must come after this one. The model must be
    compiled with an optimizer that has `use_ema=True`.

    Keras's `SwapEMAWeights` rounds the weights that training goes on from, and leaves the wrong ones in the model where
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


class ValidationBleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the figures of each epoch, before TensorBoard writes them.

    Args:
        translate: maps texts to their translations.
        pairs: sentences and their references.
        tokenize: how BLEU splits text into words, as in `score_translations`.

    Example:
        >>> from tf_transformer.training import ValidationBleu
        >>> bleu = ValidationBleu(lambda texts: ["Ein Hund schläft ."], [("A dog sleeps .", "Ein Hund schläft .")])
        >>> logs = {}
        >>> bleu.on_epoch_end(0, logs)  # as `fit` calls it
        >>> print(f"{logs['val_bleu']:.1f}")
        100.0
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str]], Sequence[str]],
        pairs: Sequence[tuple[str, str]],
        tokenize: str = "13a",
    ) -> None:
        super().__init__()
        self.translate = translate
        self.tokenize = tokenize
        self.sources, self.references = ([pair[side] for pair in pairs] for side in (0, 1))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        from tf_transformer.evaluation.scores import score_translations

        translations = self.translate(self.sources)
        logs["val_bleu"] = score_translations(translations, self.references, tokenize=self.tokenize).bleu
