"""WordPiece, as TensorFlow Text's op."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow_text as text

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import PAD_ID, UNKNOWN_ID, Tokenizer

SPECIAL_PIECES = ("[PAD]", "[UNK]", "[START]", "[END]")

# A control character counts as a blank. A punctuation mark, a symbol or an ideograph is a word of its own, so
# that "dog." needs no entry beside "dog", and text can not spell a special piece or a "##".
_BLANK = r"[\s\p{Z}\p{Cc}]"
_ONE_CHARACTER_WORD = r"[\p{P}\p{S}\p{Han}]"

# The op makes a longer word unknown; its time is linear, so there is nothing to protect.
_MAX_BYTES_PER_WORD = 1 << 30


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts into the words that WordPiece then splits into pieces. Case and accents stay.

    Args:
        texts: UTF-8 strings, shape (batch,), dtype string.

    Returns:
        Words, shape (batch, None), dtype string: NFC, none of them empty.

    Example:
        >>> split_words(tf.constant(["Über 3 Hunde."])).to_list()[0][-1]
        b'.'
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")  # what is not UTF-8 becomes U+FFFD
    texts = text.normalize_utf8(texts, "NFC")
    texts = tf.strings.regex_replace(texts, _BLANK, " ")
    texts = tf.strings.regex_replace(texts, _ONE_CHARACTER_WORD, r" \0 ")
    return tf.strings.split(texts)


class WordPieceTokenizer(Tokenizer):
    """Splits words into the longest pieces of a vocabulary; a word with an unknown character is `[UNK]`.

    Texts of known characters survive the round trip except for spaces: there is one between any two words, and a
    mark such as a comma is a word.

    Args:
        vocabulary: the pieces, in the order of their ids, `[PAD] [UNK] [START] [END]` first; a piece that
            continues a word begins with `##`.

    Raises:
        UserError: a vocabulary with other special pieces, or with a piece twice.

    Example:
        >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[START]", "[END]", "dog", "##s", "."])
        >>> ids = tokenizer.tokenize(["dogs. cat"])
        >>> ids.to_list()
        [[4, 5, 6, 1]]
        >>> tokenizer.detokenize(ids).numpy()
        array([b'dogs . [UNK]'], dtype=object)
    """

    file_suffix = ".txt"

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__()
        vocabulary = list(vocabulary)
        if tuple(vocabulary[:4]) != SPECIAL_PIECES:
            raise UserError(f"a WordPiece vocabulary begins with {' '.join(SPECIAL_PIECES)}; this one does not")
        if "" in vocabulary or len(set(vocabulary)) != len(vocabulary):
            raise UserError("this WordPiece vocabulary has a piece twice, or an empty one; remove it")
        self._vocabulary = tf.constant(vocabulary)
        self._op = text.FastWordpieceTokenizer(
            vocabulary,
            max_bytes_per_word=_MAX_BYTES_PER_WORD,
            token_out_type=tf.int32,
            unknown_token=SPECIAL_PIECES[UNKNOWN_ID],
            no_pretokenization=True,  # its own splitting was not what the vocabulary was learned with
        )

    @property
    def vocab_size(self) -> int:
        return self._vocabulary.shape[0]

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._op.tokenize(split_words(texts)).merge_dims(-2, -1)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        # Not the op's own detokenize: an id outside the vocabulary ends the process there; here it raises.
        pieces = tf.strings.reduce_join(tf.gather(self._vocabulary, ids), axis=-1, separator=" ")
        return tf.strings.regex_replace(pieces, "(^| )##", "")

    def words(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        words = split_words(texts)
        lengths = self._op.tokenize(words).row_lengths(axis=2)
        places = tf.ragged.range(words.row_lengths())
        repeated = tf.repeat(places.flat_values, lengths.flat_values)
        of_tokens = tf.RaggedTensor.from_row_lengths(repeated, tf.reduce_sum(lengths, axis=1))
        return words, tf.cast(of_tokens.to_tensor(), tf.int32)

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.where(ids == PAD_ID, "", tf.gather(self._vocabulary, ids))

    def begins_word(self, ids: tf.Tensor) -> tf.Tensor:
        return ~tf.strings.regex_full_match(self.piece_texts(ids), "(?s)##.+")

    def pieces(self, ids: list[int]) -> list[str]:
        return [piece.decode() for piece in tf.gather(self._vocabulary, tf.constant(ids, tf.int32)).numpy()]

    def spelling(self, piece: str) -> tuple[bool, str]:
        return not piece.startswith("##"), piece.removeprefix("##")

    def to_bytes(self) -> bytes:
        return b"".join(piece + b"\n" for piece in self._vocabulary.numpy())

    @classmethod
    def from_bytes(cls, data: bytes) -> WordPieceTokenizer:
        try:
            lines = data.decode()
        except UnicodeDecodeError as error:
            raise UserError("this WordPiece vocabulary is not UTF-8; write one piece per line, in UTF-8") from error
        # Not splitlines: a piece may hold one of the other characters that it takes for a line's end.
        return cls(lines.removesuffix("\n").split("\n"))
