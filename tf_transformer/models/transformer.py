"""The Transformer: encoder, decoder and projection onto the vocabulary (Vaswani et al., 2017, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from tf_transformer.decoding.stepper import Stepper
from tf_transformer.distributed.replicas import scope_of
from tf_transformer.layers.arguments import NORM_EPSILON, check_head
from tf_transformer.layers.decoder import Decoder
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.encoder import Encoder
from tf_transformer.layers.masks import padding_mask
from tf_transformer.layers.next_word import NextWord
from tf_transformer.layers.tree_state import TreeState
from tf_transformer.models.presets import get_preset
from tf_transformer.models.sequence_model import SequenceModel


@keras.saving.register_keras_serializable(package="tf_transformer")
class Transformer(SequenceModel):
    """Translates: reads source ids and the target so far, and gives logits for each next target token.

    Args:
        num_layers: number of encoder layers, N, and of decoder layers unless `decoder_layers` is given.
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
        position: "sinusoidal", "sinusoidal_halves" (the same numbers, all sines and then all cosines), or "learned"
            (Table 3, row E).
        max_length: the longest sequence there are positions for.
        share_embeddings: "all" (source embedding, target embedding and projection are one matrix, as in the paper),
            "target" (target embedding and projection), or "none".
        window: in the encoder, how many positions to each side of its own a position attends to; all unless given. For
            long sources: time then grows with their length and not with its square.
        decoder_layers: number of decoder layers, as many as the encoder's unless given.
        next_word: for targets with one token for every source word: the source tokens with which a word begins, and
            the target tokens that stand for one, a pair of sequences. At each position the encoder's output at the next
            word is added to the target's embedding; see `NextWord`. The paper's model is not told.
        tree_state: for linearised trees: as `next_word`, and then the target tokens that open and that close a
            constituent, four sequences. At each position the state of the tree is added, the next word included; see
            `TreeState`.
        activation: of the feed-forward networks: "relu" as in the paper, "gelu" or "swish".
        norm_epsilon: of the layer normalisations.
        scale_embeddings: whether embeddings are multiplied by `sqrt(d_model)`, as in the paper.
        output_bias: whether a bias is added to the logits; the paper has none.
        tree_loss: with `tree_state`: the weight of a further loss in `fit`, by which the encoder learns from every word
            and span what the tree is; see `TreeState.loss_of_tree`. 0 for none.
        alignment_head: a layer of the decoder and a head, both counted from 0, whose attention to the source is the
            model's alignment, in place of the mean of all heads. It learns from alignments, where `fit` is given
            batches with some; see `SmoothedCrossEntropy`.

    Attributes:
        gradient_accumulation: in how many parts `fit` computes a batch, one after another; see `ProjectingSteps`. To
            change this or `parallel_parts` after a `fit`, compile again: Keras keeps the step that it has made.
        parallel_parts: in how many parts it computes each of these, side by side; see there.

    Raises:
        ValueError: invalid sizes or options; it names the argument, its value and what is allowed.

    Example:
        >>> import numpy as np
        >>> from tf_transformer import Transformer
        >>> model = Transformer(2, 512, 8, 2048, input_vocab_size=8500, target_vocab_size=8000)
        >>> source, target = np.ones((8, 38), "int32"), np.ones((8, 36), "int32")
        >>> model((source, target)).shape
        TensorShape([8, 36, 8000])
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
        window: int | None = None,
        decoder_layers: int | None = None,
        next_word: Sequence[Sequence[int]] | None = None,
        tree_state: Sequence[Sequence[int]] | None = None,
        activation: str = "relu",
        norm_epsilon: float = NORM_EPSILON,
        scale_embeddings: bool = True,
        output_bias: bool = False,
        tree_loss: float = 0.0,
        alignment_head: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        # TensorFlow keeps something for each name that a variable ever had, so Keras's numbering would add up.
        super().__init__(
            d_model,
            input_vocab_size,
            target_vocab_size,
            max_length,
            share_embeddings,
            output_bias,
            **{"name": "transformer", **kwargs},
        )
        dtype = self.dtype_policy
        shared = TokenEmbedding(self.input_vocab_size, d_model, scale_embeddings, name="embedding", dtype=dtype)
        arguments = {
            "dropout_rate": dropout_rate,
            "attention_dropout_rate": attention_dropout_rate,
            "activation_dropout_rate": activation_dropout_rate,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "norm_first": norm_first,
            "position": position,
            "max_length": max_length,
            "activation": activation,
            "norm_epsilon": norm_epsilon,
            "scale_embeddings": scale_embeddings,
            "dtype": dtype,
        }
        widths = (d_model, num_heads, dff)
        self.encoder = Encoder(
            num_layers, *widths, input_vocab_size, embedding=shared, window=window, name="encoder", **arguments
        )
        self.decoder = Decoder(
            num_layers if decoder_layers is None else decoder_layers,
            *widths,
            target_vocab_size,
            embedding=shared if share_embeddings == "all" else None,
            name="decoder",
            **arguments,
        )
        # As the encoder has checked them, NumPy's numbers made Python's.
        encoder = self.encoder
        self.num_layers, self.num_heads, self.dff = encoder.num_layers, encoder.num_heads, encoder.dff
        self.decoder_layers = None if decoder_layers is None else self.decoder.num_layers
        self.alignment_head = check_head(alignment_head, self.decoder.num_layers, self.num_heads)
        self.key_dim, self.value_dim = encoder.key_dim, encoder.value_dim
        self.dropout_rate = encoder.dropout_rate
        self.attention_dropout_rate = encoder.attention_dropout_rate
        self.activation_dropout_rate = encoder.activation_dropout_rate
        self.norm_first = norm_first
        self.norm_epsilon, self.activation = encoder.norm_epsilon, encoder.activation
        self.position = position
        self.scale_embeddings = scale_embeddings
        self.window = encoder.window
        vocabularies = self.input_vocab_size, self.target_vocab_size
        if not 0 <= tree_loss < float("inf") or (tree_loss and tree_state is None):
            raise ValueError(f"tree_loss must be 0 or more, and 0 without tree_state, got {tree_loss!r}")
        self.tree_loss = float(tree_loss)
        self.next_word = self.tree_state = None
        if tree_state is not None:
            told = self.told = TreeState(
                d_model, *vocabularies, *tree_state, tree_loss=tree_loss > 0, name="tree_state", dtype=dtype
            )
            self.tree_state = [told.opening, told.writing, told.opening_brackets, told.closing_brackets]
        elif next_word is not None:
            told = self.told = NextWord(*vocabularies, *next_word, name="next_word", dtype=dtype)
            self.next_word = [told.opening, told.writing]
        self.make_projection()

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        if self.told is not None:
            source_shape, target_shape, *_ = input_shape
            with scope_of(self):
                self.told.build(source_shape, target_shape, (*source_shape, self.d_model))

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
                **get_preset(name).model,
                "input_vocab_size": input_vocab_size,
                "target_vocab_size": target_vocab_size,
                **changes,
            }
        )

    def states(self, source_ids: Any, target_ids: Any, training: bool | None) -> tuple[Any, dict[str, list[Any]]]:
        """Passes the source through the encoder, and the target through the decoder.

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            target_ids: int (batch, target_len), the target shifted right by the start token.
            training: whether dropout is on.

        Returns:
            float (batch, target_len, d_model), and a dict of lists over layers: "encoder", weights (batch, heads,
            source_len, source_len); "decoder", (batch, heads, target_len, target_len); "cross", (batch, heads,
            target_len, source_len).
        """
        context, encoder_scores = self.encoder(source_ids, return_attention_scores=True, training=training)
        x, decoder_scores = self.decoder(
            self.told.decoder_input_ids(target_ids) if self.told else target_ids,
            context,
            context_mask=padding_mask(source_ids),
            added=self.told(source_ids, target_ids, context) if self.told else None,
            return_attention_scores=True,
            training=training,
        )
        scores = {"encoder": encoder_scores, "decoder": decoder_scores["self"], "cross": decoder_scores["cross"]}
        if training and self.tree_loss and self.loss_projects:
            scores["further_loss"] = self.tree_loss * ops.sum(self.told.loss_of_tree(source_ids, target_ids, context))
        return x, scores

    def stepper(self) -> Stepper:
        """Reads the weights for one search; see there."""
        return Stepper(self, self.told)

    def share_constants(self) -> None:
        """Makes one tensor of the sinusoids; otherwise every graph of an export would hold a copy."""
        for stack in self.encoder, self.decoder:
            if stack.position != "learned":
                table = stack.position_encoding.table
                stack.position_encoding.table = keras.ops.convert_to_tensor(table)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "decoder_layers": self.decoder_layers,
            "alignment_head": self.alignment_head,
            "num_heads": self.num_heads,
            "dff": self.dff,
            "dropout_rate": self.dropout_rate,
            "attention_dropout_rate": self.attention_dropout_rate,
            "activation_dropout_rate": self.activation_dropout_rate,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "norm_first": self.norm_first,
            "norm_epsilon": self.norm_epsilon,
            "activation": self.activation,
            "position": self.position,
            "scale_embeddings": self.scale_embeddings,
            "window": self.window,
            "next_word": self.next_word,
            "tree_state": self.tree_state,
            "tree_loss": self.tree_loss,
        }
