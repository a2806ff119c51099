"""Features of the tree that a decoder is writing: the words beside its place, and what is open there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from tf_transformer.layers.arguments import check_sizes
from tf_transformer.layers.dense import Dense
from tf_transformer.layers.embedding import TokenEmbedding
from tf_transformer.layers.lean_ops import shape_of, take
from tf_transformer.layers.next_word import NextWord, token_table
from tf_transformer.layers.span_scorer import SpanScorer

# How many constituents without a word are told apart; more count as so many. Without this number a model can't tell how
# often it has opened the same label in a row.
MOST_EMPTY = 7

# How many brackets in a row are told apart in what a word is to tell; more count as so many.
MOST_BRACKETS = 12


@keras.saving.register_keras_serializable(package="tf_transformer")
class TreeState(NextWord):
    """Gives each target position what the tokens so far say about a linearised tree.

    A tree's tokens stand for the source's words, in their order, or open and close constituents. So they tell which
    word comes next and which one was the last, which constituent is the innermost open one, with which word it begins,
    and which constituent it is in. A Transformer has to find this out by counting, which it learns late. Here it is
    given the sum of

    - the encoder's output at the next word, as `NextWord` gives it,
    - projections of the encoder's output at the last word, and at the first word of the innermost open constituent,
    - embeddings of that constituent's label, of the label of the constituent that it is in, and of the number of
      constituents that have been opened since the last word or closing bracket.

    Transition-based parsers decide on these (Dyer et al., 2016; Stern et al., 2017).

    Args:
        d_model: width of the model.
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        opening: the source tokens with which a word begins; see `NextWord`.
        writing: the target tokens that stand for a word.
        opening_brackets: the target tokens that open a constituent, each with a different label.
        closing_brackets: the target tokens that close one, the innermost whichever its label.
        tree_loss: whether there is a `loss_of_tree`, which has weights of its own.

    Raises:
        ValueError: sizes that are not positive integers, or tokens that are not in the vocabularies.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers import TreeState
        >>> layer = TreeState(8, 10, 10, opening=[3, 5], writing=[4], opening_brackets=[6, 8], closing_brackets=[7, 9])
        >>> source, target = np.array([[5, 2, 5, 3]]), np.array([[2, 6, 4, 8, 4]])
        >>> layer(source, target, np.ones((1, 4, 8), "float32")).shape
        TensorShape([1, 5, 8])
        >>> {name: int(value[0, 0]) for name, value in layer.follow(target[:, None]).items()}
        {'next': 2, 'last': 1, 'first': 1, 'label': 2, 'parent': 1, 'empty': 0}
    """

    def __init__(
        self,
        d_model: int,
        input_vocab_size: int,
        target_vocab_size: int,
        opening: Sequence[int],
        writing: Sequence[int],
        opening_brackets: Sequence[int],
        closing_brackets: Sequence[int],
        tree_loss: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_vocab_size, target_vocab_size, opening, writing, **kwargs)
        (self.d_model,) = check_sizes(d_model=d_model)
        self._opens = token_table("opening_brackets", opening_brackets, self.target_vocab_size)
        self._closes = token_table("closing_brackets", closing_brackets, self.target_vocab_size)
        self._labels = np.cumsum(self._opens, dtype="int32") * self._opens  # from 1
        self._no_parent = len(self.opening_brackets) + 1
        self.last = Dense(self.d_model, use_bias=False, name="last", dtype=self.dtype_policy)
        self.first = Dense(self.d_model, use_bias=False, name="first", dtype=self.dtype_policy)
        # The innermost constituent's labels, the first of which is none; then as many of the one that it is in.
        self.labels = TokenEmbedding(2 * self._no_parent, self.d_model, name="labels", dtype=self.dtype_policy)
        self.empty = TokenEmbedding(MOST_EMPTY + 1, self.d_model, name="empty", dtype=self.dtype_policy)
        # How many classes each of the things has that a word is to tell; see `word_targets`.
        self.word_classes = [self.target_vocab_size, *[MOST_BRACKETS + 1] * 2, *[self._no_parent] * 2]
        self.tree_loss = bool(tree_loss)
        if tree_loss:
            self.words = Dense(sum(self.word_classes), name="words", dtype=self.dtype_policy)
            self.spans = SpanScorer(self.d_model, self._no_parent, name="spans", dtype=self.dtype_policy)

    @property
    def opening_brackets(self) -> list[int]:
        """The target tokens that open a constituent."""
        return np.flatnonzero(self._opens).tolist()

    @property
    def closing_brackets(self) -> list[int]:
        """The target tokens that close a constituent."""
        return np.flatnonzero(self._closes).tolist()

    def build(self, source_ids_shape: tuple, target_ids_shape: tuple, context_shape: tuple) -> None:
        self.last.build(context_shape)
        self.first.build(context_shape)
        self.labels.build()
        self.empty.build()
        if self.tree_loss:
            self.words.build(context_shape)
            self.spans.build(context_shape)

    def word_vectors(self, context: Any) -> Any:
        """The vectors of words, float (batch, 3 source_len, d_model): as the next one, as the last and as the first."""
        context = ops.cast(context, self.compute_dtype)
        return ops.concatenate([context, self.last(context), self.first(context)], axis=1)

    def decoder_input_ids(self, target_ids: Any) -> Any:
        """What the decoder embeds of the target: the brackets, with 0 in place of each word.

        So a wrong part-of-speech tag misleads none of the brackets that follow.
        """
        return ops.where(self.is_word(target_ids) > 0, 0, target_ids)

    def features(self, word_index: Any, word_vectors: Any, prefixes: Any) -> Any:
        """Computes the features of the trees that some tokens begin; see `NextWord.features`."""
        state, word_index = self.follow(prefixes), ops.expand_dims(word_index, axis=1)
        here = [ops.equal(word_index, ops.expand_dims(state[name], axis=2)) for name in ("next", "last", "first")]
        words = ops.matmul(ops.cast(ops.concatenate(here, axis=2), word_vectors.dtype), word_vectors)
        labels = self.labels(state["label"]) + self.labels(state["parent"] + self._no_parent)
        return words + labels + self.empty(ops.minimum(state["empty"], MOST_EMPTY))

    def follow(self, tokens: Any) -> dict[str, Any]:
        """Computes how far trees have come.

        Args:
            tokens: int (batch, trees, length), the tokens so far of each tree; 0, wherever it stands, is padding.

        Returns:
            int32 (batch, trees) each. "next", "last" and "first" are numbers of words, from 0: the word that comes
            next, the one before it, and the first one of the innermost open constituent, -1 where there is none.
            "label" and "parent" are numbers of labels, from 1: that of the innermost open constituent, and that of the
            constituent that it is in; 0 where there is none. "empty" is the number of constituents opened since the
            last word or closing bracket.
        """
        tokens = ops.cast(tokens, "int32")
        labels, closes = (take(of, tokens) for of in (self._labels, self._closes))
        opens = labels > 0
        depth = ops.cumsum(ops.cast(opens, "int32") - closes, axis=2)
        words = ops.cumsum(self.is_word(tokens), axis=2)
        numbers = ops.arange(1, shape_of(tokens)[2] + 1, dtype="int32")

        def open_at(level: Any) -> tuple[Any, Any]:
            """The label and the first word of the open constituent at a depth."""
            latest = ops.max(ops.where(opens & ops.equal(depth, level), numbers, 0), axis=2, keepdims=True)
            bracket = ops.cast(ops.equal(numbers, latest), "int32")  # 1 where it stands, if there is one
            first = ops.where(latest[:, :, 0] > 0, ops.sum(bracket * words, axis=2), -1)
            return ops.sum(bracket * labels, axis=2), first

        level, coming = depth[:, :, -1:], words[:, :, -1]
        (label, first), (parent, _) = open_at(level), open_at(level - 1)
        latest_other = ops.max(ops.where(opens | ops.equal(tokens, 0), 0, numbers), axis=2, keepdims=True)
        empty = ops.sum(ops.cast(opens & (numbers > latest_other), "int32"), axis=2)
        return {"next": coming, "last": coming - 1, "first": first, "label": label, "parent": parent, "empty": empty}

    def loss_of_tree(self, source_ids: Any, target_ids: Any, context: Any) -> Any:
        """Computes how unlikely trees are by the encoder's output alone: by each word and each span of words.

        So the encoder learns about trees from every word directly, and not only by way of the decoder. To read the
        whole tree off the words' labels is "constituent parsing as sequence labeling" (Gomez-Rodriguez and Vilares,
        2018), and off the spans a "minimal span-based parser" (Stern et al., 2017).

        Args:
            source_ids: int (batch, source_len); 0 is padding.
            target_ids: int (batch, target_len), the target shifted right by the start token.
            context: the encoder's output, float (batch, source_len, d_model).

        Returns:
            float32 (batch,), for each sentence the sum of its cross-entropies: five of each word, one of each span
            whether it is a constituent, and one of each constituent's label.
        """
        return self.loss_of_words(source_ids, target_ids, context) + self.loss_of_spans(source_ids, target_ids, context)

    def loss_of_words(self, source_ids: Any, target_ids: Any, context: Any) -> Any:
        """The words' part of `loss_of_tree`; see `word_targets`."""
        targets, is_word = self.word_targets(source_ids, target_ids)
        logits, total, start = ops.cast(self.words(context), "float32"), 0.0, 0
        for number, classes in enumerate(self.word_classes):
            of_these = logits[:, :, start : start + classes]
            losses = ops.sparse_categorical_crossentropy(targets[:, :, number], of_these, from_logits=True)
            total, start = total + ops.sum(losses * is_word, axis=1), start + classes
        return total

    def loss_of_spans(self, source_ids: Any, target_ids: Any, context: Any) -> Any:
        """The spans' part of `loss_of_tree`: all spans that begin and end with a word, whole words as one position."""
        tokens, word_index = ops.cast(target_ids, "int32"), self.word_index(source_ids)
        words = ops.sum(self.is_word(tokens), axis=1, keepdims=True)
        is_word = (word_index >= 0) & (word_index < words)
        state = self.follow(self.prefixes(tokens))
        # A constituent is known where the next token closes it.
        closes = _next(take(self._closes, tokens)) > 0
        first, last = (
            ops.cast(
                ops.expand_dims(closes, axis=2)
                & ops.equal(ops.expand_dims(state[name], axis=2), ops.expand_dims(word_index, axis=1)),
                context.dtype,
            )
            for name in ("first", "last")
        )
        # One constituent may be the only part of another: the span is the same.
        is_constituent = ops.minimum(ops.matmul(ops.transpose(first, (0, 2, 1)), last), 1.0)
        starts, ends = ops.expand_dims(word_index, axis=2), ops.expand_dims(word_index, axis=1)
        is_span = ops.expand_dims(is_word, axis=2) & ops.expand_dims(is_word, axis=1) & (starts <= ends)
        logits = self.spans(context)
        of_spans = ops.where(is_span, ops.softplus(logits) - logits * ops.cast(is_constituent, "float32"), 0.0)
        labels = self.spans.label_logits(context, first, last)
        of_labels = ops.sparse_categorical_crossentropy(state["label"], labels, from_logits=True)
        return ops.sum(of_spans, axis=(1, 2)) + ops.sum(of_labels * ops.cast(closes, "float32"), axis=1)

    def word_targets(self, source_ids: Any, target_ids: Any) -> tuple[Any, Any]:
        """Computes what each word should say about a tree.

        Args:
            source_ids: as `loss_of_tree` has them.
            target_ids: as `loss_of_tree` has them.

        Returns:
            int32 (batch, source_len, 5): the token that stands for the word; the number of constituents that close
            after it and the number that open then; the label's number of the constituent that is the innermost open
            one between these; and that of the last one that opens, 0 where none does. And float32 (batch, source_len):
            1 where a word begins, else 0.
        """
        tokens, word_index = ops.cast(target_ids, "int32"), self.word_index(source_ids)
        labels, closes = (take(of, tokens) for of in (self._labels, self._closes))
        opens, is_word = ops.cast(labels > 0, "int32"), self.is_word(tokens)
        inside = self.follow(self.prefixes(tokens))["label"]

        # Of each token; a word's is the sum over the tokens from itself up to the next word.
        closed = (1 - opens) * _next(opens + is_word)  # the last one before constituents open, or the next word comes
        features = [is_word * tokens, closes, opens, closed * inside, opens * _next(is_word) * labels]
        number = ops.cumsum(is_word, axis=1) - 1
        mine = ops.equal(ops.expand_dims(word_index, axis=2), ops.expand_dims(number, axis=1))
        # Whole numbers, which float32 holds; TensorFlow multiplies no matrices of int32 on a GPU.
        targets = ops.matmul(ops.cast(mine, "float32"), ops.cast(ops.stack(features, axis=-1), "float32"))
        targets = ops.minimum(ops.cast(targets, "int32"), ops.convert_to_tensor([n - 1 for n in self.word_classes]))
        return targets, ops.cast(targets[:, :, 0] > 0, "float32")

    def get_config(self) -> dict[str, Any]:
        brackets = {"opening_brackets": self.opening_brackets, "closing_brackets": self.closing_brackets}
        return {**super().get_config(), "d_model": self.d_model, **brackets, "tree_loss": self.tree_loss}


def _next(of_tokens: Any) -> Any:
    """The same of the token after each, (batch, length); 0 after the last."""
    return ops.pad(of_tokens[:, 1:], [[0, 0], [0, 1]])
