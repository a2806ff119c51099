"""The connection around every sub-layer: "Add & Norm" in the paper's figure 1 (section 3.1)."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.layers.arguments import NORM_EPSILON, check_epsilon, check_rates
from tf_transformer.layers.dropout import Dropout
from tf_transformer.layers.normalization import LayerNormalization


@keras.saving.register_keras_serializable(package="tf_transformer")
class Residual(keras.layers.Layer):
    """Puts a sub-layer between its input and its normalised sum.

    Post-norm, as the paper has it: `LayerNorm(x + Dropout(Sublayer(x)))`. Pre-norm (`norm_first`):
    `x + Dropout(Sublayer(LayerNorm(x)))`. The sub-layer reads `enter(x)`, and its output `y` goes to `residual(x, y)`.

    Args:
        dropout_rate: share of the sub-layer's output that is dropped in training.
        norm_first: pre-norm instead of post-norm.
        norm_epsilon: keeps the root in the layer normalisation from zero.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import FeedForward, Residual
        >>> residual, feed_forward = Residual(0.1), FeedForward(8, 32)
        >>> x = np.ones((2, 3, 8), "float32")
        >>> residual(x, feed_forward(residual.enter(x))).shape
        TensorShape([2, 3, 8])
    """

    def __init__(
        self,
        dropout_rate: float = 0.1,
        norm_first: bool = False,
        norm_epsilon: float = NORM_EPSILON,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        (self.dropout_rate,) = check_rates(dropout_rate=dropout_rate)
        self.norm_first = norm_first
        self.norm_epsilon = check_epsilon(norm_epsilon)
        self.dropout = Dropout(self.dropout_rate, name="dropout", dtype=self.dtype_policy)
        self.norm = LayerNormalization(self.norm_epsilon, name="norm", dtype=self.dtype_policy)

    def build(self, x_shape: tuple, y_shape: tuple | None = None) -> None:
        self.norm.build(x_shape)

    def enter(self, x: Any) -> Any:
        """What the sub-layer reads: `x`, or with pre-norm its normalised form."""
        # A call of this layer: one of the norm alone would build it before the layer that it belongs to, and would make
        # it a layer of its own in a functional model.
        return self(x) if self.norm_first else x

    def call(self, x: Any, y: Any | None = None, training: bool | None = None) -> Any:
        """Adds the sub-layer's output `y` to its input `x`, float (batch, length, width); without `y` it is `enter`."""
        if y is None:
            return self.norm(x) if self.norm_first else x
        x = x + self.dropout(y, training=training)
        return x if self.norm_first else self.norm(x)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dropout_rate": self.dropout_rate,
            "norm_first": self.norm_first,
            "norm_epsilon": self.norm_epsilon,
        }
