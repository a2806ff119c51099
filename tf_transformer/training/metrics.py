"""Metrics over real tokens only: padding (label 0) is ignored."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.lean_ops import shape_of
from tf_transformer.layers.masks import token_weights
from tf_transformer.training.loss import cross_entropy, logit_of
from tf_transformer.training.projected_loss import TokenSums


class _TokenMean(keras.metrics.Metric):
    """A sum over real tokens and their number, over all batches and devices."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        # Half precision, as `keras.config.set_floatx` may have it, counts no further than 256 or 2,048.
        super().__init__(name=name, **kwargs)
        self.total = self.add_variable(shape=(), initializer="zeros", dtype="float32", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", dtype="float32", name="count")

    def of_tokens(self, labels: Any, logits: Any) -> Any:
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any | None = None) -> None:
        """Adds a batch.

        Args:
            y_true: labels, int (batch, length).
            y_pred: logits, float (batch, length, vocabulary).
            sample_weight: not supported.
        """
        if sample_weight is not None:
            raise ValueError(f"{self.name} gives all tokens the same weight: sample_weight must be None")
        labels = ops.cast(y_true, "int32")
        real = token_weights(labels)
        values = self.of_tokens(labels, ops.cast(y_pred, "float32"))
        self.total.assign_add(ops.sum(values * real))
        self.count.assign_add(ops.sum(real))

    def add_sums(self, sums: TokenSums) -> None:
        """Adds a batch of which the loss has made sums already."""
        self.total.assign_add(self.of_sums(sums))
        self.count.assign_add(sums.tokens)

    def of_sums(self, sums: TokenSums) -> Any:
        raise NotImplementedError

    def mean(self) -> Any:
        return self.total / ops.maximum(self.count, 1.0)


@keras.saving.register_keras_serializable(package="tf_transformer")
class Perplexity(_TokenMean):
    """`exp` of the mean cross-entropy for a token, unsmoothed as in the paper's Table 3.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import Perplexity
        >>> metric = Perplexity()
        >>> metric.update_state(np.array([[5, 3, 0]]), np.zeros((1, 3, 8), "float32"))
        >>> round(float(metric.result()), 4)
        8.0
    """

    def __init__(self, name: str = "perplexity", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def of_tokens(self, labels: Any, logits: Any) -> Any:
        # The same operation as in the loss, so that TensorFlow works it out once for both.
        return cross_entropy(labels, logits)

    def of_sums(self, sums: TokenSums) -> Any:
        return sums.cross_entropy

    def result(self) -> Any:
        return ops.exp(self.mean())


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenAccuracy(_TokenMean):
    """Share of the tokens whose logit is the highest; a tie counts.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import TokenAccuracy
        >>> metric = TokenAccuracy()
        >>> metric.update_state(np.array([[1, 2, 0]]), np.eye(3, dtype="float32")[None, [1, 1, 0]])
        >>> float(metric.result())
        0.5
    """

    def __init__(self, name: str = "accuracy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def of_tokens(self, labels: Any, logits: Any) -> Any:
        return ops.cast(logit_of(labels, logits) >= ops.max(logits, axis=-1), "float32")

    def of_sums(self, sums: TokenSums) -> Any:
        return sums.correct

    def result(self) -> Any:
        return self.mean()


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenCount(_TokenMean):
    """Number of real target tokens.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.training import TokenCount
        >>> metric = TokenCount()
        >>> metric.update_state(np.array([[1, 2, 0]]), np.zeros((1, 3, 8), "float32"))
        >>> float(metric.result())
        2.0
    """

    def __init__(self, name: str = "tokens", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def of_tokens(self, labels: Any, logits: Any) -> Any:
        return ops.ones(shape_of(labels), "float32")

    def of_sums(self, sums: TokenSums) -> Any:
        return sums.tokens

    def result(self) -> Any:
        return self.count + 0.0  # a value: the variable itself would go on counting under whoever keeps it


@keras.saving.register_keras_serializable(package="tf_transformer")
class AlignmentLoss(_TokenMean):
    """Mean of `alignment_loss` per target token, before its weight; 0 if batches have no alignments.

    Example:
        >>> from tf_transformer.training import AlignmentLoss
        >>> from tf_transformer.training.projected_loss import TokenSums
        >>> metric = AlignmentLoss()
        >>> metric.add_sums(TokenSums(loss=9.0, cross_entropy=8.0, correct=1.0, tokens=4.0, alignment=3.0))
        >>> float(metric.result())
        0.75
    """

    def __init__(self, name: str = "alignment_loss", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def of_tokens(self, labels: Any, logits: Any) -> Any:
        return ops.zeros(shape_of(labels), "float32")  # logits tell nothing of attention

    def of_sums(self, sums: TokenSums) -> Any:
        return sums.alignment

    def result(self) -> Any:
        return self.mean()
