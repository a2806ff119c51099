"""Learning vocabularies from sentence pairs."""

from __future__ import annotations

import io
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import sentencepiece
import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as wordpiece_learner

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Tokenizer
from tf_transformer.tokenizers.brackets import BracketTokenizer
from tf_transformer.tokenizers.pair import KINDS, TokenizerPair
from tf_transformer.tokenizers.sentencepiece import SentencePieceTokenizer
from tf_transformer.tokenizers.wordpiece import SPECIAL_PIECES, WordPieceTokenizer, split_words

# A larger corpus is sampled: this many pairs tell a vocabulary's statistics, and bound the memory.
MAX_PAIRS = 1_000_000

# SentencePiece passes over longer lines. Its own limit, 4,192, would pass over paragraphs too.
MAX_LINE_BYTES = 65_536


def train_tokenizers(
    pairs: Iterable[tuple[str, str]], kind: str = "bpe", vocab_size: int = 8000, joint: bool = True
) -> TokenizerPair:
    """Learns the vocabularies of both languages, reading the pairs once. The same pairs give the same result.

    Args:
        pairs: (source text, target text); of more than a million a random million counts.
        kind: "bpe" or "unigram" (SentencePiece), or "wordpiece".
        vocab_size: the exact number of pieces of a vocabulary, special ones included.
        joint: whether to learn one vocabulary from both sides rather than one from each.

    Returns:
        The two tokenizers; where `joint`, the same one twice.

    Raises:
        UserError: for an unknown kind, pairs without text, and a size that the text does not allow.

    Example:
        >>> tokenizer = train_tokenizers([("a dog", "ein Hund")], kind="unigram", vocab_size=270).source
        >>> tokenizer.pieces([0, 1, 2, 3, 4])
        ['<pad>', '<unk>', '<s>', '</s>', '<0x00>']
    """
    _check_kind(kind)
    sample = _sample(_checked(pairs), MAX_PAIRS)
    sources, targets = [source for source, _ in sample], [target for _, target in sample]
    if joint:
        tokenizer = _train(sources + targets, kind, vocab_size, "the texts of both sides")
        return TokenizerPair(tokenizer, tokenizer, kind)
    return TokenizerPair(
        _train(sources, kind, vocab_size, "the source texts"),
        _train(targets, kind, vocab_size, "the target texts"),
        kind,
    )


