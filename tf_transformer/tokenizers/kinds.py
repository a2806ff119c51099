"""The kinds of tokenizer that a recipe can name.

A recipe's settings read them, so TensorFlow is imported where a kind's class is used, and not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_transformer.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class TokenizerKind:
    """One kind of tokenizer.

    Attributes:
        class_name: its class in `tf_transformer.tokenizers`.
        has_symbols: whether it can have symbols that it never splits.
        parts_words: whether it parts words at punctuation, so that a parser can't be told which word comes next.
    """

    class_name: str
    has_symbols: bool = False
    parts_words: bool = False

    def get_class(self) -> type[Tokenizer]:
        """Imports its class."""
        from tf_transformer import tokenizers

        return getattr(tokenizers, self.class_name)


# By `tokenizer.kind` of a recipe, and `kind` of tokenizer.json.
TOKENIZER_KINDS = {
    "bpe": TokenizerKind("SentencePieceTokenizer", has_symbols=True),
    "unigram": TokenizerKind("SentencePieceTokenizer", has_symbols=True),
    "wordpiece": TokenizerKind("WordPieceTokenizer", parts_words=True),
    "marian": TokenizerKind("MarianTokenizer"),
}
# By `target_kind` of tokenizer.json: no recipe names a parser's brackets, which are collected and not learned.
TARGET_KINDS = {**TOKENIZER_KINDS, "brackets": TokenizerKind("BracketTokenizer")}
