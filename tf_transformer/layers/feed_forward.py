"""The position-wise feed-forward network (Vaswani et al., 2017, section 3.3)."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.layers.arguments import check_activation, check_rates, check_sizes
from tf_transformer.layers.dense import Dense
from tf_transformer.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="tf_transformer")
class FeedForward(keras.layers.Layer):
    """Computes `max(0, x W_1 + b_1) W_2 + b_2`, the paper's equation 2, the same at each position.

    Other activations can replace `max(0, x)`, which is "relu": "gelu" is `x Phi(x)` (Hendrycks and
    Gimpel, 2016), and "swish" is `x / (1 + exp(-x))` (Ramachandran et al., 2017).

    Args:
        d_model: width of the output.
        dff: width of the hidden layer, d_ff.
        activation_dropout_rate: share of the hidden layer's activations that is dropped in training.
        activation: "relu", "gelu" or "swish".

    Example:
        >>> import numpy as np
        >>> from tf_transformer import FeedForward
        >>> FeedForward(512, 2048)(np.ones((8, 50, 512), "float32")).shape
        TensorShape([8, 50, 512])
    """

    def __init__(
        self,
        d_model: int,
        dff: int,
        activation_dropout_rate: float = 0.0,
        activation: str = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model, self.dff = check_sizes(d_model=d_model, dff=dff)
        (self.activation_dropout_rate,) = check_rates(activation_dropout_rate=activation_dropout_rate)
        self.activation = check_activation(activation)
        self.hidden = Dense(self.dff, activation=activation, name="hidden", dtype=self.dtype_policy)
        self.dropout = Dropout(self.activation_dropout_rate, name="dropout", dtype=self.dtype_policy)
        self.output_projection = Dense(self.d_model, name="output", dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        self.hidden.build(input_shape)
        self.output_projection.build((*input_shape[:-1], self.dff))

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Maps float (batch, length, width) to (batch, length, d_model); `training` says whether dropout is on."""
        return self.output_projection(self.dropout(self.hidden(x), training=training))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "dff": self.dff,
            "activation_dropout_rate": self.activation_dropout_rate,
            "activation": self.activation,
        }
