"""A dense layer that is one matrix product for all positions."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dense(keras.layers.Dense):
    """Computes `activation(x W + b)` as Keras's layer does, on the positions laid end to end.

    Keras's own hands more than two axes to a tensor product, between whose steps and the bias TensorFlow finds nothing
    to join. As one product of two matrices it becomes a single operation with bias and activation.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.dense import Dense
        >>> Dense(6)(np.ones((2, 3, 4), "float32")).shape
        TensorShape([2, 3, 6])
    """

    def call(self, inputs: Any) -> Any:
        """Maps float (..., width) to (..., units)."""
        *positions, width = ops.shape(inputs)
        x = ops.matmul(ops.reshape(inputs, (-1, width)), self.kernel)
        if self.use_bias:
            x = ops.add(x, self.bias)
        return ops.reshape(self.activation(x), (*positions, self.units))
