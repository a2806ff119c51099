"""The model as a graph for TensorBoard's tab Graphs."""

from __future__ import annotations

from typing import Any

from tf_transformer.tensorboard.summary_callback import SummaryCallback


class ModelGraph(SummaryCallback):
    """Writes the graph of the model's call when the training begins.

    Keras's own callback writes none of a model that is a class of its own.

    Args:
        log_dir: the folder of one of TensorBoard's runs; or its event file, where other callbacks write to it too.
    """

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        import tensorflow as tf

        ids = tf.TensorSpec([None, None], tf.int32)
        call = tf.function(lambda *inputs: self.model(inputs, training=True), autograph=False)
        with self.writing():
            tf.summary.graph(call.get_concrete_function(ids, ids).graph)
