"""Functions whose gradient is written out, in graphs that end with their model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops


def custom_gradient(function: Callable[..., tuple[Any, Callable[[Any], Any]]]) -> Callable[..., Any]:
    """Keras's `custom_gradient` for one output, which on TensorFlow keeps no graph in memory.

    In a graph, TensorFlow enters each use of a custom gradient in a registry that is never cleared, with the graph
    around it and all that this holds: a model's weights, its optimizer. So the function is traced once for its tensors'
    types and ranks, on its own, and graphs call what was traced.

    Args:
        function: maps tensors to a tensor, and to a function from the gradient with respect to that tensor to those
            with respect to its arguments. It may use no tensor but its arguments, and lives as long as the process.

    Returns:
        A function from the same tensors to the tensor.

    Example:
        >>> from keras import ops
        >>> from tf_transformer.layers.gradient import custom_gradient
        >>> double = custom_gradient(lambda x: (2 * x, lambda upstream: 2 * upstream))
        >>> float(double(ops.convert_to_tensor(3.0)))
        6.0
    """

    @ops.custom_gradient
    def differentiable(*tensors: Any) -> tuple[Any, Any]:
        value, gradient = function(*tensors)

        # The backends hand over the gradient from above in two ways.
        def handed_over(*args: Any, upstream: Any | None = None) -> Any:
            return gradient(args[0] if upstream is None else upstream)

        return value, handed_over

    if keras.backend.backend() != "tensorflow":
        return differentiable

    @functools.cache
    def traced(*kinds: tuple[Any, int]) -> Any:
        import tensorflow as tf

        specs = [tf.TensorSpec([None] * rank, dtype) for dtype, rank in kinds]
        with tf.init_scope():  # outside of the graph that is being made
            return tf.function(differentiable, input_signature=specs, autograph=False).get_concrete_function()

    def wrapped(*tensors: Any) -> Any:
        import tensorflow as tf

        if tf.executing_eagerly():  # where nothing is entered anywhere
            return differentiable(*tensors)
        return traced(*((tensor.dtype, len(tensor.shape)) for tensor in tensors))(*tensors)

    return wrapped
