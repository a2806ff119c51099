"""Layer normalisation (Ba et al., 2016), with its gradient written out."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.gradient import custom_gradient

LAYER_NORM_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="tf_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Computes `gamma (x - mean) / sqrt(variance + epsilon) + beta` over the last axis, in float32 or better.

    The numbers are those of Keras's layer. With the gradient written out, a training step reads and writes its
    activations about half as often.

    Args:
        epsilon: keeps the root from zero.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.normalization import LayerNormalization
        >>> LayerNormalization()(np.array([[1.0, 3.0]], "float32")).numpy().round(3).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, epsilon: float = LAYER_NORM_EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs: Any) -> Any:
        """Maps float (..., width) to the same shape."""
        dtype = keras.backend.result_type(inputs.dtype, "float32")
        x, gamma, beta = (ops.cast(tensor, dtype) for tensor in (inputs, self.gamma, self.beta))
        return ops.cast(_normalise(x, gamma, beta, self.epsilon), self.compute_dtype)


def _normalise(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    width = x.shape[-1]

    @custom_gradient
    def normalise(x: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + epsilon)
        normal = centred * scale

        def gradient(upstream: Any) -> tuple[Any, Any, Any]:
            of_gamma = upstream * normal
            # Means over the last axis of these two times gamma, without a pass for the multiplication.
            share = ops.reshape(gamma / width, (-1, 1))
            mean, slope = ops.matmul(upstream, share), ops.matmul(of_gamma, share)
            of_x = (upstream * gamma - mean - normal * slope) * scale
            positions = tuple(range(len(x.shape) - 1))
            return of_x, ops.sum(of_gamma, axis=positions), ops.sum(upstream, axis=positions)

        return normal * gamma + beta, gradient

    return normalise(x, gamma, beta)
