"""What a step of `fit` and of `evaluate` does differently from Keras's: the loss projects, and batches may be split."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


class ProjectingSteps:
    """Steps in which the loss projects the decoder's output itself, so that the full logits are never made.

    They are taken where loss and metrics can do so (`SmoothedCrossEntropy`; `Perplexity`, `TokenAccuracy`,
    `TokenCount`); with others, or with sample weights, a step is Keras's own, on logits.

    Attributes:
        gradient_accumulation: how many parts a batch is worked on in, one after another. The memory is that of one
            part, the update that of the whole batch. On the TensorFlow backend only.
    """

    gradient_accumulation = 1

    def train_step(self, *arguments: Any) -> Any:
        """One update: `train_step(data)`, or `train_step(state, data)` on JAX, as in Keras."""
        *state, data = arguments
        prepared = self._with_labels_as_input(data, training=True)
        if self.gradient_accumulation > 1:
            return self._accumulated_step(data)
        return super().train_step(*state, prepared)

    def test_step(self, *arguments: Any) -> Any:
        """One batch of validation, as in Keras."""
        *state, data = arguments
        return super().test_step(*state, self._with_labels_as_input(data, training=False))

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """The compiled loss of a batch, as in Keras; the metrics get their sums in the same pass."""
        if not _is_projected(x):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        return self._summed_loss(y_pred, y, training) / self.loss.batch_tokens(y)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """The figures so far, as in Keras."""
        return self.get_metrics_result() if _is_projected(x) else super().compute_metrics(x, y, y_pred, sample_weight)

    def build_metrics(self) -> None:
        """Makes the variables of the compiled metrics, which Keras makes in the first step."""
        self._compiled_metrics(keras.KerasTensor((None, None), "int32"))

    def _with_labels_as_input(self, data: Any, training: bool) -> Any:
        """Asks for the decoder's output instead of logits, where that will do; with R-Drop, of each sentence twice."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        projects = hasattr(self.loss, "of_states") and sample_weight is None
        projects = projects and all(hasattr(metric, "add_sums") for metric in self._compiled_metrics(y))
        r_drop = training and getattr(self.loss, "r_drop", 0) > 0
        if not projects:
            if r_drop or (training and self.gradient_accumulation > 1):
                raise ValueError(
                    "r_drop and gradient_accumulation need the loss SmoothedCrossEntropy, no metrics but Perplexity, "
                    "TokenAccuracy and TokenCount, and no sample weights; leave the others out, or both options"
                )
            return data
        if r_drop:
            x = tuple(ops.concatenate([ids, ids]) for ids in x)
        return (*x, y), y

    def _compiled_metrics(self, labels: Any) -> list[keras.metrics.Metric]:
        # Keras holds those given to `compile` together in one, beside its own metric of the loss, and names them only
        # once it has seen what they are given: labels and logits.
        groups = [metric for metric in self.metrics if hasattr(metric, "metrics")]
        for group in groups:
            if not group.built:
                group.build(labels, keras.KerasTensor((*labels.shape, self.target_vocab_size)))
        return [metric for group in groups for metric in group.metrics]

    def _summed_loss(self, states: Any, labels: Any, training: bool) -> Any:
        """The compiled loss summed over a batch's real tokens; the metrics get theirs."""
        free_shapes = keras.backend.backend() == "tensorflow" and not self.jit_compile
        sums = self.loss.of_states(states, self.output_embeddings(), labels, training, free_shapes)
        for metric in self._compiled_metrics(labels):
            metric.add_sums(sums)
        return sums.loss

    def _accumulated_step(self, data: Any) -> dict[str, Any]:
        """One update from a batch that is worked on in parts."""
        if keras.backend.backend() != "tensorflow":
            raise ValueError("gradient_accumulation needs Keras's TensorFlow backend; set it to 1")
        import tensorflow as tf

        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.init_scope():  # what makes variables can't be part of a loop
            if not self.built:
                self.build(tuple(ids.shape for ids in x))
        parts, weights = self.gradient_accumulation, self.trainable_weights
        rows = tf.shape(y)[0]
        size = -(-rows // parts)

        def split(ids: Any) -> Any:
            # Rows of padding fill up the last part; they count nowhere.
            padded = tf.pad(ids, [[0, parts * size - rows], [0, 0]])
            return tf.reshape(padded, (parts, size, -1))

        split_data = tf.nest.map_structure(split, (x, y))
        tokens = self.loss.batch_tokens(y)

        def add_part(part: Any, loss: Any, gradients: Any) -> tuple[Any, ...]:
            x, y = self._with_labels_as_input(tf.nest.map_structure(lambda ids: ids[part], split_data), training=True)
            with tf.GradientTape() as tape:
                part_loss = self._summed_loss(self(x, training=True), y, training=True) / tokens
                scaled = self.optimizer.scale_loss(part_loss)
            more = tape.gradient(scaled, weights)
            return part + 1, loss + part_loss, [a + b for a, b in zip(gradients, more, strict=True)]

        zeros = [tf.zeros(weight.shape, weight.dtype) for weight in weights]
        _, loss, gradients = tf.while_loop(lambda part, *_: part < parts, add_part, (0, 0.0, zeros))
        self.optimizer.apply(gradients, weights)
        # As Keras has it: the mean over the replicas is shown, and each one's share is of the whole batch.
        loss *= tf.distribute.get_replica_context().num_replicas_in_sync
        next(metric for metric in self.metrics if metric.name == "loss").update_state(loss, sample_weight=rows)
        return self.get_metrics_result()


def _is_projected(x: Any) -> bool:
    """Whether the labels are among the inputs, and the model gave its decoder's output for them."""
    return isinstance(x, (tuple, list)) and len(x) == 3
