"""A dense layer that is one matrix product for all positions."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.gradient import custom_gradient
from tf_transformer.layers.lean_ops import shape_of


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
        *positions, width = shape_of(inputs)
        x = ops.matmul(ops.reshape(inputs, (-1, width)), self.kernel)
        if self.use_bias:
            is_half = keras.backend.backend() == "tensorflow" and x.dtype in ("bfloat16", "float16")
            add = _add_in_half_precision if is_half else ops.add
            x = add(x, ops.cast(self.bias, x.dtype))  # a tensor also where the bias is cast to that by itself
        return ops.reshape(self.activation(x), (*positions, self.units))


@custom_gradient
def _add_in_half_precision(x: Any, bias: Any) -> tuple[Any, Any]:
    """`x + bias`, (rows, units), with the bias's gradient, a sum over all rows, as a product, which sums in float32.

    TensorFlow's own takes three times as long on a GPU, and on a CPU it sums bfloat16 numbers in bfloat16, where small
    ones vanish beside what is summed so far: of 4,096 rows the sum is wrong by a tenth.
    """
    import tensorflow as tf

    def gradient(upstream: Any) -> tuple[Any, Any]:
        ones = ops.ones((1, shape_of(upstream)[0]), upstream.dtype)
        return upstream, ops.matmul(ones, upstream)[0]

    return tf.nn.bias_add(x, bias), gradient
