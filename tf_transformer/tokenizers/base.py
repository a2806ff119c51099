"""What every tokenizer offers, and the ids all of them agree on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tf_transformer.errors import check_is_list

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3


class Tokenizer(tf.Module):
    """Text to ids and back.

    `tokenize` and `detokenize` are graph ops: they work in `tf.data`, in a `tf.function`, and in a SavedModel
    made from a `tf.Module` that holds the tokenizer, which then needs no other file.

    Attributes:
        file_suffix: how the name of this tokenizer's file ends.

    Example:
        >>> from tf_transformer.tokenizers import Tokenizer, train_tokenizers
        >>> tokenizer = train_tokenizers([("a dog", "ein Hund")], kind="wordpiece", vocab_size=22).source
        >>> isinstance(tokenizer, Tokenizer), tokenizer.vocab_size
        (True, 22)
    """

    file_suffix: str

    @property
    def vocab_size(self) -> int:
        """The number of ids, the four special ones included."""
        raise NotImplementedError

    @property
    def placeholder_ids(self) -> list[int]:
        """The ids of the tokens that stand for protected text, `PLACEHOLDERS` in order; none unless it learned them."""
        return []

    @property
    def tags(self) -> list[str]:
        """The language tags of a multilingual model, such as `>>deu<<`; none of another."""
        return []

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits texts into the ids of their pieces.

        Args:
            texts: UTF-8 strings, shape (batch,), dtype string. Bytes that are not UTF-8 count as U+FFFD.

        Returns:
            Ids, shape (batch, None), dtype int32, without START and END.
        """
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Splits texts into ids as `tokenize` does, outside of a graph; several threads can do so at once.

        Args:
            texts: any number of strings.

        Returns:
            The ids of all texts, one after another, shape (tokens,), dtype int32; and how many each text has, shape
            (texts,), dtype int64.

        Raises:
            UserError: `texts` is one string.
        """
        check_is_list(texts, "texts")
        ids = self.tokenize(tf.constant(texts, tf.string, shape=[len(texts)]))
        return ids.flat_values.numpy(), ids.row_lengths().numpy()

    def detokenize(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Joins ids into texts. PAD, START and END leave no text, wherever they are.

        Args:
            ids: shape (batch, length), ragged or padded, dtype int32 or int64.

        Returns:
            UTF-8 strings, shape (batch,), dtype string.
        """
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(ids)
        values = tf.cast(ids.values, tf.int32)
        stays = (values != PAD_ID) & (values != START_ID) & (values != END_ID)
        # As tf.ragged.boolean_mask does, with a third of its operations: these lines are in many graphs.
        stay_before = tf.pad(tf.cumsum(tf.cast(stays, ids.row_splits.dtype)), [[1, 0]])
        row_splits = tf.gather(stay_before, ids.row_splits)
        return self._join(tf.RaggedTensor.from_row_splits(tf.boolean_mask(values, stays), row_splits, validate=False))

    def detokenize_with(self, ids: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        """Joins ids into texts, with a word in the place of each unknown token.

        Args:
            ids: shape (batch, length), padded, dtype int32.
            words: what stands for the token at the same place if it is unknown, shape (batch, length), dtype string.

        Returns:
            UTF-8 strings, shape (batch,), dtype string.
        """
        unknown = ids == UNKNOWN_ID
        # The tokens behind each unknown one are joined by themselves: what they spell may look like one.
        behind = tf.cumsum(tf.cast(unknown, tf.int64), axis=1)
        counts = tf.reduce_sum(tf.cast(unknown, tf.int64), axis=1) + 1
        part_of_token = tf.boolean_mask(behind + tf.cumsum(counts, exclusive=True)[:, None], ~unknown)
        known = tf.boolean_mask(ids, ~unknown)
        parts = self.detokenize(
            tf.RaggedTensor.from_value_rowids(known, part_of_token, tf.reduce_sum(counts), validate=False)
        )
        # One part more than words: nothing stands before the first.
        words, unknown = tf.pad(words, [[0, 0], [1, 0]]), tf.pad(unknown, [[0, 0], [1, 0]], constant_values=True)
        joined = tf.strings.join([tf.boolean_mask(words, unknown), parts], " ")
        rows = tf.shape(ids)[0]
        text = tf.strings.unsorted_segment_join(joined, tf.repeat(tf.range(rows), counts), rows, separator=" ")
        return tf.strings.strip(tf.strings.regex_replace(text, " +", " "))

    def words(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Tells the words of texts, and which of them each token is of.

        Args:
            texts: UTF-8 strings, shape (batch,), dtype string.

        Returns:
            Words, shape (batch, None), dtype string; and for each token from `tokenize` the position of its word, shape
            (batch, length), dtype int32, padded with 0.
        """
        raise NotImplementedError

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        """Names the pieces that ids stand for, as `pieces` does, in a graph.

        Args:
            ids: any shape, dtype int32; padding's name is the empty string.

        Returns:
            Strings of the same shape.
        """
        raise NotImplementedError

    def begins_word(self, ids: tf.Tensor) -> tf.Tensor:
        """Tells before which tokens `detokenize` puts a space, unless they are a text's first.

        Args:
            ids: any shape, dtype int32.

        Returns:
            Of the same shape, dtype bool.
        """
        raise NotImplementedError

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Does `detokenize`'s work, once PAD, START and END are gone."""
        raise NotImplementedError

    def pieces(self, ids: list[int]) -> list[str]:
        """Names the pieces that ids stand for, to be read by a person.

        Args:
            ids: the ids of one text; any sequence of integers.

        Returns:
            One string for each id, just as the vocabulary has it: `▁dog`, `##ing`, `</s>`, `<0xEA>`.
        """
        raise NotImplementedError

    def spelling(self, piece: str) -> tuple[bool, str]:
        """Tells what a piece spells, whatever kind of tokenizer it comes from.

        Args:
            piece: as `pieces` names it.

        Returns:
            Whether it begins a word, and its text without the mark that says so.
        """
        return piece.startswith("▁"), piece.removeprefix("▁")

    def for_whole_words(self) -> Tokenizer:
        """The tokenizer for sentences whose words are counted by the pieces that begin one; this one if it has none."""
        return self

    def to_bytes(self) -> bytes:
        """Returns the content of the file that `from_bytes` reads."""
        raise NotImplementedError

    @classmethod
    def from_bytes(cls, data: bytes) -> Tokenizer:
        """Makes a tokenizer from the content of its file.

        Args:
            data: what `to_bytes` returned.

        Raises:
            UserError: the data is not such a file.
        """
        raise NotImplementedError
