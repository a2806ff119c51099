"""What training, decoding and export ask of a model: what each model is written against."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import keras

from tf_transformer.distributed.replicas import scope_of
from tf_transformer.errors import UserError
from tf_transformer.layers.arguments import check_sizes, check_vocabularies
from tf_transformer.models.pair_reading import NOT_QUANTIZED, PairReading
from tf_transformer.training.step import ProjectingSteps

if TYPE_CHECKING:
    from tf_transformer.decoding.interface import Stepping
    from tf_transformer.layers.next_word import NextWord

# What the bias of the logits has for a token that is never said: its probability is 0 in float32.
NEVER = -1000.0


class SequenceModel(PairReading, ProjectingSteps, keras.Model):
    """Base of the models: reads source ids and the target so far, and gives logits for each next target token.

    A model that is written on it trains with this package's batches, loss and schedules, is searched, exported and
    inspected, and nothing else needs to know about it. It has its own

    - `encoder` and `decoder`, layers with a `TokenEmbedding` of width `d_model` in their attribute `embedding`, made in
      its `__init__`, which ends with `self.make_projection()`;
    - `states`, which computes what is projected onto the vocabulary;
    - `stepper`, which does the same one target position at a time;
    - `get_config`, as in Keras, with its own arguments; those below are there.

    Args:
        d_model: width of the embeddings, and of what is projected.
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        max_length: the longest sequence that the model is for.
        share_embeddings: "all" (source embedding, target embedding and projection are one matrix; a model written on
            this gives its encoder's embedding to its decoder then), "target" (target embedding and projection), or
            "none".
        output_bias: whether a bias is added to the logits; the `stepper` of a model that has one adds it too.

    Attributes:
        gradient_accumulation: in how many parts `fit` computes a batch, one after another; see `ProjectingSteps`. To
            change this or `parallel_parts` after a `fit`, compile again: Keras keeps the step that it has made.
        parallel_parts: in how many parts it computes each of these, side by side; see there.

    Raises:
        ValueError: invalid sizes or options; it names the argument, its value and what is allowed.

    Example:
        >>> from tf_transformer import RecurrentModel, SequenceModel, Transformer
        >>> issubclass(Transformer, SequenceModel), issubclass(RecurrentModel, SequenceModel)
        (True, True)
    """

    # The layer whose features are added to the target's embeddings, if there is one. Saved files have this name in the
    # paths of its weights.
    told: NextWord | None = None

    def __init__(
        self,
        d_model: int,
        input_vocab_size: int,
        target_vocab_size: int,
        max_length: int,
        share_embeddings: str,
        output_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model, self.max_length = check_sizes(d_model=d_model, max_length=max_length)
        self.input_vocab_size, self.target_vocab_size = check_vocabularies(
            share_embeddings, input_vocab_size, target_vocab_size
        )
        self.share_embeddings = share_embeddings
        self.output_bias = output_bias
        if self.quantization_mode is not None:
            raise UserError(f"dtype can't be {self.dtype_policy.name}: {NOT_QUANTIZED}")

    def build(self, input_shape: tuple) -> None:
        source_shape, target_shape, *_ = input_shape  # a file written by an earlier version may hold the labels' too
        with scope_of(self):
            self.encoder.build(source_shape)
            self.decoder.build(target_shape, (*source_shape, self.d_model))
            if self.share_embeddings == "none":
                self.projection.build((*target_shape, self.d_model))
            if self.output_bias:
                self.bias = self.add_weight((self.target_vocab_size,), initializer="zeros", name="bias")

    def get_build_config(self) -> dict[str, Any] | None:
        """The shapes that the model was built with, as in Keras, and where its weights are that do not learn."""
        config = super().get_build_config()
        # By their places, by which Keras files an optimizer's variables too: names of layers get other numbers.
        frozen = [place for place, weight in enumerate(self.weights) if not weight.trainable]
        return {**config, "frozen": frozen} if config and frozen else config

    def build_from_config(self, config: dict[str, Any] | None) -> None:
        """Builds the model, as in Keras; the weights that did not learn do not, before an optimizer is built."""
        config = dict(config or {})
        frozen = config.pop("frozen", [])  # a file written by an earlier version has none
        super().build_from_config(config)
        for place in frozen:
            self.weights[place].trainable = False

    def make_projection(self) -> None:
        """Makes the layer `projection`, where it shares no matrix with an embedding.

        Raises:
            UserError: `share_embeddings` is "all", and `encoder` and `decoder` have an embedding each.
        """
        if self.share_embeddings == "all" and self.encoder.embedding is not self.decoder.embedding:
            raise UserError(
                f'share_embeddings is "all", but the encoder and decoder of this {type(self).__name__} have separate '
                'embeddings; give the decoder the encoder\'s embedding, or choose "target" or "none"'
            )
        if self.share_embeddings == "none":
            self.projection = keras.layers.Dense(
                self.target_vocab_size, use_bias=False, name="projection", dtype=self.dtype_policy
            )

    @abstractmethod
    def states(self, source_ids: Any, target_ids: Any, training: bool | None) -> tuple[Any, dict[str, list[Any]]]:
        """Computes what is projected onto the vocabulary, at every target position at once (teacher forcing).

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            target_ids: int (batch, target_len), the target shifted right by the start token.
            training: whether dropout is on.

        Returns:
            float (batch, target_len, d_model), and the attention weights as lists over layers, each (batch, heads,
            rows, columns). What a model has of these: "encoder", from source to source; "decoder", from target to
            target; "cross", from target to source, which every model needs. In a step of `fit`, where `loss_projects`,
            a model may add "further_loss": a float32 scalar that is added to the losses summed over the tokens.
        """

    @abstractmethod
    def stepper(self) -> Stepping:
        """Reads the model's weights for one search; its steps together equal the model's call."""

    def share_constants(self) -> None:
        """Makes one tensor of each table that is not a weight; otherwise every graph of an export would hold a copy."""

    def call(self, inputs: Any, return_attention_scores: bool = False, training: bool | None = None) -> Any:
        """Computes the logits of every target position at once (teacher forcing).

        Args:
            inputs: pair of source ids, int (batch, source_len), and target ids, int (batch, target_len): the target
                shifted right by the start token. 0 is padding.
            return_attention_scores: whether to return the weights too.
            training: whether dropout is on.

        Returns:
            Logits, float (batch, target_len, target_vocab_size); with `return_attention_scores` a pair of them and the
            weights as `states` has them.
        """
        states, scores = self.states(*inputs, training=training)
        if self.loss_projects:
            outputs = {"states": _with_one(states) if self.output_bias else states}
            if self.alignment_head:
                outputs["head"] = self.head_of(scores["cross"])
            if "further_loss" in scores:
                outputs["further_loss"] = scores["further_loss"]
            return outputs
        logits = self.project(states)
        return (logits, scores) if return_attention_scores else logits

    def head_of(self, cross: list[Any]) -> Any:
        """The weights of the head that `alignment_head` names, of the decoder's layers': (batch, rows, columns)."""
        layer, head = self.alignment_head
        return cross[layer][:, head]

    def output_embeddings(self) -> Any:
        """The projection's matrix, float (target_vocab_size, d_model).

        With a bias it is one column wider, the bias, which then meets a 1 at the end of every state.
        """
        if self.share_embeddings == "none":
            matrix = keras.ops.transpose(self.projection.kernel)
        else:
            matrix = keras.ops.convert_to_tensor(self.decoder.embedding.embeddings)
        if not self.output_bias:
            return matrix
        return keras.ops.concatenate([matrix, keras.ops.expand_dims(self.bias, axis=1)], axis=1)

    def project(self, x: Any) -> Any:
        """Maps the decoder's output, float (..., d_model), to logits (..., target_vocab_size)."""
        logits = self.projection(x) if self.share_embeddings == "none" else self.decoder.embedding.project(x)
        return logits + keras.ops.cast(self.bias, logits.dtype) if self.output_bias else logits

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "input_vocab_size": self.input_vocab_size,
            "target_vocab_size": self.target_vocab_size,
            "max_length": self.max_length,
            "share_embeddings": self.share_embeddings,
            "output_bias": self.output_bias,
        }


def _with_one(states: Any) -> Any:
    """States, float (..., d_model), with a 1 at the end of each, which meets the bias in `output_embeddings`."""
    return keras.ops.concatenate([states, keras.ops.ones_like(states[..., :1])], axis=-1)
