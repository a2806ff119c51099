"""The kinds of tokenizer that a recipe can name: the class of each, and how its vocabulary is learned.

A recipe's settings read them, so TensorFlow is imported where a kind is used, and not here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class TokenizerKind:
    """One kind of tokenizer.

    Attributes:
        get_class: gives its class.
        learn: makes one out of texts, the size of its vocabulary, whose texts they are, for errors, and the symbols
            that it never splits.
        has_symbols: whether it can have such symbols.
        parts_words: whether it parts words at punctuation, so that a parser can't be told which word comes next.
    """

    get_class: Callable[[], type[Tokenizer]]
    learn: Callable[[list[str], int, str, Sequence[str]], Tokenizer]
    has_symbols: bool
    parts_words: bool


def _sentencepiece() -> type[Tokenizer]:
    from tf_transformer.tokenizers.sentencepiece import SentencePieceTokenizer

    return SentencePieceTokenizer


def _wordpiece() -> type[Tokenizer]:
    from tf_transformer.tokenizers.wordpiece import WordPieceTokenizer

    return WordPieceTokenizer


def _marian() -> type[Tokenizer]:
    from tf_transformer.tokenizers.marian import MarianTokenizer

    return MarianTokenizer


def _brackets() -> type[Tokenizer]:
    from tf_transformer.tokenizers.brackets import BracketTokenizer

    return BracketTokenizer


def _learn_bpe(texts: list[str], vocab_size: int, where: str, symbols: Sequence[str]) -> Tokenizer:
    from tf_transformer.tokenizers.vocabulary import learn_sentencepiece

    return learn_sentencepiece(texts, "bpe", vocab_size, where, symbols)


def _learn_unigram(texts: list[str], vocab_size: int, where: str, symbols: Sequence[str]) -> Tokenizer:
    from tf_transformer.tokenizers.vocabulary import learn_sentencepiece

    return learn_sentencepiece(texts, "unigram", vocab_size, where, symbols)


def _learn_wordpiece(texts: list[str], vocab_size: int, where: str, symbols: Sequence[str]) -> Tokenizer:
    from tf_transformer.tokenizers.vocabulary import learn_wordpiece

    return learn_wordpiece(texts, vocab_size, where)


def _learn_marian(texts: list[str], vocab_size: int, where: str, symbols: Sequence[str]) -> Tokenizer:
    raise UserError(
        "tokenizer.kind is marian, which comes with an imported model and can't be learned; choose bpe, unigram or "
        "wordpiece"
    )


# By `tokenizer.kind` of a recipe, and `kind` of tokenizer.json.
TOKENIZER_KINDS = {
    "bpe": TokenizerKind(_sentencepiece, _learn_bpe, has_symbols=True, parts_words=False),
    "unigram": TokenizerKind(_sentencepiece, _learn_unigram, has_symbols=True, parts_words=False),
    "wordpiece": TokenizerKind(_wordpiece, _learn_wordpiece, has_symbols=False, parts_words=True),
    "marian": TokenizerKind(_marian, _learn_marian, has_symbols=False, parts_words=False),
}
# By `target_kind` of tokenizer.json, what gives a target's class: no recipe names a parser's brackets, which are
# collected and not learned.
TARGET_CLASSES = {**{name: kind.get_class for name, kind in TOKENIZER_KINDS.items()}, "brackets": _brackets}
