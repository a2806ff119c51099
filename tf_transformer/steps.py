"""What a step of `fit` and of `evaluate` does differently from Keras's: the loss projects, and batches may be split."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.replicas import is_one_device


class ProjectingSteps:
    """Steps in which the loss projects the decoder's output itself, so that no more than a chunk of logits exists.

    They are taken where loss and metrics can do so (`SmoothedCrossEntropy`; `Perplexity`, `TokenAccuracy`,
    `TokenCount`); with others, with sample weights, or with losses of layers, such as regularizers', a step is Keras's
    own, on logits.

    Attributes:
        gradient_accumulation: how many parts a batch is worked on in, one after another. The memory is that of one
            part, the update that of the whole batch. On the TensorFlow backend only.
        parallel_parts: how many parts each of these is worked on in, side by side. With operations that take one
            thread each (`tf.config.threading`) a core works on its part without waiting for the others after each
            operation. The update is that of the whole batch here too. On the TensorFlow backend only.
    """

    gradient_accumulation = 1
    parallel_parts = 1

    def train_step(self, *arguments: Any) -> Any:
        """One update: `train_step(data)`, or `train_step(state, data)` on JAX, as in Keras."""
        *state, data = arguments
        if self.jit_compile and not is_one_device():
            raise ValueError("XLA can't compile a step that several devices share: compile with jit_compile=False")
        prepared = self._with_labels_as_input(data, training=True)
        if self._parts() > 1:
            return self._step_in_parts(data)
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
        if y is None:
            raise ValueError("fit and evaluate need labels too: batches of ((source_ids, target_ids), labels)")
        projects = hasattr(self.loss, "of_states") and sample_weight is None and not self.losses
        projects = projects and all(hasattr(metric, "add_sums") for metric in self._compiled_metrics(y))
        r_drop = training and getattr(self.loss, "r_drop", 0) > 0
        if not projects:
            if r_drop or (training and self._parts() > 1):
                raise ValueError(
                    "r_drop, gradient_accumulation and parallel_parts need the loss SmoothedCrossEntropy, no metrics "
                    "but Perplexity, TokenAccuracy and TokenCount, no sample weights and no regularizers; leave the "
                    "others out, or these options"
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

    def _parts(self) -> int:
        return self.gradient_accumulation * self.parallel_parts

    def _step_in_parts(self, data: Any) -> dict[str, Any]:
        """One update from a batch that is worked on in parts."""
        if keras.backend.backend() != "tensorflow":
            raise ValueError("gradient_accumulation and parallel_parts need Keras's TensorFlow backend; set them to 1")
        import tensorflow as tf

        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.init_scope():  # what makes variables can't be part of a loop
            if not self.built:
                self.build(tuple(ids.shape for ids in x))
        weights = self.trainable_weights
        rows, tokens = tf.shape(y)[0], self.loss.batch_tokens(y)
        size = -(-rows // self._parts())

        def split(ids: Any) -> Any:
            # Rows of padding fill up the last part; they count nowhere.
            padded = tf.pad(ids, [[0, self._parts() * size - rows], [0, 0]])
            return tf.reshape(padded, (self.gradient_accumulation, self.parallel_parts, size, -1))

        split_data = tf.nest.map_structure(split, (x, y))

        def of_part(data: Any) -> tuple[Any, list[Any]]:
            x, y = self._with_labels_as_input(data, training=True)
            with tf.GradientTape() as tape:
                loss = self._summed_loss(self(x, training=True), y, training=True) / tokens
                scaled = self.optimizer.scale_loss(loss)
            return loss, tape.gradient(scaled, weights)

        def of_parallel_parts(turn: Any) -> tuple[Any, list[Any]]:
            # Nothing in one of them needs another's results, so TensorFlow runs them at once.
            parts = [
                tf.nest.map_structure(lambda ids, i=i: ids[turn, i], split_data) for i in range(self.parallel_parts)
            ]
            losses, gradients = zip(*map(of_part, parts), strict=True)
            return tf.add_n(losses), [tf.add_n(of_weight) for of_weight in zip(*gradients, strict=True)]

        if self.gradient_accumulation == 1:
            loss, gradients = of_parallel_parts(0)
        else:

            def add_turn(turn: Any, loss: Any, gradients: Any) -> tuple[Any, ...]:
                more, more_gradients = of_parallel_parts(turn)
                return turn + 1, loss + more, [a + b for a, b in zip(gradients, more_gradients, strict=True)]

            start = (0, 0.0, [tf.zeros(weight.shape, weight.dtype) for weight in weights])
            # One turn at a time: the memory of several would be what accumulation is to save.
            _, loss, gradients = tf.while_loop(
                lambda turn, *_: turn < self.gradient_accumulation, add_turn, start, parallel_iterations=1
            )
        self.optimizer.apply(gradients, weights)
        # As Keras has it: the mean over the replicas is shown, and each one's share is of the whole batch.
        loss *= tf.distribute.get_replica_context().num_replicas_in_sync
        next(metric for metric in self.metrics if metric.name == "loss").update_state(loss, sample_weight=rows)
        return self.get_metrics_result()


def _is_projected(x: Any) -> bool:
    """Whether the labels are among the inputs, and the model gave its decoder's output for them."""
    return isinstance(x, (tuple, list)) and len(x) == 3
