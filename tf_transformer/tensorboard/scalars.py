"""Scalars for TensorBoard: a training's figures under the number of updates made, with histograms of its weights."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tf_transformer.tensorboard.event_file import EventFile
from tf_transformer.training.step_count import steps_taken

# TensorBoard shows groups, and the figures in each, in the order of their names: how good the model is comes first.
QUALITY, SPEED, TRAINING, WEIGHTS = "quality", "speed", "training", "weights"
GROUPS = {
    "tokens_per_second": SPEED,
    "data_wait": SPEED,
    "padding": SPEED,
    "new_shapes": SPEED,
    "new_shapes_seconds": SPEED,
    "learning_rate": TRAINING,
    "gradient_norm": TRAINING,
    "tokens": TRAINING,
    "alignment_loss": TRAINING,
}

NAMES = {"bleu": "BLEU", "f1": "F1"}


class Figures(keras.callbacks.Callback):
    """Writes the figures of each epoch: `quality/perplexity` and so on, of training and validation in one diagram.

    Keras's own callback counts epochs, so that trainings whose epochs have other lengths don't compare, and its names
    sort behind those of pictures and weights.

    Args:
        train: the event file of training's figures, and of the weights.
        validation: that of validation's.
        histograms: whether to write histograms of all weights too.
    """

    def __init__(self, train: EventFile, validation: EventFile, histograms: bool = False) -> None:
        super().__init__()
        self.train = train
        self.validation = validation
        self.histograms = histograms

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        step = steps_taken(self.model)
        for name, value in logs.items():
            # Of the validation set, the number of tokens is always the same, and no alignment is known.
            if name.startswith("val_") and name not in ("val_tokens", "val_alignment_loss"):
                self._write(self.validation, step, name.removeprefix("val_"), value)
            elif not name.startswith("val_"):
                self._write(self.train, step, name, value)
        if self.histograms:
            self._write_weights(step)

    def _write(self, file: EventFile, step: int, name: str, value: float) -> None:
        import tensorflow as tf

        with file.writing(step):
            tf.summary.scalar(f"{GROUPS.get(name, QUALITY)}/{NAMES.get(name, name)}", value)

    def _write_weights(self, step: int) -> None:
        import tensorflow as tf

        with self.train.writing(step):
            for variable in self.model.weights:
                values = keras.ops.convert_to_numpy(variable)
                tf.summary.histogram(f"{WEIGHTS}/{variable.path}", np.asarray(values, "float32"))
