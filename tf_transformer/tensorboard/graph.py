"""The model as a graph for TensorBoard's tab Graphs."""

from __future__ import annotations

import os
from typing import Any

import keras


class ModelGraph(keras.callbacks.Callback):
    """Writes the graph of the model's call when the training begins.

    Keras's own callback writes none of a model that is a class of its own.

    Args:
        log_dir: TensorBoard's folder.
    """

    def __init__(self, log_dir: str | os.PathLike) -> None:
        super().__init__()
        self.log_dir = str(log_dir)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        import tensorflow as tf

        ids = tf.TensorSpec([None, None], tf.int32)
        call = tf.function(lambda *inputs: self.model(inputs, training=True), autograph=False)
        with tf.summary.create_file_writer(self.log_dir).as_default():
            tf.summary.graph(call.get_concrete_function(ids, ids).graph)
