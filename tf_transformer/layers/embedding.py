"""Token embeddings with their tied projection (Vaswani et al., 2017, section 3.4)."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from tf_transformer.layers.arguments import check_sizes


@keras.saving.register_keras_serializable(package="tf_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Looks tokens up in one matrix, scaled by `sqrt(d_model)`, and projects back onto the vocabulary with it.

    Args:
        vocab_size: number of rows.
        d_model: width of a row.
        scaled: whether rows are multiplied by `sqrt(d_model)` where they are looked up.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import TokenEmbedding
        >>> embedding = TokenEmbedding(100, 8)
        >>> x = embedding(np.array([[4, 5, 6]]))
        >>> x.shape, embedding.project(x).shape
        (TensorShape([1, 3, 8]), TensorShape([1, 3, 100]))
    """

    def __init__(self, vocab_size: int, d_model: int, scaled: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocab_size, self.d_model = check_sizes(vocab_size=vocab_size, d_model=d_model)
        self.scaled = scaled

    @property
    def input_dtype(self) -> str:
        """What ids that come as floats are made; bfloat16, say, would have no odd number above 256."""
        return "int32"

    def build(self, input_shape: tuple | None = None) -> None:
        # With this deviation the scaled embeddings have unit variance, and so have the first logits.
        initializer = keras.initializers.RandomNormal(stddev=self.d_model**-0.5)
        # In half precision the rows are rounded after the look-up: the gradients of a token's many places would else
        # be summed in that precision, which GPUs do at a hundredth of the speed.
        self.embeddings = self.add_weight(
            shape=(self.vocab_size, self.d_model), initializer=initializer, autocast=False, name="embeddings"
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
        return x * math.sqrt(self.d_model) if self.scaled else x

    def project(self, x: Any) -> Any:
        """Maps float (batch, length, d_model) to logits (batch, length, vocab_size) with the transposed matrix.

        Raises:
            ValueError: it is called on a functional model's symbolic tensor, and not in a layer's or a model's `call`.
        """
        if isinstance(x, keras.KerasTensor):
            raise ValueError(
                "project can't be a step of a functional model, which would keep the matrix as it is; call it in "
                "the call of a layer or a model of your own"
            )
        return ops.matmul(x, ops.transpose(ops.cast(self.embeddings, x.dtype)))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.d_model)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "scaled": self.scaled,
        }
