"""Pairs of tags go around the words that they enclosed."""

import random

import pytest
import tensorflow as tf

from tests.protection.written import written
from tf_transformer.protection.spans import take_out
from tf_transformer.protection.tag_pairs import _densest

pytestmark = pytest.mark.usefixtures("eager")


@pytest.mark.parametrize(
    ("text", "translation", "alignment", "expected"),
    [
        # Another order of words.
        ("the dog <b>sees</b> a cat", "eine Katze sieht der Hund", [3, 4, 2, 0, 1], "eine Katze <b>sieht</b> der Hund"),
        ("<i>the old dog</i> sees", "sieht der alte Hund", [3, 0, 1, 2], "sieht <i>der alte Hund</i>"),
        ("the dog <b>sees</b>.", "der Hund sieht.", [0, 1, 2, 3], "der Hund <b>sieht</b>."),
        # One inside of another, and two side by side.
        ("<i>the <b>old</b> dog</i>", "der alte Hund", [0, 1, 2], "<i>der <b>alte</b> Hund</i>"),
        ("the <b>old</b> <i>dog</i>", "der Hund alte", [0, 2, 1], "der <i>Hund</i> <b>alte</b>"),
        # With attributes; a name that goes on is another.
        ('the <a href="x">dog</a>', "Hund der", [1, 0], '<a href="x">Hund</a> der'),
        ("the <b>dog</br> sees", "sieht der Hund", [2, 0, 1], "sieht der <b>Hund</br>"),
        # Where words between are aligned elsewhere: the longest run counts.
        ("the <b>old dog</b> sees", "alte sieht der alte Hund", [1, 3, 0, 1, 2], "alte sieht der <b>alte Hund</b>"),
        ("<b>the old dog</b> sees", "der alte Hund sieht Katze", [0, 1, 2, 3, 2], "<b>der alte Hund</b> sieht Katze"),
        # One directly around another, and names that differ.
        ('<a href="x"><b>sees</b></a> dog', "Hund sieht", [1, 0], 'Hund <a href="x"><b>sieht</b></a>'),
        ("<i><a><b><u>sees</u></b></a></i> dog", "Hund sieht", [1, 0], "Hund <i><a><b><u>sieht</u></b></a></i>"),
        ("a <i><b>sees</b></i> <u>dog</u>", "Hund sieht eine", [2, 1, 0], "<u>Hund</u> <i><b>sieht</b></i> eine"),
        # Words that another span replaces, or that the model wrote for it, are not enclosed.
        ("⟦dog|Hund⟧ <b>sees</b>", "Hund der", [1, 0], "Hund der <b></b>"),
        # Nothing is aligned to what they enclosed.
        ("the <b>dog</b> sees", "der sieht", [0, 2], "der <b></b> sieht"),
    ],
)
def test_by_hand(tokenizers, text, translation, alignment, expected):
    assert written(tokenizers["bpe"], [text], [translation], [alignment]) == [expected]


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("sieht der ⟦0⟧ Hund ⟦1⟧", "sieht der <b>Hund</b>"),
        # Only one of a pair's placeholders: the other goes where the alignment sends it.
        ("der Hund ⟦0⟧ sieht", "der Hund <b></b> sieht"),
        # Both are lost.
        ("sieht der Hund", "sieht der <b>Hund</b>"),
    ],
)
def test_placeholders_of_tags(tokenizers, translation, expected):
    pair, text = tokenizers["placeholders"], "the <b>dog</b> sees"
    read = pair.source.tokenize(take_out([text], True).text)[0].numpy().tolist()
    place = {word: read.index(pair.source.tokenize([word])[0].numpy()[-1]) for word in ("the", "dog", "sees")}
    means = {"der": "the", "Hund": "dog", "sieht": "sees"}
    tokens = pair.target.pieces(pair.target.tokenize([translation])[0].numpy().tolist())
    alignment = [place[means.get(token.strip("▁"), "dog")] for token in tokens]
    assert written(pair, [text], [translation], [alignment]) == [expected]


def test_the_densest_run_is_that_of_a_plain_loop():
    generator = random.Random(1)
    flags = [[[generator.random() < 0.4 for _ in range(9)] for _ in range(5)] for _ in range(20)]
    first, end = (each.numpy() for each in _densest(tf.constant(flags)))
    for row, firsts, ends in zip(flags, first, end, strict=True):
        for run, begin, behind in zip(row, firsts, ends, strict=True):
            lead = {(i, j): 2 * sum(run[i:j]) - (j - i) for i in range(9) for j in range(i + 1, 10)}
            assert (begin, behind) == (0, 0) if not any(run) else lead[begin, behind] == max(lead.values())
