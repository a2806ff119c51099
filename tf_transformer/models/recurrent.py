"""The recurrent encoder-decoder with attention that the Transformer replaced (Wu et al., 2016), at any size."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.decoding.recurrent_stepper import RecurrentStepper
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.recurrent import RecurrentDecoder, RecurrentEncoder
from tf_transformer.models.sequence_model import SequenceModel


@keras.saving.register_keras_serializable(package="tf_transformer")
class RecurrentModel(SequenceModel):
    """Translates with LSTM layers; the decoder's bottom one attends to the source.

    Args:
        num_layers: number of layers of the encoder, and of the decoder.
        d_model: width of the model, even.
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        dropout_rate: dropout on the embeddings and on each layer's output.
        max_length: the longest sequence that it is for; nothing in the model knows it.
        share_embeddings: "all" (source embedding, target embedding and projection are one matrix), "target" (target
            embedding and projection), or "none".
        output_bias: whether a bias is added to the logits.

    Raises:
        ValueError: invalid sizes or options; it names the argument, its value and what is allowed.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import RecurrentModel
        >>> model = RecurrentModel(2, 64, input_vocab_size=850, target_vocab_size=800)
        >>> source, target = np.ones((4, 38), "int32"), np.ones((4, 36), "int32")
        >>> model((source, target)).shape
        TensorShape([4, 36, 800])
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        input_vocab_size: int,
        target_vocab_size: int,
        dropout_rate: float = 0.1,
        max_length: int = 1024,
        share_embeddings: str = "none",
        output_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            d_model,
            input_vocab_size,
            target_vocab_size,
            max_length,
            share_embeddings,
            output_bias,
            **{"name": "recurrent_model", **kwargs},
        )
        dtype = self.dtype_policy
        shared = TokenEmbedding(self.input_vocab_size, d_model, name="embedding", dtype=dtype)
        options = {"dropout_rate": dropout_rate, "dtype": dtype}
        self.encoder = RecurrentEncoder(
            num_layers, d_model, input_vocab_size, embedding=shared, name="encoder", **options
        )
        self.decoder = RecurrentDecoder(
            num_layers,
            d_model,
            target_vocab_size,
            embedding=shared if share_embeddings == "all" else None,
            name="decoder",
            **options,
        )
        # As the encoder has checked them, NumPy's numbers made Python's.
        self.num_layers, self.dropout_rate = self.encoder.num_layers, self.encoder.dropout_rate
        self.make_projection()

    def states(self, source_ids: Any, target_ids: Any, training: bool | None) -> tuple[Any, dict[str, list[Any]]]:
        """Reads the source, then the target.

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            target_ids: int (batch, target_len), the target shifted right by the start token.
            training: whether dropout is on.

        Returns:
            float (batch, target_len, d_model), and "cross", a list of the one attention's weights, (batch, 1,
            target_len, source_len).
        """
        context = self.encoder(source_ids, training=training)
        x, weights = self.decoder(target_ids, context, source_ids, training=training)
        return x, {"cross": [weights]}

    def stepper(self) -> RecurrentStepper:
        """Reads the weights for one search; see there."""
        return RecurrentStepper(self)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "dropout_rate": self.dropout_rate,
        }
