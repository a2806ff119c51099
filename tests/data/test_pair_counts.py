"""What is counted of a corpus, and told of what looks like a mistake."""

from functools import partial
from types import SimpleNamespace

import pytest

from tests.data.characters import CHARACTERS
from tf_transformer.data.batching import make_batches
from tf_transformer.data.counting import PairCounts, count_pairs
from tf_transformer.data.sources import TextFiles
from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import END_ID
from tf_transformer.tokenizers.brackets import BracketTokenizer


def test_counting_refuses_the_same_limits():
    with pytest.raises(UserError, match="max_length is 0"):
        count_pairs([], CHARACTERS, max_length=0)


def test_counts_read_as_one_line():
    line = str(PairCounts(kept=28_000, empty=1, too_long=2, bad_ratio=3000, source_tokens=9, target_tokens=7))
    assert line == (
        "28,000 of 31,003 pairs kept (9 source and 7 target tokens); "
        "3,003 dropped: 1 empty, 2 too long, 3,000 of very different lengths"
    )


def test_copies_and_repeats_are_counted_among_what_is_kept(monkeypatch):
    monkeypatch.setattr("tf_transformer.data.filters.CHUNK", 4)  # so that a repeat is found in another chunk
    pairs = [("a", "a"), ("a", "b"), ("a", "a"), ("", ""), ("b", "a"), ("x" * 99,) * 2, ("a", "b"), ("a", "b")]
    counts = count_pairs(pairs, CHARACTERS, max_length=20)
    assert (counts.kept, counts.copied, counts.repeated) == (6, 2, 3)
    assert counts.doubts() == []  # half of it
    counts = count_pairs([*pairs, ("a", "a"), ("b", "b")] * 3, CHARACTERS, max_length=20)
    assert counts.doubts() == ["20 of 24 pairs repeat an earlier one"]
    monkeypatch.setattr("tf_transformer.data.counting.REMEMBERED", 6)
    assert count_pairs([*pairs, *pairs], CHARACTERS, max_length=20).repeated == 3


def test_what_looks_like_a_mistake_is_told_with_its_numbers():
    copies = [(str(n), str(n)) for n in range(1500)]
    assert count_pairs(copies, CHARACTERS, max_length=20).doubts() == [
        "1,500 of 1,500 pairs have the same text as source and target"
    ]
    few = [("a", "b"), ("b", "a")] * 800
    assert count_pairs(few, CHARACTERS, max_length=20).doubts() == ["1,598 of 1,600 pairs repeat an earlier one"]
    figures = {"empty": 0, "too_long": 0, "bad_ratio": 0, "source_tokens": 1, "target_tokens": 1}
    counts = PairCounts(kept=3_000_000, repeated=600_000, **figures)
    assert counts.doubts() == ["600,000 of the first 1,000,000 pairs repeat an earlier one"]


def test_tokens_that_the_vocabulary_lacks_are_counted_among_what_is_kept():
    characters_and_trees = SimpleNamespace(source=CHARACTERS.source, target=BracketTokenizer(["NP"]))
    count = partial(count_pairs, tokenizers=characters_and_trees, max_length=20)
    pairs = [(str(n), "(NP XX )NP") for n in range(500)]
    assert count([*pairs, ("x" * 20, "(S XX )S")]).doubts() == []
    counts = count([*pairs, ("x", "(S XX )S"), ("y", "(VP XX )NP")])
    assert (counts.unknown_source, counts.unknown_target) == (0, 3)
    assert counts.doubts() == ["3 of 2,008 target tokens are unknown to the tokenizer"]
    counts = count([*pairs * 4, ("x", "(VP XX )NP")])
    assert counts.unknown_target == 1 and "unknown" not in "".join(counts.doubts())  # less than a thousandth


def test_trees_with_a_tag_that_the_vocabulary_lacks_are_dropped():
    """An unknown token in a tag's place would stand for no word; in a bracket's place it stands for none anyway."""
    tokenizers = SimpleNamespace(source=CHARACTERS.source, target=BracketTokenizer(["NP"], ["DT", "NN"]))
    known, tag, bracket = "(NP DT NN )NP", "(NP DT NNP )NP", "(NP (QP DT )QP NN )NP"
    counts = count_pairs([("ab", known), ("cd", tag), ("ef", bracket), ("", tag)], tokenizers, max_length=20)
    assert (counts.kept, counts.unknown_tag, counts.empty, counts.unknown_target) == (2, 1, 1, 2)
    assert str(counts).endswith(
        "2 dropped: 1 empty, 0 too long, 0 of very different lengths, 1 with a tag that the tokenizer lacks"
    )
    assert counts.doubts()[-1] == "1 of 3 trees are left out: the tokenizer lacks one of their tags"
    batches = make_batches([("ab", known), ("cd", tag), ("ef", bracket)], tokenizers, batch_tokens=99, max_length=20)
    labels = [row[row > 0].tolist() for _, rows in batches.as_numpy_iterator() for row in rows]
    assert sorted(labels) == [[6, 1, 4, 1, 5, 7, END_ID], [6, 4, 5, 7, END_ID]]
    assert tokenizers.target.lacks_tag(["(NP DT", "X", "(NP\u2009a", "", ")", "[UNK]"]).numpy().tolist() == [
        *[False, True, False, False, False, True]
    ]


def test_multi30k_raises_no_doubts(shared_data):
    source = TextFiles(shared_data / "multi30k" / "train.en", shared_data / "multi30k" / "train.de")
    assert count_pairs(source, CHARACTERS, max_length=500).doubts() == []
