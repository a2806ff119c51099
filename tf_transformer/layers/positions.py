"""Position encodings, which are added to the embeddings (Vaswani et al., 2017, section 3.5)."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.arguments import POSITIONS, check_sizes
from tf_transformer.layers.lean_ops import shape_of


def positional_encoding(length: int, depth: int, halves: bool = False) -> np.ndarray:
    """Computes the paper's sinusoids: interleaved sine and cosine of falling frequency.

    `PE(pos, 2i) = sin(pos / 10000^(2i/depth))`, `PE(pos, 2i+1) = cos(pos / 10000^(2i/depth))`.

    Args:
        length: number of positions.
        depth: width of the encoding, even.
        halves: whether all sines come first and then all cosines, as models made by tensor2tensor and Marian have them.

    Returns:
        float32 (length, depth), computed in float64.

    Raises:
        ValueError: `depth` is odd.

    Example:
        >>> from tf_transformer import positional_encoding
        >>> positional_encoding(1, 4).tolist()
        [[0.0, 1.0, 0.0, 1.0]]
    """
    if depth % 2:
        raise ValueError(f"sinusoidal positions need an even depth (d_model), got {depth}")
    frequency = 10000.0 ** (-np.arange(0, depth, 2) / depth)
    angle = np.arange(length)[:, None] * frequency
    if halves:
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1).astype("float32")
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, depth).astype("float32")


@keras.saving.register_keras_serializable(package="tf_transformer")
class PositionEncoding(keras.layers.Layer):
    """Adds to each position's vector its encoding: the paper's sinusoids or learned vectors (Table 3, E).

    Args:
        position: "sinusoidal", "sinusoidal_halves" (all sines, then all cosines) or "learned".
        max_length: number of positions.

    Raises:
        ValueError: an unknown kind of position, or (when called) a sequence longer than `max_length`.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import PositionEncoding
        >>> PositionEncoding("sinusoidal", 50)(np.zeros((1, 20, 8), "float32")).shape
        TensorShape([1, 20, 8])
    """

    def __init__(self, position: str = "sinusoidal", max_length: int = 1024, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if position not in POSITIONS:
            raise ValueError(f"position must be one of {', '.join(POSITIONS)}, got {position!r}")
        self.position = position
        (self.max_length,) = check_sizes(max_length=max_length)

    def build(self, input_shape: tuple) -> None:
        depth = input_shape[-1]
        if self.position != "learned":
            self.table = positional_encoding(self.max_length, depth, halves=self.position == "sinusoidal_halves")
        else:
            initializer = keras.initializers.RandomNormal(stddev=depth**-0.5)
            self.table = self.add_weight(shape=(self.max_length, depth), initializer=initializer, name="positions")

    def call(self, x: Any) -> Any:
        """Adds the positions to `x`, float (batch, length, width)."""
        table = ops.convert_to_tensor(self.table, dtype=self.compute_dtype)
        length = self._checked(shape_of(x)[1])
        if keras.backend.backend() == "jax" and not isinstance(length, int):
            # Unknown where Keras works out shapes, or exports. JAX cuts no slice of it, and compares it with nothing;
            # what is looked up beyond the last position is NaN.
            return x + ops.take(table, ops.arange(length), axis=0)
        # Unlike an index, a slice can't be cut short: one position would be every token's then.
        return x + ops.slice(table, (0, 0), (length, table.shape[1]))

    def _checked(self, length: Any) -> Any:
        """The length, unless there are fewer positions; where it is not known before a graph runs, the graph checks."""
        advice = (
            f"tokens is longer than the {self.max_length} positions available; "
            "cut it, or make the model with a larger max_length"
        )
        if isinstance(length, int):
            if length > self.max_length:
                raise ValueError(f"a sequence of {length} {advice}")
        elif keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            enough = tf.debugging.Assert(length <= self.max_length, ["a sequence of", length, advice])
            with tf.control_dependencies([enough]):  # without, the slice might fail first, in TensorFlow's words
                return tf.identity(length)
        return length

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "position": self.position, "max_length": self.max_length}
