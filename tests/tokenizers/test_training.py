"""Learning vocabularies: sizes, sides, errors, and the same result every time."""

import re

import pytest

from tests.mistakes import refused
from tests.tokenizers.conftest import JOINT_SIZES, SEPARATE_SIZES
from tf_transformer.errors import UserError
from tf_transformer.tokenizers import Tokenizer, training
from tf_transformer.tokenizers import vocabulary as learning
from tf_transformer.tokenizers.training import train_tokenizers


def vocabulary(tokenizer: Tokenizer) -> set[str]:
    return set(tokenizer.pieces(range(tokenizer.vocab_size)))


def test_joint_is_one_vocabulary_of_both_sides(pair, kind):
    assert pair.joint and pair.source is pair.target
    assert pair.source.vocab_size == JOINT_SIZES[kind]
    assert {"y", "Ä"} <= {piece.strip("▁#") for piece in vocabulary(pair.source)}


def test_separate_vocabularies_each_know_their_side_from_one_reading(pairs, kind):
    pair = train_tokenizers(iter(pairs), kind, SEPARATE_SIZES[kind], joint=False)
    assert not pair.joint and pair.source is not pair.target
    assert pair.source.vocab_size == pair.target.vocab_size == SEPARATE_SIZES[kind]
    assert "ä" not in "".join(vocabulary(pair.source))
    assert "y" not in "".join(vocabulary(pair.target))
    assert "ä" in "".join(vocabulary(pair.target))


def test_the_same_pairs_give_the_same_model(pairs, pair, kind):
    assert train_tokenizers(pairs, kind, JOINT_SIZES[kind]).source.to_bytes() == pair.source.to_bytes()


def test_a_sample_stands_for_a_large_corpus(pairs, monkeypatch):
    monkeypatch.setattr(training, "MAX_PAIRS", 60)
    models = {train_tokenizers(iter(pairs), "bpe", 400).source.to_bytes() for _ in range(2)}
    assert len(models) == 1
    # The first 80 pairs are all about the girl: a sample of the first would know neither of the others.
    assert {"▁A", "▁My"} <= vocabulary(train_tokenizers(pairs, "bpe", 400).source)


@pytest.mark.parametrize("joint", [True, False])
def test_the_largest_size_is_told_and_works(pairs, kind, joint):
    message = refused(train_tokenizers, pairs, kind, 20_000, joint)
    assert "20000" in message
    largest = int(re.search(r"ask for (\d+) or fewer", message)[1])
    pair = train_tokenizers(pairs if joint else [(s, s) for s, _ in pairs], kind, largest, joint)
    assert pair.source.vocab_size == largest
    assert f"ask for {largest} or fewer" in refused(train_tokenizers, pairs, kind, largest + 1, joint)


@pytest.mark.parametrize("size", [259, 3, 0, -7])
def test_the_smallest_size_is_told_and_works(pairs, kind, size):
    if kind == "wordpiece" and size == 259:
        size = 40
    message = refused(train_tokenizers, pairs, kind, size)
    assert f"vocab_size {size} is too small" in message
    smallest = int(re.search(r"ask for (\d+) or more", message)[1])
    characters = {character for pair in pairs for text in pair for character in text} - {" "}
    # WordPiece has a character at the start of a word and one within; SentencePiece has a mark for the blank.
    assert smallest == (4 + 2 * len(characters) if kind == "wordpiece" else 4 + 256 + len(characters) + 1)
    assert train_tokenizers(pairs, kind, smallest).source.vocab_size == smallest


def test_wordpiece_knows_many_characters_but_not_the_rarest():
    """Of those that together are one in 100,000, and more than the first thousand."""
    characters = [chr(ord("一") + number) for number in range(1_100)]
    texts = ["".join(characters), "dog " * 33_400]
    for frequent, known in ((texts, characters[:-1]), (texts[:1], characters)):
        message = refused(train_tokenizers, [(text, "") for text in frequent], "wordpiece", 4)
        smallest = int(re.search(r"ask for (\d+) or more", message)[1])
        tokenizer = train_tokenizers([(text, "") for text in frequent], "wordpiece", smallest).source
        assert vocabulary(tokenizer) & set(characters) == set(known)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentencepiece_knows_all_characters_but_the_rarest(pairs, kind):
    """The last one is not among 99,999 of 100,000."""
    text = " ".join(map(" ".join, pairs))
    characters = [chr(ord("一") + number) for number in range(21)]
    texts = ["".join(characters[:-1] * 2 + characters[-1:]), *[text] * 7]
    known = vocabulary(train_tokenizers([(text, "") for text in texts], kind, 330).source)
    assert known & set(characters) == set(characters[:-1])


def test_wordpiece_learns_from_words_of_any_length_too():
    tokenizer = train_tokenizers([("dog" * 20 + "ä", "dog")] * 3, "wordpiece", 15).source
    assert {"ä", "##ä", "dog"} <= vocabulary(tokenizer)


@pytest.mark.parametrize("size", [10**7 + 1, 2**31, 10**12])
def test_an_absurd_size_is_refused_at_once(pairs, kind, size):
    assert f"vocab_size {size} is larger" in refused(train_tokenizers, pairs[:20], kind, size)


@pytest.mark.parametrize("empty", [[], [("", "")], [(" ", "\n\t")], [("\u00a0", "\u3000")]])
def test_a_corpus_without_text_is_refused(kind, empty):
    assert "nothing to learn" in refused(train_tokenizers, empty, kind, 300)


def test_a_side_without_text_is_named(kind):
    pairs = [("dog dog dog", "")] * 5
    smallest = {"bpe": 264, "unigram": 264, "wordpiece": 10}[kind]
    assert "the target texts" in refused(train_tokenizers, pairs, kind, smallest, False)


def test_lines_that_are_too_long_are_passed_over(pairs, monkeypatch):
    monkeypatch.setattr(learning, "MAX_LINE_BYTES", 20)
    assert "longer than 20 bytes" in refused(
        train_tokenizers, [pair for pair in pairs if len(pair[0]) > 20], "bpe", 300, False
    )


def test_an_unknown_kind_is_refused(pairs):
    assert "'bppe'" in refused(train_tokenizers, pairs, "bppe")
    assert "bpe, unigram, wordpiece" in refused(train_tokenizers, pairs, "bppe")


def test_texts_that_are_none_are_refused_with_their_place(pairs, kind):
    assert "pair 3 " in refused(train_tokenizers, [*pairs[:2], (b"dog", "Hund")], kind)
    assert "pair 1 " in refused(train_tokenizers, [("dog", "\ud800")], kind)


def test_an_error_of_the_source_passes_through(kind):
    def broken():
        yield "a dog", "ein Hund"
        raise UserError("train.en: line 2: not UTF-8")

    assert refused(train_tokenizers, broken(), kind) == "train.en: line 2: not UTF-8"


def test_nothing_is_printed(pairs, kind, capfd):
    train_tokenizers(pairs, kind, JOINT_SIZES[kind])
    refused(train_tokenizers, pairs, kind, 20_000)
    assert capfd.readouterr() == ("", "")
