"""The tokenizers of MarianMT models: SentencePiece's pieces, and a vocabulary that gives them ids."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import tensorflow as tf
from sentencepiece import SentencePieceProcessor
from tensorflow_text.python.ops.sentencepiece_tokenizer import gen_sentencepiece_tokenizer as text_ops

from tf_transformer.errors import UserError
from tf_transformer.files.as_json import read_json
from tf_transformer.tokenizers.base import PAD_ID, UNKNOWN_ID, Tokenizer
from tf_transformer.tokenizers.language_tags import MARIAN_SUFFIX, tags_in
from tf_transformer.tokenizers.sentencepiece import ModelResource, words_of_pieces

# A language tag of a multilingual model, such as `>>deu<<`, with which a text may begin.
_TAG = "(?s)^(>>.*?<<)"

FIRST_PIECE = 4  # behind the four special ones


class MarianTokenizer(Tokenizer):
    """Splits text with a SentencePiece model whose own ids do not matter: a vocabulary gives the pieces theirs.

    The vocabulary may hold the pieces of two languages, each with a SentencePiece model of its own; a piece that it
    does not hold is unknown. A language tag at the start of a text, such as `>>deu<<`, is one piece. What is unknown
    leaves no text. All this is as in the transformers library, whose ids differ: there the special pieces are
    wherever the vocabulary has them, and decoding starts from padding. Here `START` has an id of its own.

    Args:
        model: the bytes of a SentencePiece model, such as `source.spm`.
        vocabulary: the pieces, in the order of the ids of `vocab.json`.
        end: the piece that closes a sequence.
        unknown: the piece that stands for any other.
        padding: the piece that padding is, and that decoding starts from.

    Raises:
        UserError: bytes that are not such a model, or a vocabulary that lacks one of the three or has a piece twice.

    Example:
        >>> from tf_transformer.tokenizers import MarianTokenizer, train_tokenizers
        >>> model = train_tokenizers([("a dog", "ein Hund")], vocab_size=280).source.to_bytes()
        >>> tokenizer = MarianTokenizer(model, ["</s>", "<unk>", "▁a", ">>deu<<", "▁ein", "<pad>"])
        >>> tokenizer.tokenize([">>deu<< a"]).to_list()
        [[5, 4]]
        >>> tokenizer.pieces([0, 1, 2, 3, 4, 5, 6])
        ['<pad>', '<unk>', '<s>', '</s>', '▁a', '>>deu<<', '▁ein']
        >>> tokenizer.detokenize([[4, 6, 3]]).numpy()
        array([b'a ein'], dtype=object)
    """

    file_suffix = MARIAN_SUFFIX

    def __init__(
        self,
        model: bytes,
        vocabulary: Sequence[str],
        end: str = "</s>",
        unknown: str = "<unk>",
        padding: str = "<pad>",
    ) -> None:
        super().__init__()
        self._model = model
        try:
            SentencePieceProcessor().load_from_serialized_proto(model)
        except RuntimeError as error:
            raise UserError("this is not a SentencePiece model, or it is damaged; copy it again") from error
        self._vocabulary = tuple(vocabulary)
        self._special = (end, unknown, padding)
        known = set(self._vocabulary)
        for name, piece in zip(("closing", "unknown", "padding"), self._special, strict=True):
            if piece not in known:
                raise UserError(f"the vocabulary has no {name} piece, {piece!r}; copy it again")
        if len(known) != len(self._vocabulary) or len(set(self._special)) != len(self._special):
            raise UserError("the vocabulary has a piece twice; copy it again")
        start = next(name for name in ("<s>", "<start>", "<tf_transformer start>") if name not in known)
        places = self.marian_ids
        self._pieces = [self._vocabulary[place] for place in places]
        self._pieces[2] = start
        self._piece_texts = tf.constant(self._pieces)
        pieces = self._pieces[FIRST_PIECE:]
        ids = tf.range(FIRST_PIECE, len(self._pieces))
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(pieces, tf.string), ids), UNKNOWN_ID
        )
        self._resource = ModelResource(model)

    @property
    def marian_ids(self) -> list[int]:
        """For each id the one that `vocab.json` has for its piece; that of padding for `START` too."""
        places = {piece: place for place, piece in enumerate(self._vocabulary)}
        end, unknown, padding = (places[piece] for piece in self._special)
        others = (place for piece, place in places.items() if piece not in self._special)
        return [padding, unknown, padding, end, *others]

    @property
    def vocabulary(self) -> list[str]:
        """The pieces in the order of the ids of `vocab.json`."""
        return list(self._vocabulary)

    @property
    def special_pieces(self) -> tuple[str, str, str]:
        """The pieces that close a sequence, stand for unknown ones, and pad."""
        return self._special

    @property
    def tags(self) -> list[str]:
        return tags_in(self._vocabulary)

    @property
    def sentencepiece_model(self) -> bytes:
        """The SentencePiece model."""
        return self._model

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")  # what is not UTF-8 becomes U+FFFD
        tagged = tf.strings.regex_full_match(texts, _TAG + ".*")
        tags = tf.boolean_mask(tf.strings.regex_replace(texts, _TAG + ".*", r"\1"), tagged)
        pieces, row_splits = text_ops.sentencepiece_tokenize_op(
            self._resource.for_op(),
            tf.strings.regex_replace(texts, _TAG, "", replace_global=False),
            nbest_size=0,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=tf.string,
        )
        both = (
            tf.RaggedTensor.from_row_lengths(tags, tf.cast(tagged, tf.int64)),
            tf.RaggedTensor.from_row_splits(pieces, row_splits, validate=False),
        )
        return tf.ragged.map_flat_values(self._table.lookup, tf.concat(both, axis=1))

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        known = tf.ragged.boolean_mask(ids, ids != UNKNOWN_ID)
        texts = text_ops.sentencepiece_detokenize_op(
            self._resource.for_op(),
            tf.gather(self._piece_texts, known.values),
            known.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )
        # The marks of blanks in pieces that are not this SentencePiece model's are still there.
        return tf.strings.strip(tf.strings.regex_replace(texts, "▁", " "))

    def words(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        return words_of_pieces(self, texts)

    def piece_texts(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.where(ids == PAD_ID, "", tf.gather(self._piece_texts, ids))

    def begins_word(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_full_match(self.piece_texts(ids), "(?s)(▁|>>).*")  # a tag is a word

    def pieces(self, ids: list[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    def to_bytes(self) -> bytes:
        """The model and the vocabulary, as JSON."""
        end, unknown, padding = self._special
        content = {
            "end": end,
            "unknown": unknown,
            "padding": padding,
            "model": base64.b64encode(self._model).decode(),
            "vocabulary": self.vocabulary,
        }
        return (json.dumps(content, ensure_ascii=False, indent=0) + "\n").encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> MarianTokenizer:
        try:
            content = read_json(data)
            content["model"] = base64.b64decode(content["model"], validate=True)
            return cls(**content)
        except UserError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise UserError("not the tokenizer of an imported MarianMT model; import the model again") from error
