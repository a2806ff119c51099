"""SentencePiece, BPE or unigram, as TensorFlow Text's op."""

from __future__ import annotations

import hashlib

import tensorflow as tf
import tensorflow_text as text
from sentencepiece import SentencePieceNormalizer, SentencePieceProcessor

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Tokenizer

# SentencePiece takes these for blanks.
_BLANKS = r"[\s\p{Z}\p{Cc}]+"


class SentencePieceTokenizer(Tokenizer):
    """Splits text with a SentencePiece model.

    A model of `train_tokenizers` spells characters it has never seen in bytes, so every text survives the
    round trip in its normal form (NFKC, with runs of blanks made one).

    TensorFlow Text's op keeps the model in its kernel, and TensorFlow drops its kernels when a seed is set: call
    `keras.utils.set_random_seed` before tokenizers are made or loaded, not after.

    Args:
        model: the bytes of a SentencePiece model whose `<pad>`, `<unk>`, `<s>`, `</s>` are 0, 1, 2, 3.

    Raises:
        UserError: for bytes that are no such model.

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
            raise UserError("this is not a SentencePiece model, or it is damaged; train it anew") from error
        processor = self._processor
        special_ids = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
        if special_ids != (PAD_ID, UNKNOWN_ID, START_ID, END_ID):
            raise UserError(
                f"this SentencePiece model has pad, unk, bos, eos at {special_ids}, not at (0, 1, 2, 3); "
                "train it with pad_id=0, unk_id=1, bos_id=2, eos_id=3"
            )
        # The reference for normal forms: blanks as they are, and no mark before the first word.
        self._normalizer = SentencePieceNormalizer(model_proto=model, add_dummy_prefix=False, escape_whitespaces=False)
        # The op holds the model as a resource. As an attribute of a module it is exported with it. Resources of one
        # name are one resource once they are loaded, so each model's bears a name of its own.
        self._op = text.SentencepieceTokenizer(model, name=f"model_{hashlib.sha256(model).hexdigest()}")

    @property
    def vocab_size(self) -> int:
        return self._processor.vocab_size()

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._op.tokenize(texts)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        return self._op.detokenize(ids)

    def words(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        readable = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")  # what is not UTF-8 becomes U+FFFD
        words = tf.strings.split(tf.strings.regex_replace(readable, _BLANKS, " "))
        # A word's first piece begins with SentencePiece's mark of a blank.
        begins = tf.strings.regex_full_match(self.piece_texts(self.tokenize(texts).to_tensor()), "(?s)▁.*")
        places = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1, 0)
        # Where the normal form of a character holds a blank, there are more beginnings than words.
        most = tf.cast(words.row_lengths(), tf.int32) - 1
        return words, tf.clip_by_value(places, 0, tf.maximum(most, 0)[:, None])

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.where(ids == PAD_ID, "", self._op.id_to_string(ids))

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def normalize(self, text: str) -> str:
        return self._normalizer.normalize(text)

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, data: bytes) -> SentencePieceTokenizer:
        return cls(data)
