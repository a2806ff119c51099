"""What a step of `fit` and of `evaluate` does differently from Keras's: the loss projects, and batches may be split."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras import ops

from tf_transformer.distributed.replicas import is_one_device, number_of_replicas, scope_of, without_sums
from tf_transformer.training.alignment import alignment_loss, labels_and_alignment

# The model at work on a step whose loss projects. Each of MirroredStrategy's threads, one a device, has its own.
_AT_WORK: ContextVar[ProjectingSteps | None] = ContextVar("at_work", default=None)


class ProjectingSteps:
    """Steps in which the loss projects the decoder's output itself, so that no more than a chunk of logits exists.

    They are taken where loss and metrics can do so (`SmoothedCrossEntropy`; `Perplexity`, `TokenAccuracy`,
    `TokenCount`). With others, with sample weights, or where a subclass has a `call`, `project`, `compute_loss` or
    `compute_metrics` of its own, a step is Keras's own, on logits.

    Attributes:
        gradient_accumulation: how many parts a batch is worked on in, one after another. The memory is that of one
            part, the update that of the whole batch. On the TensorFlow backend only. Saved with what was compiled.
        parallel_parts: how many parts each of these is worked on in, side by side. With operations that take one
            thread each (`tf.config.threading`) a core works on its part without waiting for the others after each
            operation. The update is that of the whole batch here too. On the TensorFlow backend only. Saved likewise.
        alignment_head: the decoder's layer and the head, both counted from 0, whose attention to the source is the
            model's alignment, and learns from alignments beside the labels (`alignment_loss`); None for none.
        tree_loss: the weight of a parser's further loss, which only these steps add; 0 for none.
    """

    gradient_accumulation = 1
    parallel_parts = 1
    alignment_head: tuple[int, int] | None = None
    tree_loss = 0.0
    _loss_weights = (1.0,)

    @property
    def loss_projects(self) -> bool:
        """Whether a step is at work whose loss projects, for which `call` gives the decoder's output, not logits."""
        return _AT_WORK.get() is self

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, loss_weights: Any = None, *more: Any, **options: Any
    ) -> None:
        """Says how to train, as in Keras."""
        super().compile(optimizer, loss, loss_weights, *more, **options)
        if loss is not None:  # otherwise Keras keeps to those of before
            self._loss_weights = (1.0,) if loss_weights is None else tuple(keras.tree.flatten(loss_weights))

    def get_compile_config(self) -> dict[str, Any]:
        """What `compile` was given, as in Keras, with the number of parts."""
        parts = {"gradient_accumulation": self.gradient_accumulation, "parallel_parts": self.parallel_parts}
        return {**super().get_compile_config(), **parts} if self.compiled else {}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles as `get_compile_config` tells, as in Keras."""
        if type(self).compile is not ProjectingSteps.compile:
            super().compile_from_config(config)  # which refuses what a subclass has changed
            return
        config = keras.saving.deserialize_keras_object(config)
        self.gradient_accumulation = config.pop("gradient_accumulation", 1)
        self.parallel_parts = config.pop("parallel_parts", 1)
        self.compile(**config)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force: bool = False) -> Any:
        """Makes the step of `fit`, as in Keras, once all variables are there: one that makes some is traced twice."""
        with scope_of(self):
            if not self.built:
                self.build(((None, None), (None, None)))
            if not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def train_step(self, *arguments: Any) -> Any:
        """One update: `train_step(data)`, or `train_step(state, data)` on JAX, as in Keras."""
        # Keras's loss scaling refuses the context of all devices; what is within it does as it likes.
        if isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer):
            return self._train_step(*arguments)
        return without_sums(self._train_step, *arguments)

    def _train_step(self, *arguments: Any) -> Any:
        *state, data = arguments
        if self.jit_compile and not is_one_device():
            raise ValueError("XLA can't compile a step that several devices share: compile with jit_compile=False")
        x, y, sample_weight = _unpacked(data)
        if not self._can_project(y, sample_weight):
            if self._r_drop() or self.tree_loss or self._parts() > 1 or labels_and_alignment(y)[1] is not None:
                raise ValueError(
                    "r_drop, tree_loss, gradient_accumulation, parallel_parts and alignments need the loss "
                    "SmoothedCrossEntropy, no metrics but Perplexity, TokenAccuracy, TokenCount and AlignmentLoss, no "
                    "sample weights and a Transformer whose call, project, compute_loss and compute_metrics no "
                    "subclass has changed; leave the others out, or these options"
                )
            return super().train_step(*state, data)
        with self._at_work():
            if self._parts() > 1:
                return self._step_in_parts(x, y)
            return super().train_step(*state, (self._passes(x), y))

    def test_step(self, *arguments: Any) -> Any:
        """One batch of validation, as in Keras."""
        *state, data = arguments
        _, y, sample_weight = _unpacked(data)
        if not self._can_project(y, sample_weight):
            return super().test_step(*state, data)
        with self._at_work():
            return super().test_step(*state, data)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """The compiled loss of a batch, as in Keras; the metrics get their sums in the same pass."""
        if not self.loss_projects:
            return super().compute_loss(x, labels_and_alignment(y)[0], y_pred, sample_weight, training)
        # Read before anything waits for the other devices, whose own then take their place.
        added = [ops.sum(ops.cast(loss, "float32")) for loss in self.losses]
        loss = self._summed_loss(y_pred, y, training) / self._only_loss.batch_tokens(labels_and_alignment(y)[0])
        return loss + sum(added) / number_of_replicas()

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """The figures so far, as in Keras."""
        if self.loss_projects:
            return self.get_metrics_result()
        return super().compute_metrics(x, labels_and_alignment(y)[0], y_pred, sample_weight)

    def build_metrics(self) -> None:
        """Makes the variables of the compiled metrics, which Keras makes in the first step."""
        self._compiled_metrics(keras.KerasTensor((None, None), "int32"))

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        token = _AT_WORK.set(self)
        try:
            yield
        finally:
            _AT_WORK.reset(token)

    @property
    def _only_loss(self) -> Any:
        """The compiled loss, also where it is the only one of a list; None where there are several."""
        losses = keras.tree.flatten(self.loss)
        return losses[0] if len(losses) == 1 else None

    def _can_project(self, y: Any, sample_weight: Any) -> bool:
        labels, _ = labels_and_alignment(y)
        return (
            sample_weight is None
            and len(self._loss_weights) == 1
            and _stands_for(self._only_loss, "of_states", "call", "__call__")
            and _stands_for(self, "output_embeddings", "call", "project", "compute_loss", "compute_metrics")
            and all(
                _stands_for(metric, "add_sums", "update_state") and _stands_for(metric, "of_sums", "of_tokens")
                for metric in self._compiled_metrics(labels)
            )
        )

    def _compiled_metrics(self, labels: Any) -> list[keras.metrics.Metric]:
        # Keras holds those given to `compile` together in one, beside its own metric of the loss, and names them only
        # once it has seen what they are given: labels and logits.
        groups = [metric for metric in self.metrics if hasattr(metric, "metrics")]
        for group in groups:
            if not group.built:
                group.build(labels, keras.KerasTensor((*labels.shape, self.target_vocab_size)))
        return [metric for group in groups for metric in group.metrics]

    def _r_drop(self) -> bool:
        return any(getattr(loss, "r_drop", 0) > 0 for loss in keras.tree.flatten(self.loss))

    def _passes(self, x: Any) -> Any:
        """What the model reads in training: with R-Drop each sentence twice."""
        return tuple(ops.concatenate([ids, ids]) for ids in x) if self._r_drop() else x

    def _summed_loss(self, outputs: Any, y: Any, training: bool) -> Any:
        """The compiled loss summed over a batch's real tokens; the metrics get theirs."""
        labels, alignment = labels_and_alignment(y)
        copies = 2 if training and self._r_drop() else 1
        free_shapes = keras.backend.backend() == "tensorflow" and not self.jit_compile
        sums = self._only_loss.of_states(outputs["states"], self.output_embeddings(), labels, training, free_shapes)
        if alignment is not None:
            if not self.alignment_head:
                raise ValueError("alignments need a Transformer with an alignment_head; name one, or leave them out")
            of_head = alignment_loss(outputs["head"], alignment, copies=copies)
            sums = sums._replace(loss=sums.loss + self._only_loss.alignment_weight * of_head, alignment=of_head)
        for metric in self._compiled_metrics(labels):
            metric.add_sums(sums)
        further = outputs.get("further_loss", 0.0) / copies
        return sums.loss * self._loss_weights[0] + further

    def _parts(self) -> int:
        return self.gradient_accumulation * self.parallel_parts

    def _step_in_parts(self, x: Any, y: Any) -> dict[str, Any]:
        """One update from a batch that is worked on in parts."""
        if keras.backend.backend() != "tensorflow":
            raise ValueError("gradient_accumulation and parallel_parts need Keras's TensorFlow backend; set them to 1")
        import tensorflow as tf

        from tf_transformer.training.parts import loss_and_gradients, split

        with tf.init_scope():  # what makes variables can't be part of a loop
            if not self.built:
                self.build(tuple(ids.shape for ids in x))
        labels, _ = labels_and_alignment(y)
        rows, tokens = tf.shape(labels)[0], self._only_loss.batch_tokens(labels)
        weights = self.trainable_weights

        def loss_of(part: Any) -> Any:
            x, y = part
            outputs = self(self._passes(x), training=True)
            if self.losses:
                raise ValueError(
                    "gradient_accumulation and parallel_parts don't support regularizers and add_loss, whose sum over "
                    "the parts is not the batch's; leave them out, or set both to 1"
                )
            return self._summed_loss(outputs, y, training=True) / tokens

        parts = split((x, y), rows, self.gradient_accumulation, self.parallel_parts)
        loss, gradients = loss_and_gradients(loss_of, parts, weights, self.optimizer.scale_loss)
        self.optimizer.apply(gradients, weights)
        # As Keras has it: the mean over the replicas is shown, and each one's share is of the whole batch.
        next(metric for metric in self.metrics if metric.name == "loss").update_state(
            loss * number_of_replicas(), sample_weight=rows
        )
        return self.get_metrics_result()


def _unpacked(data: Any) -> tuple[Any, Any, Any]:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if y is None:
        raise ValueError("fit and evaluate need labels too: batches of ((source_ids, target_ids), labels)")
    return x, y, sample_weight


def _stands_for(thing: Any, shortcut: str, *methods: str) -> bool:
    """Whether a thing has a shortcut for its methods, none of which a subclass has changed without the shortcut."""

    def owner(name: str) -> type:
        return next((each for each in type(thing).__mro__ if name in vars(each)), object)

    return hasattr(thing, shortcut) and all(issubclass(owner(shortcut), owner(method)) for method in methods)
