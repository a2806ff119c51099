"""Which spans of a sentence are constituents, and of what label, read off the encoder's output."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.arguments import check_sizes
from tf_transformer.layers.dense import Dense


@keras.saving.register_keras_serializable(package="tf_transformer")
class SpanScorer(keras.layers.Layer):
    """Scores every span of a sequence by its first and its last position.

    Whether a span is a constituent is a logit, the scaled product of a projection of its first position and one of its
    last (Dozat and Manning, 2017). Which label it then has is a feed-forward network of the two (Stern et al., 2017).

    Args:
        d_model: width of the projections.
        labels: number of labels.

    Raises:
        ValueError: sizes that are not positive integers.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.span_scorer import SpanScorer
        >>> context = np.ones((1, 4, 8), "float32")
        >>> SpanScorer(8, 5)(context).shape
        TensorShape([1, 4, 4])
    """

    def __init__(self, d_model: int, labels: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.d_model, self.labels = check_sizes(d_model=d_model, labels=labels)
        self.first, self.last, self.first_of_label, self.last_of_label = (
            Dense(self.d_model, name=name, dtype=self.dtype_policy)
            for name in ("first", "last", "first_of_label", "last_of_label")
        )
        self.label = Dense(self.labels, name="label", dtype=self.dtype_policy)

    def build(self, context_shape: tuple) -> None:
        for projection in self.first, self.last, self.first_of_label, self.last_of_label:
            projection.build(context_shape)
        self.label.build((*context_shape[:-1], self.d_model))
        # Few spans are constituents; with 0 the first updates would teach nothing but that.
        self.bias = self.add_weight(shape=(), initializer=keras.initializers.Constant(-3.0), name="bias")

    def call(self, context: Any) -> Any:
        """Scores the spans of a batch.

        Args:
            context: the encoder's output, float (batch, length, width).

        Returns:
            Logits, float32 (batch, length, length), of the spans from one position to another.
        """
        products = ops.matmul(self.first(context), ops.transpose(self.last(context), (0, 2, 1)))
        return ops.cast(products, "float32") * self.d_model**-0.5 + ops.cast(self.bias, "float32")

    def label_logits(self, context: Any, first: Any, last: Any) -> Any:
        """Tells labels of given spans.

        Args:
            context: as above.
            first: float (batch, spans, length), 1 at each span's first position and else 0.
            last: the same of its last position.

        Returns:
            Logits, float32 (batch, spans, labels).
        """
        hidden = ops.matmul(first, self.first_of_label(context)) + ops.matmul(last, self.last_of_label(context))
        return ops.cast(self.label(ops.relu(hidden)), "float32")

    def compute_output_shape(self, context_shape: tuple) -> tuple:
        return (*context_shape[:-1], context_shape[-2])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "d_model": self.d_model, "labels": self.labels}
