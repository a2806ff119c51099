"""The tokenizers of two languages, learned from sentence pairs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.brackets import BracketTokenizer
from tf_transformer.tokenizers.kinds import TOKENIZER_KINDS
from tf_transformer.tokenizers.pair import TokenizerPair
from tf_transformer.tokenizers.placeholders import PLACEHOLDERS
from tf_transformer.tokenizers.vocabulary import learn

# A larger corpus is sampled: this many pairs tell a vocabulary's statistics, and bound the memory.
MAX_PAIRS = 1_000_000


def train_tokenizers(
    pairs: Iterable[tuple[str, str]],
    kind: str = "bpe",
    vocab_size: int = 8000,
    joint: bool = True,
    placeholders: bool = False,
) -> TokenizerPair:
    """Learns the vocabularies of both languages, reading the pairs once. The same pairs give the same result.

    Args:
        pairs: (source text, target text); of more than a million, a random million is used.
        kind: "bpe" or "unigram" (SentencePiece), or "wordpiece".
        vocab_size: the exact number of pieces of a vocabulary, special ones included.
        joint: whether to learn one vocabulary from both sides rather than one from each.
        placeholders: whether it has tokens that stand for protected text; a model learns them from `PlaceholderPairs`.

    Returns:
        The two tokenizers; with `joint`, the same one twice.

    Raises:
        UserError: for an unknown kind, or one that can't have placeholders; pairs without text; and a size that the
            text does not allow.

    Example:
        >>> tokenizer = train_tokenizers([("a dog", "ein Hund")], kind="unigram", vocab_size=270).source
        >>> tokenizer.pieces([0, 1, 2, 3, 4])
        ['<pad>', '<unk>', '<s>', '</s>', '<0x00>']
    """
    _check_known(kind)
    if placeholders and not TOKENIZER_KINDS[kind].has_symbols:
        able = " or ".join(name for name, each in TOKENIZER_KINDS.items() if each.has_symbols)
        raise UserError(f"tokenizer kind {kind!r} can't have placeholders; choose {able}")
    symbols = PLACEHOLDERS if placeholders else ()
    sample = _sample(_checked(pairs), MAX_PAIRS)
    sources, targets = [source for source, _ in sample], [target for _, target in sample]
    if joint:
        tokenizer = learn(sources + targets, kind, vocab_size, "the texts of both sides", symbols)
        return TokenizerPair(tokenizer, tokenizer, kind)
    return TokenizerPair(
        learn(sources, kind, vocab_size, "the source texts", symbols),
        learn(targets, kind, vocab_size, "the target texts", symbols),
        kind,
    )


def train_parsing_tokenizers(
    pairs: Iterable[tuple[str, str]], kind: str = "bpe", vocab_size: int = 8000
) -> TokenizerPair:
    """Learns the vocabulary of sentences, and collects the brackets of their trees, reading the pairs once.

    Args:
        pairs: (sentence, linearised tree); of more than a million sentences, a random million is used, but the brackets
            of all trees.
        kind: "bpe" or "unigram" (SentencePiece), or "wordpiece".
        vocab_size: the exact number of pieces of the sentences' vocabulary, special ones included.

    Returns:
        The tokenizer of sentences, and a `BracketTokenizer`.

    Raises:
        UserError: for an unknown kind, sentences without text, and a size that the text does not allow.

    Example:
        >>> pair = train_parsing_tokenizers([("a dog", "(NP XX XX )NP")], vocab_size=270)
        >>> pair.target.labels
        ['NP']
    """
    _check_known(kind)
    tokens: dict[str, None] = {}

    def sentences() -> Iterator[str]:
        for sentence, tree in _checked(pairs):
            tokens.update(dict.fromkeys(tree.split()))
            yield sentence

    source = learn(_sample(sentences(), MAX_PAIRS), kind, vocab_size, "the sentences")
    return TokenizerPair(source, BracketTokenizer.of_trees(tokens), kind, "brackets")


def _check_known(kind: str) -> None:
    if kind not in TOKENIZER_KINDS:
        raise UserError(f"tokenizer kind {kind!r} is not known; choose one of {', '.join(TOKENIZER_KINDS)}")


def _checked(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for number, (source, target) in enumerate(pairs, 1):
        for text in (source, target):
            if not isinstance(text, str):
                raise UserError(f"pair {number} of the corpus holds {type(text).__name__}, not str; give two strings")
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise UserError(
                    f"pair {number} of the corpus holds {text[error.start]!a}, half a character (a lone "
                    "surrogate); read the file as UTF-8"
                ) from error
        yield source, target


def _sample(items: Iterable, size: int) -> list:
    """Draws `size` items with equal chances, the same ones every time; all where there are no more."""
    generator = random.Random(0)
    kept = []
    for number, item in enumerate(items):
        if number < size:
            kept.append(item)
        elif (place := generator.randrange(number + 1)) < size:
            kept[place] = item
    return kept
