"""Dropout (Srivastava et al., 2014) from few random bits."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

# A number decides with 16 bits whether it is kept: half of what a uniform float32 would take to draw.
LEVELS = 2**16


@keras.saving.register_keras_serializable(package="tf_transformer")
class Dropout(keras.layers.Dropout):
    """Sets a share of the numbers to 0 in training and divides the others by the share kept.

    Drawing random numbers is most of what dropout costs on a CPU. The rate is rounded to a multiple of 1/65,536.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.dropout import Dropout
        >>> sorted(set(Dropout(0.5, seed=1)(np.ones((8, 8), "float32"), training=True).numpy().ravel().tolist()))
        [0.0, 2.0]
    """

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Maps float (...) to the same shape."""
        dropped = min(round(self.rate * LEVELS), LEVELS - 1)
        if not training or dropped == 0:
            return inputs
        shape = ops.shape(inputs)
        size = 1
        for axis in shape:
            size = size * axis
        words = _random_words((size + 1) // 2, self.seed_generator)
        draws = ops.reshape(ops.view(words, "int16"), (-1,))[:size]
        kept = ops.cast(draws >= dropped - LEVELS // 2, inputs.dtype)
        # The mask is scaled, not the product: the gradient then takes one multiplication too.
        return inputs * ops.reshape(kept * (LEVELS / (LEVELS - dropped)), shape)


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
