"""SentencePiece, BPE or unigram, as TensorFlow Text's op."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from sentencepiece import SentencePieceProcessor
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer as text_ops

from tf_transformer.errors import UserError, check_is_list
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Tokenizer
from tf_transformer.tokenizers.placeholders import PLACEHOLDERS

# What nmt_nfkc, SentencePiece's usual normal form, makes a blank of.
_BLANKS = r"[\s\p{Z}\x{061C}\x{200B}\x{200C}\x{200E}\x{200F}\x{2581}\x{FEFF}\x{FFFD}]+"
# What is read in place of a word that has no normal form.
_NOTHING = "\N{WHITE SQUARE}"

_numbers = itertools.count()


def words_of_pieces(tokenizer: Tokenizer, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Does the work of `Tokenizer.words` for a tokenizer whose pieces tell where a word begins."""

    def begun(ids: tf.Tensor) -> tf.Tensor:
        return tf.cumsum(tf.cast(tokenizer.begins_word(ids), tf.int64), axis=-1)

    # SentencePiece leaves a vertical tab out, and `split` would take it for a blank.
    texts = tf.strings.regex_replace(texts, r"\v", "")
    words = tf.strings.split(tf.strings.regex_replace(texts, _BLANKS, " "))
    # The normal form of one word may be several, as of "x´y", where "´" becomes a blank and an accent; or none. So each
    # is tokenized by itself. Not `tf.repeat`, nor what uses it: with one very long word it would take gigabytes.
    pieces = tokenizer.tokenize(words.flat_values)
    before_word = tf.gather(tf.pad(begun(pieces.values), [[1, 0]]), pieces.row_splits)
    first_word = words.row_splits[:-1, None]
    beginning = begun(tokenizer.tokenize(texts).to_tensor()) - 1 + tf.gather(before_word, first_word)
    word = tf.searchsorted(before_word[1:], tf.reshape(beginning, [-1]), side="right", out_type=tf.int64)
    # An imported model may have another normal form, and so other blanks.
    last = tf.maximum(words.row_lengths() - 1, 0)[:, None]
    places = tf.clip_by_value(tf.reshape(word, tf.shape(beginning)) - first_word, 0, last)
    readable = tf.ragged.map_flat_values(tf.strings.unicode_transcode, words, "UTF-8", "UTF-8")  # else U+FFFD
    return readable, tf.cast(places, tf.int32)


