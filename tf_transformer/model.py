"""The Transformer: encoder, decoder and projection onto the vocabulary (Vaswani et al., 2017, figure 1)."""

from __future__ import annotations

from typing import Any

import keras

from tf_transformer.layers.arguments import check_vocabularies
from tf_transformer.layers.decoder import Decoder
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.encoder import Encoder
from tf_transformer.layers.masks import padding_mask
from tf_transformer.presets import preset_arguments
from tf_transformer.steps import ProjectingSteps


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(ProjectingSteps, keras.Model):
    """Translates: reads source ids and the target so far, and gives logits for each next target token.

    Args:
        num_layers: number of encoder layers, and of decoder layers, N.
        d_model: width of the model.
        num_heads: number of attention heads, h.
        dff: width of the feed-forward networks' hidden layer, d_ff.
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        dropout_rate: P_drop, on each sub-layer's output and on the embedding sums.
        attention_dropout_rate: dropout on the attention weights, which the paper has none of.
        activation_dropout_rate: dropout on the feed-forward networks' hidden layers, which the paper has none of.
        key_dim: d_k, `d_model / num_heads` unless given.
        value_dim: d_v, `d_model / num_heads` unless given.
        norm_first: pre-norm instead of the paper's post-norm.
        position: "sinusoidal", or "learned" (Table 3, row E).
        max_length: the longest sequence there are positions for.
        share_embeddings: "all" (source embedding, target embedding and projection are one matrix, as in the paper),
            "target" (target embedding and projection), or "none".

    Attributes:
        gradient_accumulation: how many parts `fit` works a batch on in, one after another; see `ProjectingSteps`. To
            change this or `parallel_parts` after a `fit`, compile anew: Keras keeps the step that it has made.
        parallel_parts: how many parts it works each of these on in, side by side; see there.

    Raises:
        ValueError: sizes or options that can't be; it names the argument, what it was and what is allowed.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import Transformer
        >>> model = Transformer(2, 512, 8, 2048, input_vocab_size=8500, target_vocab_size=8000)
        >>> source, target = np.ones((64, 38), "int32"), np.ones((64, 36), "int32")
        >>> model((source, target)).shape
        TensorShape([64, 36, 8000])
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        num_heads: int,
        dff: int,
        input_vocab_size: int,
        target_vocab_size: int,
        dropout_rate: float = 0.1,
        attention_dropout_rate: float = 0.0,
        activation_dropout_rate: float = 0.0,
        key_dim: int | None = None,
        value_dim: int | None = None,
        norm_first: bool = False,
        position: str = "sinusoidal",
        max_length: int = 1024,
        share_embeddings: str = "none",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_vocabularies(share_embeddings, input_vocab_size, target_vocab_size)
        self.num_layers = num_layers
        self.d_model = d_model
        self.num_heads = num_heads
        self.dff = dff
        self.input_vocab_size = input_vocab_size
        self.target_vocab_size = target_vocab_size
        self.dropout_rate = dropout_rate
        self.attention_dropout_rate = attention_dropout_rate
        self.activation_dropout_rate = activation_dropout_rate
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.norm_first = norm_first
        self.position = position
        self.max_length = max_length
        self.share_embeddings = share_embeddings

        dtype = self.dtype_policy
        shared = TokenEmbedding(input_vocab_size, d_model, name="embedding", dtype=dtype)
        arguments = {
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "activation_dropout_rate": activation_dropout_rate,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "norm_first": norm_first,
            "position": position,
            "max_length": max_length,
            "dtype": dtype,
        }
        sizes = (num_layers, d_model, num_heads, dff)
        self.encoder = Encoder(*sizes, input_vocab_size, embedding=shared, name="encoder", **arguments)
        self.decoder = Decoder(
            *sizes,
            target_vocab_size,
            embedding=shared if share_embeddings == "all" else None,
            name="decoder",
            **arguments,
        )
        if share_embeddings == "none":
            self.projection = keras.layers.Dense(target_vocab_size, use_bias=False, name="projection", dtype=dtype)

    @classmethod
    def from_preset(cls, name: str, *, input_vocab_size: int, target_vocab_size: int, **changes: Any) -> Transformer:
        """Makes one of the paper's models.

        Args:
            name: such as "base" or "big"; `tf-transformer presets` lists them.
            input_vocab_size: number of source tokens.
            target_vocab_size: number of target tokens.
            **changes: arguments that replace the preset's.

        Raises:
            ValueError: an unknown preset.

        Example:
            >>> from tf_transformer import Transformer
            >>> Transformer.from_preset("base", input_vocab_size=37_000, target_vocab_size=37_000).d_model
            512
        """
        return cls(
            **{
                **preset_arguments(name),
                "input_vocab_size": input_vocab_size,
                "target_vocab_size": target_vocab_size,
                **changes,
            }
        )

    def build(self, input_shape: tuple) -> None:
        source_shape, target_shape, *_ = input_shape
        self.encoder.build(source_shape)
        self.decoder.build(target_shape, (*source_shape, self.d_model))
        if self.share_embeddings == "none":
            self.projection.build((*target_shape, self.d_model))

    def call(self, inputs: Any, return_attention_scores: bool = False, training: bool | None = None) -> Any:
        """Works out the logits of every target position at once (teacher forcing).

        Args:
            inputs: pair of source ids, int (batch, source_len), and target ids, int (batch, target_len): the target
                shifted right by the start token. 0 is padding. With the labels as a third, the decoder's output comes
                back instead of logits, for a loss that projects it itself.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            Logits, float (batch, target_len, target_vocab_size); with `return_attention_scores` a pair of them and a
            dict of lists over layers: "encoder", weights (batch, heads, source_len, source_len); "decoder", (batch,
            heads, target_len, target_len); "cross", (batch, heads, target_len, source_len).
        """
        source_ids, target_ids, *labels = inputs
        context, encoder_scores = self.encoder(source_ids, return_attention_scores=True, training=training)
        x, decoder_scores = self.decoder(
            target_ids,
            context,
            context_mask=padding_mask(source_ids),
            return_attention_scores=True,
            training=training,
        )
        logits = x if labels else self.project(x)
        if not return_attention_scores:
            return logits
        scores = {
            "encoder": encoder_scores,
            "decoder": decoder_scores["self"],
            "cross": decoder_scores["cross"],
        }
        return logits, scores

    def output_embeddings(self) -> Any:
        """The projection's matrix, float (target_vocab_size, d_model)."""
        if self.share_embeddings == "none":
            return keras.ops.transpose(self.projection.kernel)
        return keras.ops.convert_to_tensor(self.decoder.embedding.embeddings)

    def project(self, x: Any) -> Any:
        """Maps the decoder's output, float (..., d_model), to logits (..., target_vocab_size)."""
        return self.projection(x) if self.share_embeddings == "none" else self.decoder.embedding.project(x)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "dff": self.dff,
            "input_vocab_size": self.input_vocab_size,
            "target_vocab_size": self.target_vocab_size,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "activation_dropout_rate": self.activation_dropout_rate,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "norm_first": self.norm_first,
            "position": self.position,
            "max_length": self.max_length,
            "share_embeddings": self.share_embeddings,
        }
