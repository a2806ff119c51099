"""One vocabulary learned from texts, by SentencePiece or as WordPiece does."""

from __future__ import annotations

import io
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

import sentencepiece
import tensorflow as tf
from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as wordpiece_learner

from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID, UNKNOWN_ID, Tokenizer
from tf_transformer.tokenizers.sentencepiece import SentencePieceTokenizer
from tf_transformer.tokenizers.wordpiece import SPECIAL_PIECES, WordPieceTokenizer, split_words

# SentencePiece passes over longer lines. Its own limit, 4,192, would pass over paragraphs too.
MAX_LINE_BYTES = 65_536
# All characters but the rarest, together one in 100,000: SentencePiece spells those in bytes.
COVERAGE = 0.99999
# WordPiece can't spell in bytes, so that it knows at least so many characters.
FEWEST_CHARACTERS = 1_000
# WordPiece learns from longer words in parts: the time for a word is the square of its length.
LONGEST_WORD = 50


def learn(texts: list[str], kind: str, vocab_size: int, where: str, symbols: Sequence[str] = ()) -> Tokenizer:
    """Learns a vocabulary of any kind.

    Args:
        texts: what it is learned from.
        kind: one of `TOKENIZER_KINDS`.
        vocab_size: the exact number of pieces.
        where: whose texts they are, for errors.
        symbols: what is always a piece by itself, wherever it stands, for a kind that `has_symbols`.

    Raises:
        UserError: the kind can't be learned; there is no text, or it does not allow the size.
    """
    if kind == "wordpiece":
        return learn_wordpiece(texts, vocab_size, where)
    if kind == "marian":
        raise UserError(
            "tokenizer.kind is marian, which comes with an imported model and can't be learned; choose bpe, unigram "
            "or wordpiece"
        )
    return learn_sentencepiece(texts, kind, vocab_size, where, symbols)


def learn_sentencepiece(
    texts: list[str], kind: str, vocab_size: int, where: str, symbols: Sequence[str] = ()
) -> SentencePieceTokenizer:
    """Learns a vocabulary of SentencePiece.

    Args:
        texts: what it is learned from.
        kind: "bpe" or "unigram".
        vocab_size: the exact number of pieces.
        where: whose texts they are, for errors.
        symbols: what is always a piece by itself, wherever it stands.

    Raises:
        UserError: there is no text, or it does not allow the size.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=kind,
            # The trainer answers a wrong size with the right one, but for absurd sizes, on which it may hang.
            vocab_size=min(max(vocab_size, 4 + 256), 10_000_000),
            byte_fallback=True,
            character_coverage=COVERAGE,
            max_sentence_length=MAX_LINE_BYTES,
            num_threads=1,
            user_defined_symbols=list(symbols),
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


def learn_wordpiece(texts: list[str], vocab_size: int, where: str) -> WordPieceTokenizer:
    """Learns a vocabulary of WordPiece, with all characters; where there are many, without the rarest.

    Args:
        texts: what it is learned from.
        vocab_size: the exact number of pieces.
        where: whose texts they are, for errors.

    Raises:
        UserError: there is no text, or it does not allow the size.
    """
    counts = _count_words(texts)
    if not counts:
        raise _no_text(where)
    characters = _characters_to_know(counts)

    # The library's own search ends at some size near the one asked for, below it or above it. This one looks
    # for the highest threshold that gives enough pieces, content with 5 % too many; the rarest then go.
    low, high, threshold = 1, max(counts.values()) + 1, 16
    enough = None
    while low < high and not (enough and len(enough) <= 1.05 * vocab_size):
        threshold = min(max(threshold, low), high - 1)
        # With equal bounds the library's search is one run: pieces that occur `threshold` times or more.
        found = wordpiece_learner.learn(
            counts,
            vocab_size,
            list(SPECIAL_PIECES),
            upper_thresh=threshold,
            lower_thresh=threshold,
            max_token_length=LONGEST_WORD,
            max_unique_chars=characters,
        )
        needed = sum(map(_is_needed, found))
        if vocab_size < needed:
            needs = f"4 special pieces, and {(needed - 4) // 2} characters that begin or continue a word"
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


def _no_text(where: str) -> UserError:
    return UserError(
        f"there is nothing to learn a vocabulary from: every line of {where} is empty or longer "
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


def _count_words(texts: list[str]) -> dict[str, int]:
    words = Counter()
    for start in range(0, len(texts), 1000):
        words.update(split_words(tf.constant(texts[start : start + 1000])).flat_values.numpy())
    counts = Counter()
    for encoded, count in words.items():
        word = encoded.decode()
        for start in range(0, len(word), LONGEST_WORD):
            counts[word[start : start + LONGEST_WORD]] += count
    return counts


def _characters_to_know(counts: Mapping[str, int]) -> int:
    """How many of the characters, from the most frequent on, a vocabulary gets."""
    characters = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    reached = list(accumulate(sorted(characters.values(), reverse=True)))
    return max(FEWEST_CHARACTERS, bisect_left(reached, COVERAGE * reached[-1]) + 1)


def _is_needed(piece: str) -> bool:
    """Whether a piece is special or one character: these can spell every text of known characters."""
    return piece in SPECIAL_PIECES or len(piece.removeprefix("##")) == 1


def _drop_rarest(vocabulary: list[str], size: int) -> list[str]:
    """Takes pieces from the end, where the rarest are, until `size` are left; those that are needed stay."""
    spare = size - sum(map(_is_needed, vocabulary))
    longer = [piece for piece in vocabulary if not _is_needed(piece)]
    dropped = set(longer[spare:])
    return [piece for piece in vocabulary if piece not in dropped]
