"""The tokens by which a parser's decoder is told the sentence's next word, or the state of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tf_transformer.tokenizers.base import END_ID

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair


def next_word_tokens(tokenizers: TokenizerPair) -> tuple[list[int], list[int]]:
    """The tokens with which a word begins, and those of a linearised tree that stand for one.

    Args:
        tokenizers: a parser's, that of the words a SentencePiece one: WordPiece parts words at punctuation.

    Returns:
        What a `Transformer` takes as `next_word`. The closing token is among the former: its turn comes last.

    Example:
        >>> from tf_transformer.tokenizers import train_parsing_tokenizers
        >>> tokenizers = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
        >>> opening, writing = next_word_tokens(tokenizers)
        >>> tokenizers.source.pieces(opening), tokenizers.target.pieces(writing)
        (['</s>', '▁a', '▁dog', '▁'], ['XX'])
    """
    pieces = tokenizers.source.pieces(list(range(tokenizers.source.vocab_size)))
    opening = [token for token, piece in enumerate(pieces) if piece.startswith("▁") or token == END_ID]
    return opening, [token for token, stands in enumerate(tokenizers.target.stands_for_word) if stands]


def tree_state_tokens(tokenizers: TokenizerPair) -> tuple[list[int], list[int], list[int], list[int]]:
    """The tokens of `next_word_tokens`, and then those of a linearised tree that open and that close a constituent.

    Args:
        tokenizers: as `next_word_tokens` takes them.

    Returns:
        What a `Transformer` takes as `tree_state`.

    Example:
        >>> from tf_transformer.tokenizers import train_parsing_tokenizers
        >>> tokenizers = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
        >>> [tokenizers.target.pieces(tokens) for tokens in tree_state_tokens(tokenizers)[1:]]
        [['XX'], ['(NP'], [')NP']]
    """
    target = tokenizers.target
    brackets = ([token for token, label in enumerate(labels) if label] for labels in (target.opens, target.closes))
    return *next_word_tokens(tokenizers), *brackets
