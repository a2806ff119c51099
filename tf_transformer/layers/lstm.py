"""Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.arguments import check_sizes
from tf_transformer.layers.dense import Dense
from tf_transformer.layers.lean_ops import shape_of

# The sigmoid of this is 0, also in half precision: a gate through which nothing comes.
SHUT = -1e4


@keras.saving.register_keras_serializable(package="tf_transformer")
class LSTM(keras.layers.Layer):
    """Reads a sequence one position after the other, and remembers what it chooses to.

    `i, f, o, g = split(x_t W + b + h_{t-1} U)`, `c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)`,
    `h_t = sigmoid(o) tanh(c_t)`. What needs no earlier position, `x W + b`, is one product for all of them. Keras's own
    layer multiplies position by position.

    Args:
        units: width of the output h and of the memory c.
        backward: whether it reads from the last position to the first.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.lstm import LSTM
        >>> LSTM(16)(np.ones((2, 5, 8), "float32")).shape
        TensorShape([2, 5, 16])
    """

    def __init__(self, units: int, backward: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        (self.units,) = check_sizes(units=units)
        self.backward = backward
        self.input_projection = Dense(
            4 * self.units, bias_initializer=self._open_forget_gates, name="input", dtype=self.dtype_policy
        )

    def _open_forget_gates(self, shape: tuple, dtype: Any = None) -> Any:
        """Biases with which nothing is forgotten at first (Jozefowicz et al., 2015)."""
        gate = ops.arange(shape[0]) // self.units
        return ops.cast(ops.equal(gate, 1), dtype)

    def build(self, input_shape: tuple) -> None:
        self.input_projection.build(input_shape)
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, 4 * self.units), initializer="orthogonal", name="recurrent_kernel"
        )

    def call(self, x: Any, real: Any | None = None) -> Any:
        """Maps float (batch, length, width) to (batch, length, units).

        Args:
            x: float (batch, length, width).
            real: bool (batch, length), False at padding, where the memory is emptied: one that reads backwards begins
                at the last real position. Output at padding means nothing.
        """
        projected = self.input_projection(x)
        if real is not None:
            projected = ops.where(ops.expand_dims(real, axis=2), projected, SHUT)
        kernel = ops.convert_to_tensor(self.recurrent_kernel, self.compute_dtype)
        batch = shape_of(x)[0]
        start = ops.zeros((batch, self.units), self.compute_dtype), ops.zeros((batch, self.units), "float32")

        def step(state: tuple[Any, Any], at: Any) -> tuple[Any, Any]:
            return lstm_step(at, *state, kernel)

        outputs, _ = _scan(step, start, ops.transpose(projected, (1, 0, 2)), self.backward)
        return ops.transpose(outputs, (1, 0, 2))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units, "backward": self.backward}


def _scan(step: Callable, start: tuple[Any, Any], sequence: Any, backward: bool) -> tuple[Any, Any]:
    """The states after each element of a sequence, (length, ...), the first of them from `start`."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Keras's loop doesn't tell how often it turns, without which XLA can't make its gradient.
        return tf.scan(step, sequence, start, reverse=backward)

    def with_output(state: tuple[Any, Any], at: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        state = step(state, at)
        return state, state

    return ops.scan(with_output, start, sequence, reverse=backward)[1]


def lstm_step(projected: Any, output: Any, memory: Any, recurrent_kernel: Any) -> tuple[Any, Any]:
    """Works out one position.

    Args:
        projected: `x_t W + b`, float (batch, 4 * units).
        output: h of the position before, float (batch, units).
        memory: c of the position before, float32 (batch, units).
        recurrent_kernel: U, float (units, 4 * units).

    Returns:
        h and c of this position.

    Example:
        >>> from keras import ops
        >>> from tf_transformer.layers.lstm import lstm_step
        >>> [x.shape for x in lstm_step(ops.ones((2, 12)), ops.ones((2, 3)), ops.ones((2, 3)), ops.ones((3, 12)))]
        [TensorShape([2, 3]), TensorShape([2, 3])]
    """
    units = recurrent_kernel.shape[0]
    # What is remembered is a sum over many positions, which half precision would round at each.
    gates = ops.cast(projected + ops.matmul(output, recurrent_kernel), "float32")
    write, keep, read = ops.split(ops.sigmoid(gates[:, : 3 * units]), 3, axis=-1)
    memory = keep * memory + write * ops.tanh(gates[:, 3 * units :])
    return ops.cast(read * ops.tanh(memory), output.dtype), memory
