"""Layer normalisation (Ba et al., 2016), with its gradient written out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.arguments import NORM_EPSILON
from tf_transformer.layers.gradient import custom_gradient
from tf_transformer.layers.lean_ops import shape_of


@keras.saving.register_keras_serializable(package="tf_transformer")
class LayerNormalization(keras.layers.LayerNormalization):
    """Computes `gamma (x - mean) / sqrt(variance + epsilon) + beta` over the last axis, in float32 or better.

    The numbers are those of Keras's layer. With the gradient written out, a training step reads and writes its
    activations about half as often. Over other axes, or without `gamma` or `beta`, it is Keras's own.

    Args:
        epsilon: keeps the root from zero.
        **kwargs: other arguments of `keras.layers.LayerNormalization`.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.normalization import LayerNormalization
        >>> LayerNormalization()(np.array([[1.0, 3.0]], "float32")).numpy().round(3).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, epsilon: float = NORM_EPSILON, **kwargs: Any) -> None:
        super().__init__(epsilon=epsilon, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Maps float (..., width) to the same shape.

        Args:
            inputs: float (..., width).
            training: whether there will be a gradient. Without it there is one all the same, the usual way, and an
                exported graph holds nothing that only training needs.
        """
        if self.axis not in ([-1], [len(inputs.shape) - 1]) or self.gamma is None or self.beta is None:
            return super().call(inputs)
        dtype = keras.backend.result_type(inputs.dtype, "float32")
        x, gamma, beta = (ops.cast(tensor, dtype) for tensor in (inputs, self.gamma, self.beta))
        if training:
            rows = ops.reshape(x, (-1, x.shape[-1]))
            output = ops.reshape(_normalise_in_training(self.epsilon)(rows, gamma, beta), shape_of(x))
        else:
            output = _normal(x, self.epsilon)[0] * gamma + beta
        return ops.cast(output, self.compute_dtype)


def _normal(x: Any, epsilon: float) -> tuple[Any, Any]:
    """The inputs with mean 0 and variance 1 over the last axis, and what they were multiplied by."""
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    scale = ops.rsqrt(ops.mean(ops.square(centred), axis=-1, keepdims=True) + epsilon)
    return centred * scale, scale


@functools.cache
def _normalise_in_training(epsilon: float) -> Callable[[Any, Any, Any], Any]:
    @custom_gradient
    def normalise(x: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
        normal, scale = _normal(x, epsilon)

        def gradient(upstream: Any) -> tuple[Any, Any, Any]:
            of_gamma = upstream * normal
            # Means over the last axis of these two times gamma, without a pass for the multiplication.
            share = ops.reshape(gamma / ops.cast(shape_of(x)[-1], gamma.dtype), (-1, 1))
            mean, slope = ops.matmul(upstream, share), ops.matmul(of_gamma, share)
            of_x = (upstream * gamma - mean - normal * slope) * scale
            return of_x, ops.sum(of_gamma, axis=0), ops.sum(upstream, axis=0)

        return normal * gamma + beta, gradient

    return normalise
