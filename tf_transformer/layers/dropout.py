"""Dropout (Srivastava et al., 2014) from few random bits."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.layers.device import on_gpu
from tf_transformer.layers.lean_ops import shape_of

# A number decides with 16 bits whether it is kept: half of what a uniform float32 would take to draw.
LEVELS = 2**16


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Dropout):
    """Sets a share of the numbers to 0 in training and divides the others by the share kept.

    Drawing random numbers is most of what dropout costs on a CPU. The rate is rounded to a multiple of 1/65,536.

    Args:
        rate: the share, in [0, 1].
        seed: what the draws follow from; another one each time unless given.
        **kwargs: other arguments of `keras.layers.Layer`.

    Raises:
        ValueError: a rate out of range, or a `noise_shape`: each number has a draw of its own.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.dropout import Dropout
        >>> sorted(set(Dropout(0.5, seed=1)(np.ones((8, 8), "float32"), training=True).numpy().ravel().tolist()))
        [0.0, 2.0]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(rate, seed=seed, **kwargs)
        if self.noise_shape is not None:
            raise ValueError(f"noise_shape must be None, got {self.noise_shape!r}")

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Maps float (...) to the same shape."""
        dropped = round(self.rate * LEVELS)
        if not training or dropped == 0:
            return inputs
        if dropped == LEVELS:  # a rate just below 1 is rounded to it
            return ops.zeros_like(inputs)
        shape = shape_of(inputs)
        size = 1
        for axis in shape:
            size = size * axis
        words = _random_words((size + 1) // 2, self.seed_generator)
        draws = ops.reshape(ops.view(words, "int16"), (-1,))[:size]
        kept = ops.reshape(draws >= dropped - LEVELS // 2, shape)
        return _keep(inputs, kept, LEVELS / (LEVELS - dropped))


def _keep(inputs: Any, kept: Any, scale: float) -> Any:
    """`inputs * scale` where `kept`, elsewhere 0, whatever the number was: 0 times infinity would be no number."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # A selection would be one more pass over memory, forwards and backwards. Of bfloat16 GPUs don't have the other.
        if inputs.dtype != tf.bfloat16 or not on_gpu():
            # The mask is scaled, not the product: the gradient then takes one multiplication too.
            return tf.math.multiply_no_nan(inputs, tf.cast(kept, inputs.dtype) * scale)
    return ops.where(kept, inputs * scale, ops.zeros((), inputs.dtype))


def _random_words(number: Any, seed: keras.random.SeedGenerator) -> Any:
    """Random bits, int32 (number, 1)."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        drawn = tf.cast(seed.next(), "int32")
        replica = tf.distribute.get_replica_context()
        if replica is not None and replica.num_replicas_in_sync > 1:
            # All devices have the same seeds, and each is to drop other numbers.
            drawn += tf.stack([replica.replica_id_in_sync_group, 0])
        # Keras would ask for a range, for which each number is divided: twice the time.
        return tf.random.stateless_uniform((number, 1), drawn, None, None, "int32")
    return keras.random.randint((number, 1), -(2**31), 2**31 - 1, dtype="int32", seed=seed)