def train_parsing_tokenizers(
    pairs: Iterable[tuple[str, str]], kind: str = "bpe", vocab_size: int = 8000
) -> TokenizerPair:
    """Learns the vocabulary of sentences, and collects the brackets of their trees, reading the pairs once.

    Args:
        pairs: (sentence, linearised tree); for the sentences a random million counts, the brackets are those of all.
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
    _check_kind(kind)
    tokens: dict[str, None] = {}

    def sentences() -> Iterator[str]:
        for sentence, tree in _checked(pairs):
            tokens.update(dict.fromkeys(tree.split()))
            yield sentence

    source = _train(_sample(sentences(), MAX_PAIRS), kind, vocab_size, "the sentences")
    return TokenizerPair(source, BracketTokenizer.of_trees(tokens), kind, "brackets")


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise UserError(f"tokenizer kind {kind!r} is not known; choose one of {', '.join(KINDS)}")


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


def _train(texts: list[str], kind: str, vocab_size: int, where: str) -> Tokenizer:
    if kind == "wordpiece":
        return _train_wordpiece(texts, vocab_size, where)
    return _train_sentencepiece(texts, kind, vocab_size, where)


def _no_text(where: str) -> UserError:
    return UserError(
        f"there is nothing to learn a vocabulary from: {where} have no line that is neither blank nor longer "
        f"than {MAX_LINE_BYTES} bytes; check the corpus"
    )


def _too_small(vocab_size: int, smallest: int, needs: str, where: str) -> UserError:
    return UserError(
        f"vocab_size {vocab_size} is too small for {where}, which need {smallest}: {needs}; ask for {smallest} or more"
    )


def _too_large(vocab_size: int, largest: int, kind: str, where: str) -> UserError:
    return UserError(
        f"vocab_size {vocab_size} is larger than {where} allow: {kind} finds {largest} pieces there; "
        f"ask for {largest} or fewer, or give more text"
    )


def _train_sentencepiece(texts: list[str], kind: str, vocab_size: int, where: str) -> SentencePieceTokenizer:
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=kind,
            # The trainer answers a wrong size with the right one, but for absurd sizes, on which it may hang.
            vocab_size=min(max(vocab_size, 4 + 256), 10_000_000),
            byte_fallback=True,
            # All characters but the rarest, together one in 100,000: those are spelled in bytes.
            character_coverage=0.99999,
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,
            pad_id=PAD_ID,
            unk_id=UNKNOWN_ID,
            bos_id=START_ID,
            eos_id=END_ID,
            minloglevel=2,
        )
    except RuntimeError as error:
        # The trainer has one error type; what it says is all there is to tell them apart.
        message = str(error)
        if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
            needs = f"4 special pieces, 256 bytes and {int(found[1]) - 260} characters"
            raise _too_small(vocab_size, int(found[1]), needs, where) from error
        if found := re.search(r"size too high .* <= (\d+)", message):
            raise _too_large(vocab_size, int(found[1]), kind, where) from error
        if "!sentences_.empty()" in message or "all_chars_count" in message:
            raise _no_text(where) from error
        raise
    return SentencePieceTokenizer(model.getvalue())


def _train_wordpiece(texts: list[str], vocab_size: int, where: str) -> WordPieceTokenizer:
    counts = _count_words(texts)
    if not counts:
        raise _no_text(where)

    # The library's own search ends at some size near the one asked for, below it or above it. This one looks
    # for the highest threshold that gives enough pieces, content with 5 % too many; the rarest then go.
    low, high, threshold = 1, max(counts.values()) + 1, 16
    enough = None
    while low < high and not (enough and len(enough) <= 1.05 * vocab_size):
        threshold = min(max(threshold, low), high - 1)
        # With equal bounds the library's search is one run: pieces that occur `threshold` times or more.
        found = wordpiece_learner.learn(
            counts, vocab_size, list(SPECIAL_PIECES), upper_thresh=threshold, lower_thresh=threshold
        )
        needed = sum(map(_is_needed, found))
        if vocab_size < needed:
            needs = f"4 special pieces, and {(needed - 4) // 2} characters that begin a word or go on with it"
            raise _too_small(vocab_size, needed, needs, where)
        if len(found) >= vocab_size:
            enough, low = found, threshold + 1
        else:
            high = threshold
        # The number of pieces falls about as the threshold rises.
        threshold = threshold * len(found) // vocab_size
    if enough is None:
        raise _too_large(vocab_size, len(found), "wordpiece", where)
    return WordPieceTokenizer(_drop_rarest(enough, vocab_size))


def _count_words(texts: list[str]) -> dict[str, int]:
    counts = Counter()
    for start in range(0, len(texts), 1000):
        counts.update(split_words(tf.constant(texts[start : start + 1000])).flat_values.numpy())
    return {word.decode(): count for word, count in counts.items()}


def _is_needed(piece: str) -> bool:
    """Whether a piece is special or one character: these can spell every text of known characters."""
    return piece in SPECIAL_PIECES or len(piece.removeprefix("##")) == 1


def _drop_rarest(vocabulary: list[str], size: int) -> list[str]:
    """Takes pieces from the end, where the rarest are, until `size` are left; those that are needed stay."""
    spare = size - sum(map(_is_needed, vocabulary))
    longer = [piece for piece in vocabulary if not _is_needed(piece)]
    dropped = set(longer[spare:])
    return [piece for piece in vocabulary if piece not in dropped]
