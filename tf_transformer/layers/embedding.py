"""Token embeddings with their tied projection, and positions (Vaswani et al., 2017, sections 3.4 and 3.5)."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.arguments import check_sizes

POSITIONS = ("sinusoidal", "learned")


def positional_encoding(length: int, depth: int) -> np.ndarray:
    """Works out the paper's sinusoids: interleaved sine and cosine of falling frequency.

    `PE(pos, 2i) = sin(pos / 10000^(2i/depth))`, `PE(pos, 2i+1) = cos(pos / 10000^(2i/depth))`.

    Args:
        length: number of positions.
        depth: width of the encoding, even.

    Returns:
        float32 (length, depth), worked out in float64.

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
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, depth).astype("float32")


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks tokens up in one matrix, scaled by `sqrt(d_model)`, and projects back onto the vocabulary with it.

    Args:
        vocab_size: number of rows.
        d_model: width of a row.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import TokenEmbedding
        >>> embedding = TokenEmbedding(100, 8)
        >>> x = embedding(np.array([[4, 5, 6]]))
        >>> x.shape, embedding.project(x).shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 100]))
    """

    def __init__(self, vocab_size: int, d_model: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocab_size, self.d_model = check_sizes(vocab_size=vocab_size, d_model=d_model)

    @property
    def input_dtype(self) -> str:
        """What ids that come as floats are made; bfloat16, say, would have no odd number above 256."""
        return "int32"

    def build(self, input_shape: tuple | None = None) -> None:
        # With this deviation the scaled embeddings have unit variance, and so have the first logits.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        self.embeddings = self.add_weight(
            shape=(self.vocab_size, self.d_model), initializer=initializer, name="embeddings"
        )

    def call(self, ids: Any) -> Any:
        """Maps int ids (batch, length) to float (batch, length, d_model)."""
        # Ids may come as floats: Keras averages the first batch over the devices to learn its shape.
        ids = ops.cast(ids, "int32")
        # On TensorFlow a look-up's gradient is sparse. Tied weights get a dense gradient from the projection as well,
        # and under MirroredStrategy the two can't be added (keras#21069). The gradient of a reshape is always dense.
        matrix = ops.reshape(self.embeddings, (self.vocab_size, self.d_model))
        x = ops.take(matrix, ids, axis=0)
        x = ops.cast(x, self.compute_dtype)
        return x * math.sqrt(self.d_model)

    def project(self, x: Any) -> Any:
        """Maps float (batch, length, d_model) to logits (batch, length, vocab_size) with the transposed matrix."""
        return ops.matmul(x, ops.transpose(ops.cast(self.embeddings, x.dtype)))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.d_model)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "vocab_size": self.vocab_size, "d_model": self.d_model}


@keras.saving.register_keras_serializable(package="tf_transformer")
class PositionEncoding(keras.layers.Layer):
    """Adds to each position's vector what tells the position: the paper's sinusoids, or learned vectors (Table 3, E).

    Args:
        position: "sinusoidal" or "learned".
        max_length: number of positions there are.

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
        if self.position == "sinusoidal":
            self.table = positional_encoding(self.max_length, depth)
        else:
            initializer = keras.initializers.RandomNormal(stddev=depth**-0.5)
            self.table = self.add_weight(shape=(self.max_length, depth), initializer=initializer, name="positions")

    def call(self, x: Any) -> Any:
        """Adds the positions to `x`, float (batch, length, width)."""
        table = ops.convert_to_tensor(self.table, dtype=self.compute_dtype)
        length = self._checked(ops.shape(x)[1])
        # Unlike an index, a slice can't be cut short: one position would be every token's then.
        return x + ops.slice(table, (0, 0), (length, table.shape[1]))

    def _checked(self, length: Any) -> Any:
        """The length, unless there are fewer positions; where it is not known before a graph runs, the graph checks."""
        advice = (
            f"tokens is longer than the {self.max_length} positions that there are; "
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
