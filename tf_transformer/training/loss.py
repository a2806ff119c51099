"""Cross-entropy over real tokens, with label smoothing (Vaswani et al., 2017, section 5.4)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.distributed.replicas import sum_over_replicas
from tf_transformer.layers.lean_ops import take
from tf_transformer.layers.masks import token_weights
from tf_transformer.training.projected_loss import TokenSums, projected_cross_entropy


@keras.saving.register_keras_serializable(package="tf_transformer")
class SmoothedCrossEntropy(keras.losses.Loss):
    """Mean cross-entropy of the batch's real tokens against smoothed labels.

    The label's share is `1 - label_smoothing + label_smoothing / vocabulary`, every other token's
    `label_smoothing / vocabulary`. Padding (label 0) counts nowhere. Under a distribution strategy the sum is divided
    by the tokens of the whole batch, not of the replica's part, so that any number of devices takes the same step.

    A `SequenceModel`, such as a `Transformer`, that is compiled with it has no more than a chunk of logits at a time in
    `fit` and `evaluate`: it hands the loss its decoder's output, and `of_states` projects that.

    Args:
        label_smoothing: epsilon_ls, in [0, 1).
        r_drop: alpha, the weight of R-Drop (Liang et al., 2021): each sentence goes through the model twice, and the
            two predictions, made with different dropout, are pulled towards each other. 0 for none, as in the paper.
            Only a `SequenceModel`'s `fit` can do it; there it takes twice the time and memory.
        alignment_weight: the weight of `alignment_loss`, which is added where a batch has an alignment beside its
            labels, `{"labels": ..., "alignment": ...}`; see there. Only `fit` of a `Transformer` with an
            `alignment_head` can do it.

    Raises:
        ValueError: `label_smoothing`, `r_drop` or `alignment_weight` out of range.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import SmoothedCrossEntropy
        >>> logits = np.zeros((1, 3, 8), "float32")
        >>> round(float(SmoothedCrossEntropy()(np.array([[5, 3, 0]]), logits)), 4)  # log(8): the third is padding
        2.0794
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        r_drop: float = 0.0,
        alignment_weight: float = 0.05,
        name: str = "smoothed_cross_entropy",
    ) -> None:
        if not 0 <= label_smoothing < 1:
            raise ValueError(f"label_smoothing must be in [0, 1), got {label_smoothing!r}")
        if not 0 <= r_drop < float("inf"):
            raise ValueError(f"r_drop must be 0 or more, got {r_drop!r}")
        if not 0 <= alignment_weight < float("inf"):
            raise ValueError(f"alignment_weight must be 0 or more, got {alignment_weight!r}")
        # `call` is given its arguments in this dtype, labels too: in half precision, as `keras.config.set_floatx` may
        # have it, they would be rounded to other tokens.
        super().__init__(name=name, reduction="sum", dtype="float32")
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop
        self.alignment_weight = alignment_weight

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Computes the loss, as `call` does."""
        # Keras's own would multiply the one number that `call` returns by sample weights, and by the mask that the
        # output of a model with `Embedding(mask_zero=True)` carries.
        y_true, y_pred = (ops.convert_to_tensor(each, dtype=self.dtype) for each in (y_true, y_pred))
        if sample_weight is None:  # a subclass's `call` may take none
            return self.call(y_true, y_pred)
        return self.call(y_true, y_pred, sample_weight)

    def call(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Computes the loss.

        Args:
            y_true: labels, int (batch, length); 0 is padding.
            y_pred: logits, float (batch, length, vocabulary).
            sample_weight: float (batch,), of sentences, or (batch, length), of tokens. The sum is divided by the number
                of tokens all the same, as Keras's losses do.

        Returns:
            A scalar float32.
        """
        labels = ops.cast(y_true, "int32")
        logits = ops.cast(y_pred, "float32")
        weights = token_weights(labels)
        if sample_weight is not None:
            of_each = ops.convert_to_tensor(sample_weight, "float32")
            weights = weights * (of_each[:, None] if len(of_each.shape) == 1 else of_each)
        losses = smoothed_cross_entropy(labels, logits, self.label_smoothing)
        return ops.sum(losses * weights) / self.batch_tokens(labels)

    def of_states(
        self, states: Any, embeddings: Any, y_true: Any, training: bool = True, free_shapes: bool = False
    ) -> TokenSums:
        """Projects and sums in one pass; the loss is `sums.loss / batch_tokens(y_true)`.

        Args:
            states: the decoder's output, float (batch, length, d_model); in training with `r_drop` of every sentence
                twice, (2 batch, length, d_model), first all, then all again.
            embeddings: the projection, float (vocabulary, d_model).
            y_true: labels, int (batch, length); 0 is padding.
            training: whether there will be a gradient; without there is no R-Drop either.
            free_shapes: whether a tensor's shape may depend on numbers (not so in what is compiled by XLA): padding is
                then left out instead of being projected for nothing.

        Returns:
            Sums over the real tokens.
        """
        r_drop = self.r_drop if training else 0.0
        states = ops.reshape(states, (2, -1, states.shape[-1]) if r_drop else (-1, states.shape[-1]))
        labels = ops.reshape(y_true, (-1,))
        if free_shapes:
            (real,) = ops.nonzero(labels)
            states, labels = take(states, real, axis=-2), take(labels, real)
        return projected_cross_entropy(
            states,
            embeddings,
            labels,
            label_smoothing=self.label_smoothing,
            r_drop=r_drop,
            training=training,
        )

    @staticmethod
    def batch_tokens(y_true: Any) -> Any:
        """Counts the real tokens of the whole batch, over all replicas: a float32 scalar, at least 1."""
        # A replica may be handed no token at all, hence the 1.
        return ops.maximum(sum_over_replicas(ops.sum(token_weights(y_true))), 1.0)

    def get_config(self) -> dict[str, Any]:
        names = "label_smoothing", "r_drop", "alignment_weight", "name"
        return {name: getattr(self, name) for name in names}


def cross_entropy(labels: Any, logits: Any) -> Any:
    """Unsmoothed cross-entropy of each position, float32 (batch, length), for labels int (batch, length), logits."""
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def smoothed_cross_entropy(labels: Any, logits: Any, label_smoothing: float) -> Any:
    """Cross-entropy of each position, float32 (batch, length), for labels int (batch, length), float32 logits."""
    unsmoothed = cross_entropy(labels, logits)
    if not label_smoothing:
        return unsmoothed
    # What smoothing takes from the label's logit, it spreads over all. One product with a table of constants takes less
    # memory than the two terms apart, each of which would have a gradient as large as the logits.
    shift = ops.one_hot(labels, logits.shape[-1], dtype="float32") - 1.0 / logits.shape[-1]
    return unsmoothed + label_smoothing * ops.sum(logits * shift, axis=-1)


def logit_of(labels: Any, logits: Any) -> Any:
    """The logit of each position's label: float (batch, length)."""
    return ops.squeeze(ops.take_along_axis(logits, labels[..., None], axis=-1), axis=-1)