class ModelResource(tf.saved_model.experimental.TrackableResource):
    """A model as TensorFlow Text's ops take it, under a name, until this object is gone.

    `tensorflow_text.SentencepieceTokenizer` gives its model no name. The kernel that made it then owns it, and
    TensorFlow drops kernels when a seed is set or Keras's session is cleared.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        # What bears one name is one resource: each object has its own, and other processes have other models' names.
        name = f"sentencepiece_{hashlib.sha256(model).hexdigest()}_{next(_numbers)}"
        # Called eagerly the op would leave its kernel, which holds the model too, in TensorFlow's cache.
        self._make = tf.function(
            lambda: text_ops.sentencepiece_op(model=model, shared_name=name), autograph=False
        ).get_concrete_function()
        _ = self.resource_handle  # which makes it

    def for_op(self) -> tf.Tensor:
        """The handle. A graph finds the model by name or makes it again, since it may outlive this object."""
        return self.resource_handle if tf.executing_eagerly() else self._make()

    def _create_resource(self) -> tf.Tensor:
        return self._make()

    def _destroy_resource(self) -> None:
        tf.raw_ops.DestroyResourceOp(resource=self.resource_handle)


class SentencePieceTokenizer(Tokenizer):
    """Splits text with a SentencePiece model.

    A model from `train_tokenizers` spells characters it has never seen in bytes, so every text survives the
    round trip in its normal form (NFKC, with each run of spaces as one).

    Args:
        model: the bytes of a SentencePiece model whose `<pad>`, `<unk>`, `<s>`, `</s>` are 0, 1, 2, 3.

    Raises:
        UserError: bytes that are not such a model.

    Example:
        >>> from tf_transformer.tokenizers import train_tokenizers
        >>> tokenizer = train_tokenizers([("a dog", "ein Hund")], vocab_size=280).source
        >>> tokenizer.detokenize(tokenizer.tokenize(["a  dog 🐕"])).numpy()[0].decode()
        'a dog 🐕'
    """

    file_suffix = ".model"

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._model = model
        self._processor = SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(model)
        except RuntimeError as error:
            raise UserError("this is not a SentencePiece model, or it is damaged; train it again") from error
        processor = self._processor
        special_ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if special_ids != (PAD_ID, UNKNOWN_ID, START_ID, END_ID):
            raise UserError(
                f"this SentencePiece model has pad, unk, bos, eos at {special_ids}, not at (0, 1, 2, 3); "
                "train it with pad_id=0, unk_id=1, bos_id=2, eos_id=3"
            )
        self._resource = ModelResource(model)

    @property
    def vocab_size(self) -> int:
        return self._processor.vocab_size()

    @property
    def placeholder_ids(self) -> list[int]:
        ids = [self._processor.piece_to_id(name) for name in PLACEHOLDERS]
        return [] if UNKNOWN_ID in ids else ids

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        ids, row_splits = text_ops.sentencepiece_tokenize_op(
            self._resource.for_op(),
            tf.convert_to_tensor(texts, tf.string),
            nbest_size=0,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=tf.int32,
        )
        return tf.RaggedTensor.from_row_splits(ids, row_splits, validate=False)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        check_is_list(texts, "texts")
        # The library itself takes half the time of TensorFlow Text's operation, and gives the same ids.
        ids = self._processor.encode(list(texts), num_threads=1)
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return np.fromiter(itertools.chain.from_iterable(ids), np.int32, int(lengths.sum())), lengths

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return text_ops.sentencepiece_detokenize_op(
            self._resource.for_op(), ids.values, ids.row_splits, add_bos=False, add_eos=False, reverse=False
        )

    def words(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        return words_of_pieces(self, texts)

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        names = text_ops.sentencepiece_id_to_string_op(self._resource.for_op(), tf.reshape(ids, [-1]))
        return tf.where(ids == PAD_ID, "", tf.reshape(names, tf.shape(ids)))

    def begins_word(self, ids: tf.Tensor) -> tf.Tensor:
        # A word's first piece begins with SentencePiece's mark of a blank.
        return tf.strings.regex_full_match(self.piece_texts(ids), "(?s)▁.*")

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def for_whole_words(self) -> SentencePieceTokenizer:
        return WholeWordTokenizer(self._model)

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, data: bytes) -> SentencePieceTokenizer:
        return cls(data)


class WholeWordTokenizer(SentencePieceTokenizer):
    """Splits sentences so that exactly one piece begins each of their words, those between ASCII blanks.

    Normal forms may gain blanks: that of `´` is an accent on a blank, and that of a zero-width blank is nothing but
    one. A word that would thus become several is read without these blanks; one of which nothing is left, as a square.
    All other words have the pieces that a `SentencePieceTokenizer` gives them.

    Args:
        model: as a `SentencePieceTokenizer` has it.

    Example:
        >>> from tf_transformer.tokenizers import train_parsing_tokenizers
        >>> tokenizer = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270).source
        >>> for ids in tokenizer.tokenize(["a dog", "a\\u200ba \\u200b"]).to_list():
        ...     sum(piece.startswith("▁") for piece in tokenizer.pieces(ids))
        2
        2
    """

    # The library that a `SentencePieceTokenizer` encodes with would leave the words as they are.
    encode = Tokenizer.encode

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        words = tf.strings.split(texts)
        pieces = super().tokenize(words.values)
        begins = pieces.with_values(tf.cast(self.begins_word(pieces.values), tf.int32))
        # U+FFFD stands for bytes that are not UTF-8. In a text it is one more blank.
        joined = tf.strings.regex_replace(self._join(pieces), "[ \N{REPLACEMENT CHARACTER}]", "")
        joined = tf.where(joined == "", _NOTHING, joined)
        read = tf.where(tf.reduce_sum(begins, axis=1) == 1, words.values, joined)
        return super().tokenize(tf.strings.reduce_join(words.with_values(read), axis=1, separator=" "))
