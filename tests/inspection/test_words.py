"""Words of a translation, and those of the source that they come from."""

import pytest

from tf_transformer.inspection.sentence import Inspection
from tf_transformer.inspection.words import aligned_words


def words(source, target, alignment):
    seen = Inspection("", "", source, target, {}, alignment, False)
    return [(word.text, word.sources) for word in aligned_words(seen)]


def test_pieces_of_sentencepiece():
    source = ["▁", "A", "▁dog", "s", "▁.", "</s>"]
    target = ["▁Hund", "e", "▁▁", "<unk>", "</s>"]
    assert words(source, target, [3, 1, 5, 4, 5]) == [("Hunde", ["A", "dogs"]), ("", []), ("<unk>", ["."])]


def test_pieces_of_wordpiece():
    source, target = ["a", "green", "##house", ".", "[END]"], ["gewächs", "##haus", ".", "[END]"]
    assert words(source, target, [1, 2, 3, 4]) == [("gewächshaus", ["greenhouse"]), (".", ["."])]


@pytest.mark.parametrize("end", [["[END]"], []], ids=["whole", "stopped"])
def test_the_tokens_of_a_tree_are_words(end):
    source, target = ["▁The", "▁dog", "s", "</s>"], ["(S", "(NP", "XX", *end]
    expected = [("(S", ["dogs"]), ("(NP", ["The"]), ("XX", ["dogs"])]
    assert words(source, target, [2, 0, 1, 3][: len(target)]) == expected


@pytest.mark.parametrize("alignment", [[-1, -1], [2, 2]])
def test_what_goes_with_nothing(alignment):
    """-1 is nothing, and so is the closing token."""
    assert words(["▁A", "▁b", "</s>"], ["▁C", "</s>"], alignment) == [("C", [])]


def test_nothing():
    assert words(["</s>"], [], []) == []
