"""What every stack that reads tokens has: its embedding, which may be another stack's too."""

from __future__ import annotations

from typing import Any, Self

import keras

from tf_transformer.layers.arguments import check_rates, check_sizes
from tf_transformer.layers.embedding import TokenEmbedding


class EmbeddedStack(keras.layers.Layer):
    """Base of the Transformer's and the recurrent model's encoders and decoders.

    Args:
        num_layers: number of layers, N.
        d_model: width of the model.
        vocab_size: number of tokens.
        dropout_rate: share of the embeddings that is dropped, and of what the layers put out.
        embedding: a TokenEmbedding to share; the stack makes its own unless given.
        scale_embeddings: whether the embedding that it makes is multiplied by `sqrt(d_model)`.

    Raises:
        ValueError: sizes or rates that can't be, or an embedding of another size.
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        vocab_size: int,
        dropout_rate: float,
        embedding: TokenEmbedding | None,
        scale_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # for ids that come as floats; the layers within cast what they read
        (self.num_layers,) = check_sizes(num_layers=num_layers)
        (self.dropout_rate,) = check_rates(dropout_rate=dropout_rate)
        if embedding is not None and (embedding.vocab_size, embedding.d_model) != (vocab_size, d_model):
            raise ValueError(
                f"embedding must have vocab_size={vocab_size} and d_model={d_model}, "
                f"got {embedding.vocab_size} and {embedding.d_model}"
            )
        self._shares_embedding = embedding is not None
        self.embedding = embedding or TokenEmbedding(
            vocab_size, d_model, scale_embeddings, name="embedding", dtype=self.dtype_policy
        )
        self.vocab_size, self.d_model = self.embedding.vocab_size, self.embedding.d_model

    def build_embedding(self, ids_shape: tuple) -> tuple:
        """Builds the embedding, unless it is built; gives the shape of embedded ids."""
        if not self.embedding.built:
            self.embedding.build(ids_shape)
        return (*ids_shape, self.d_model)

    def get_config(self) -> dict[str, Any]:
        embedding = None
        if self._shares_embedding:
            embedding = keras.saving.serialize_keras_object(self.embedding)
            # By this Keras knows it again in a `.keras` file that holds it twice. It would itself mark the second only.
            embedding["shared_object_id"] = id(self.embedding)
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "d_model": self.d_model,
            "vocab_size": self.vocab_size,
            "dropout_rate": self.dropout_rate,
            "embedding": embedding,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        if config["embedding"] is not None:
            config = {**config, "embedding": keras.saving.deserialize_keras_object(config["embedding"])}
        return cls(**config)
