"""Linearised trees: a closed vocabulary of brackets, and of the tokens that stand for a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf
import tensorflow_text as text

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import PAD_ID, UNKNOWN_ID, Tokenizer
from tf_transformer.tokenizers.marks import WORD
from tf_transformer.tokenizers.wordpiece import SPECIAL_PIECES

FIRST_ID = len(SPECIAL_PIECES)  # of what is no special piece


class BracketTokenizer(Tokenizer):
    """Splits trees such as `(S (NP XX )NP (VP XX )VP )S`; a bracket of another label is `[UNK]`.

    Args:
        labels: the constituents' labels.
        tags: the tokens that stand for a word: one for all of them, or the part-of-speech tags.

    Raises:
        UserError: a label or a tag occurs twice, or is empty, or contains a space or a bracket.

    Example:
        >>> tokenizer = BracketTokenizer(["NP", "S"])
        >>> tokenizer.vocabulary
        ['[PAD]', '[UNK]', '[START]', '[END]', 'XX', '(NP', ')NP', '(S', ')S']
        >>> ids = tokenizer.tokenize(["(S (NP XX )NP (VP XX )VP )S"])
        >>> ids.to_list()
        [[7, 5, 4, 6, 1, 4, 1, 8]]
        >>> tokenizer.detokenize(ids).numpy()
        array([b'(S (NP XX )NP [UNK] XX [UNK] )S'], dtype=object)
        >>> BracketTokenizer(["NP"], tags=["DT", "NN"]).tokenize(["(NP DT NN )NP"]).to_list()
        [[6, 4, 5, 7]]
    """

    file_suffix = ".txt"

    def __init__(self, labels: Sequence[str], tags: Sequence[str] = (WORD,)) -> None:
        super().__init__()
        self._labels, self._tags = tuple(labels), tuple(tags)
        _check(self._labels, "label of a constituent", "()")
        _check(self._tags, "tag of a word", "()[]")
        self._vocabulary = tf.constant(self.vocabulary)
        # Each token is a word of its own, and no word can be pieced together from others.
        self._op = text.FastWordpieceTokenizer(
            self.vocabulary,
            max_bytes_per_word=1 << 30,
            token_out_type=tf.int32,
            unknown_token=SPECIAL_PIECES[UNKNOWN_ID],
            no_pretokenization=True,
        )

    @classmethod
    def of_trees(cls, linearized: Iterable[str]) -> BracketTokenizer:
        """Makes the tokenizer of all labels and tags in some linearised trees, each in alphabetical order."""
        tokens = {token for each in linearized for token in each.split()}
        labels = sorted(token[1:] for token in tokens if token.startswith("("))
        return cls(labels, sorted(token for token in tokens if token[0] not in "()"))

    @property
    def labels(self) -> list[str]:
        """The constituents' labels."""
        return list(self._labels)

    @property
    def tags(self) -> list[str]:
        """The tokens that stand for a word."""
        return list(self._tags)

    @property
    def vocabulary(self) -> list[str]:
        """The tokens, in the order of their ids."""
        return [*SPECIAL_PIECES, *self._tags, *(bracket + label for label in self._labels for bracket in "()")]

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def opens(self) -> list[int]:
        """For each token the number of the label that it opens, from 1 up; 0 if it opens none."""
        return self._label_numbers("(")

    @property
    def closes(self) -> list[int]:
        """For each token the number of the label that it closes, from 1 up; 0 if it closes none."""
        return self._label_numbers(")")

    @property
    def stands_for_word(self) -> list[bool]:
        """For each token whether it stands for a word."""
        return [FIRST_ID <= token < FIRST_ID + len(self._tags) for token in range(self.vocab_size)]

    def _label_numbers(self, bracket: str) -> list[int]:
        numbers = {bracket + label: number for number, label in enumerate(self.labels, start=1)}
        return [numbers.get(token, 0) for token in self.vocabulary]

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")  # what is not UTF-8 becomes U+FFFD
        ids = self._op.tokenize(tf.strings.split(texts)).merge_dims(-2, -1)
        # No text spells a special piece.
        return ids.with_flat_values(tf.where(ids.flat_values < FIRST_ID, UNKNOWN_ID, ids.flat_values))

    def lacks_tag(self, texts: tf.Tensor) -> tf.Tensor:
        """Tells of trees, strings (batch,), whether a word has a tag that is not a token, bool (batch,).

        The `[UNK]` in its place stands for no word: who counts words, such as `NextWord`, would take the next one for
        it, and so on to the end.
        """
        tokens = tf.strings.split(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"))
        is_tag = ~tf.strings.regex_full_match(tokens.flat_values, r"[()](?s:.*)")
        unknown = tokens.with_flat_values(is_tag & (self.tokenize(texts).flat_values == UNKNOWN_ID))
        return tf.reduce_any(unknown, axis=1)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return tf.strings.reduce_join(tf.gather(self._vocabulary, ids), axis=-1, separator=" ")

    def words(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        words = tf.strings.split(texts)
        return words, tf.cast(tf.ragged.range(words.row_lengths()).to_tensor(), tf.int32)

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.where(ids == PAD_ID, "", tf.gather(self._vocabulary, ids))

    def begins_word(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.fill(tf.shape(ids), True)

    def pieces(self, ids: list[int]) -> list[str]:
        vocabulary = self.vocabulary
        return [vocabulary[i] for i in ids]

    def to_bytes(self) -> bytes:
        """The labels, one per line; then, unless all words are `XX`, an empty line and the tags."""
        tags = ["", *self.tags] if self._tags != (WORD,) else []
        return "".join(f"{line}\n" for line in (*self.labels, *tags)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> BracketTokenizer:
        try:
            lines = data.decode()
        except UnicodeDecodeError as error:
            raise UserError("these labels are not UTF-8; write one per line, in UTF-8") from error
        labels, blank, tags = lines.removesuffix("\n").partition("\n\n")
        return cls(labels.split("\n"), tags.split("\n") if blank else (WORD,))


def _check(names: Sequence[str], kind: str, brackets: str) -> None:
    for name in names:
        if not name or name.split() != [name] or set(name) & set(brackets):
            raise UserError(f"{name!r} is not a {kind}; give one without spaces or brackets")
    if len(set(names)) != len(names):
        raise UserError(f"a {kind} occurs twice; give each once")
