"""Odd translations: found where they were put, and against definitions in other words."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.evaluation.oddities import WORD, copies, repeats, share_of_oddities

WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=14)


@settings(deadline=None, max_examples=200)
@given(WORDS)
def test_a_repeat_is_what_a_regular_expression_finds(words):
    """One to four words, and twice more the same."""
    text = "".join(word + " " for word in words)
    assert repeats("", text) == bool(re.search(r"(?:^| )((?:\w ){1,4})\1\1", " " + text))


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("He sleeps.", "Er schläft, er schläft, er schläft.", True),
        ("He sleeps.", "Er schläft und Er schläft.", False),
        ("Ha, ha, ha!", "Ha, ha, ha, ha!", False),
        ("She ran.", "Sie lief DIE die Die Straße hinab.", True),
        ("I like it.", "我喜欢我喜欢我喜欢", True),
        ("I like it.", "我喜欢它", False),
        ("", "", False),
        ("x", "a b c d e a b c d e a b c d e", False),  # five words
        ("My grandparents live in Delhi.", "मेरे दादा दादी दिल्ली में रहते हैं।", False),
        ("No.", "नहीं नहीं नहीं", True),
        ("Baby and Grandma came.", "பாப்பா பாட்டி வந்தார்கள்", False),
        ("But a mother is no ghost.", "Ma\u0301 ma\u0300 ma", False),  # decomposed
        ("No.", "ไม่ไม่ไม่", True),
    ],
)
def test_repeats(source, translation, expected):
    assert repeats(source, translation) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("A man rides a bike.", "a man rides a bike", True),
        ("A man rides a bike.", "Ein Mann rides a bike.", True),
        ("A man rides a bike.", "Ein Mann fährt a bike.", False),
        ("a", "a a a", False),  # only one of them is there
        ("Tom!", "Tom!", True),
        ("a b c d", "a b", True),
        ("a b c d e", "a b", False),
        ("我去了北京大学", "我去了北京大學", True),  # six of seven
        ("我去了北京大学", "私は京都大学に行きました", False),
        ("", "", False),
    ],
)
def test_copies(source, translation, expected):
    assert copies(source, translation) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我爱NBA狗", ["我", "爱", "NBA", "狗"]),
        ("か\u3099ん𠮷", ["か\u3099", "ん", "𠮷"]),
        ("नहीं, दिल्ली में", ["नहीं", "दिल्ली", "में"]),
        ("ที่นี่iPhone", ["ที่", "นี่", "iPhone"]),
        ("Mu\u0308ller_1 saw 10² ½ dogs", ["Mu\u0308ller_1", "saw", "10²", "½", "dogs"]),
    ],
)
def test_words_keep_their_marks(text, words):
    assert WORD.findall(text) == words


def test_lengths_that_were_made_odd_are_found():
    """Targets of 1.5 times the source, give or take a little, of which some are cut and some are doubled."""
    draw = random.Random(4)
    sources = ["x" * draw.randint(20, 90) for _ in range(400)]
    references = ["y" * round(1.5 * len(source) + draw.choice([-1, 0, 1]) * len(source) ** 0.5) for source in sources]
    spoiled = [
        text[: len(text) // 3] if number % 20 == 0 else text * 2 if number % 20 == 10 else text
        for number, text in enumerate(references)
    ]
    found = share_of_oddities(sources, spoiled, references)
    assert found["translations"]["odd_length"] == 10.0
    assert found["references"]["odd_length"] == 0.0


def test_a_length_is_odd_from_three_standard_deviations_on():
    """The usual targets have 1.5 times the source's length, with a variance of that length: 10 of 100, 20 of 400."""
    lengths = (100, 140), (100, 160), (400, 580), (400, 620)
    sources, references = (["x" * length for length in side] for side in zip(*lengths, strict=True))
    for within, beyond in ((121, 179, 541, 659), 0), ((119, 179, 541, 659), 1), ((119, 181, 539, 661), 4):
        found = share_of_oddities(sources, ["y" * length for length in within], references)
        assert found["translations"]["odd_length"] == 25.0 * beyond


def test_shares_are_percentages_of_the_sentences():
    sources = ["one two three"] * 8
    references = ["eins zwei drei"] * 8
    translations = ["one two three", "eins eins eins", *references[2:]]
    found = share_of_oddities(sources, translations, references)
    assert found["translations"] == {"repeats": 12.5, "copies": 12.5, "odd_length": 12.5}
    assert found["references"] == {"repeats": 0.0, "copies": 0.0, "odd_length": 0.0}
