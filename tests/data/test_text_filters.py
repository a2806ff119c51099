"""Filters by text: hand-made pairs whose verdict is known, and each measure beside one worked out by brute force."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.data import seen
from tf_transformer.data.seen import Seen
from tf_transformer.data.text_filters import (
    LONGEST_REPEATED,
    REASONS,
    PairFilter,
    PairLimits,
    _letters_of,
    is_repetitive,
    overlap,
    script_share,
)
from tf_transformer.errors import UserError

DOG = ("A dog runs through the park.", "Ein Hund läuft durch den Park.")


@pytest.mark.parametrize(
    ("limits", "source", "target", "reason"),
    [
        ({}, *DOG, None),
        ({}, "The temperature is 20 °C.", "Es hat 20 °C.", None),
        ({}, "NÃO Â", "Nein, nein", None),
        ({}, "column\tone", "Spalte\teins", None),
        ({}, DOG[0], "Ein Hund l\ufffduft.", "damaged"),
        ({}, DOG[0], "Ein Hund lÃ¤uft.".encode().decode(), "damaged"),
        ({}, DOG[0], "Ein Hund läuft.".encode().decode("latin-1"), "damaged"),
        *[({}, DOG[0], text.encode().decode("cp1252"), "damaged") for text in ("groß", "Übel", "Ärzte", "Öl", "À la")],
        ({}, "„IRMÃ“, ‘MANHÃ’ – AMANHÃ…", "„Schwester“, ‚morgens‘ – morgen…", None),
        ({}, DOG[0], "Ein „Hund“ läuft – schnell.".encode().decode("cp1252", errors="ignore"), "damaged"),
        ({}, "A dog\x07 runs.", DOG[1], "damaged"),
        ({}, "A dog\rruns.", DOG[1], "damaged"),
        ({}, DOG[0], "", "empty"),
        ({}, " \t\u00a0", DOG[1], "empty"),
        ({"min_length": 3}, "No dog.", "Kein einziger Hund.", "too_short"),
        ({"min_length": 2}, "No dog.", "Kein Hund.", None),
        ({"max_length": 5}, *DOG, "too_long"),
        ({"max_length": 6}, *DOG, None),
        ({}, "Hi.", "Ein guter Tag.", None),
        ({}, "Hi.", "Ich grüße dich auch.", "unlike_lengths"),
        ({"max_ratio": 4}, "Hi.", "Ich grüße dich auch.", None),
        ({}, "a b c d", "x", "unlike_lengths"),
        ({}, DOG[0], DOG[0], "copied"),
        ({}, DOG[0], DOG[0].upper().replace(".", " !"), "copied"),
        ({}, "…", "…", "copied"),
        ({}, "…", "!", None),
        ({}, "Tom is cool.", "Tom ist cool.", None),
        ({}, "भारत महान है", "भारत महान आहे", None),
        ({}, "भारत महान है", "भारत महान है।", "copied"),
        ({"max_overlap": 0.5}, "Tom is cool.", "Tom ist cool.", "copied"),
        ({"max_overlap": 1}, DOG[0], DOG[0], None),
        ({"target_script": "Cyrillic"}, DOG[0], "Собака бежит по парку.", None),
        ({"target_script": "Cyrillic"}, *DOG, "other_script"),
        ({"source_script": "Cyrillic"}, DOG[0], "Собака бежит по парку.", "other_script"),
        ({"target_script": "Cyrillic", "min_script": 6 / 13}, "Windows is old.", "Windows старый.", None),
        ({"target_script": "Cyrillic"}, "Windows is old.", "Windows старый.", "other_script"),
        ({"target_script": "Cyrillic"}, "No Windows.", "Нет Windows.", "other_script"),
        ({"target_script": "Cyrillic"}, "In 1999:", "– 1999 –", None),
        ({"target_script": "Han+Hiragana+Katakana", "unit": "characters"}, "Tokyo", "東京タワーです", None),
        ({"target_script": "Han"}, "tower", "タワー", "other_script"),
        ({"target_script": "Han+Hiragana+Katakana", "min_script": 1.0}, "Wow!", "わーーーい、ｲｪｰｲ", None),
        ({"target_script": "Arabic", "min_script": 1.0}, "Hello!", "مـــرحبا", None),
        ({"unit": "characters"}, "I love you.", "我爱你。", None),
        ({"unit": "characters"}, "I love you very much.", "我爱你。", "unlike_lengths"),
        ({"unit": "characters", "max_length": 9}, "I love you.", "Je t'aime.", None),
        ({"unit": "characters", "max_length": 8}, "I love you.", "Je t'aime.", "too_long"),
        ({}, "no no no no, I do", "nein nein nein nein, ich nicht", None),
        ({}, "no no no no no one", "nein nein nein keiner", "repetitive"),
        ({"max_repeats": 2}, "I said no.", "ich sagte ich sagte ich sagte nein", "repetitive"),
        ({"unit": "characters"}, "What?????", "Was????", "repetitive"),
    ],
)
def test_the_verdict(limits, source, target, reason):
    pairs = PairFilter(PairLimits(**limits))
    assert pairs.reason(source, target) == reason
    if reason is None:  # a second time it is the same as an earlier one
        assert pairs.reason(source, target) == "duplicate"
        assert pairs.reason(source, target + " ") is None
        assert pairs.as_dict() == {"pairs": 3, "kept": 2, "dropped": {"duplicate": 1}}
    else:
        assert pairs.as_dict() == {"pairs": 1, "kept": 0, "dropped": {reason: 1}}


def test_duplicates_may_be_kept_and_what_was_dropped_is_not_remembered():
    pairs = PairFilter(PairLimits(duplicates=True))
    assert [pairs.reason(*DOG) for _ in range(3)] == [None] * 3
    pairs = PairFilter(PairLimits())
    assert [pairs.reason("a", "") for _ in range(2)] == ["empty"] * 2


def test_every_pair_is_counted_once_under_the_first_reason():
    pairs = PairFilter(PairLimits(min_length=2, max_length=10, target_script="Latin"))
    # Each of these would be dropped for the next reason too.
    several = [
        ("\ufffd", ""),
        ("", "a"),
        ("a", "b " * 11),
        ("a a", "b " * 11),
        ("a a", "б " * 7),
        ("б " * 9, "б " * 9),
        ("a " * 9, "б " * 9),
        ("a " * 9, "b " * 9),
    ]
    assert [pairs.reason(*pair) for pair in several] == list(REASONS)[2:-1]
    pairs.count("damaged", 2)
    counts = pairs.as_dict()
    assert (counts["pairs"], counts["dropped"].pop("damaged")) == (len(several) + 2, 3)
    assert set(counts["dropped"].values()) == {1}


@settings(deadline=None)
@given(st.lists(st.sampled_from("ab"), max_size=14), st.integers(1, 4))
def test_repetition_by_brute_force(units, most):
    expected = any(
        units[start : start + length] * (most + 1) == units[start : start + length * (most + 1)]
        for length in range(1, LONGEST_REPEATED + 1)
        for start in range(len(units) - length * (most + 1) + 1)
    )
    assert is_repetitive(units, most) == expected


@settings(deadline=None)
@given(*[st.lists(st.sampled_from(["a", "b", "Ä", "ä"]), min_size=1, max_size=9)] * 2)
def test_overlap_by_brute_force(source, target):
    left, shared = [word.lower() for word in target], 0
    for word in map(str.lower, source):
        if word in left:
            left.remove(word)
            shared += 1
    assert overlap(", ".join(source), " ".join(target) + ".") == shared / max(len(source), len(target))


def test_overlap_of_either_form():
    """An accent may be composed or decomposed."""
    assert overlap("Über das Café.", "U\u0308ber DAS Cafe\u0301") == overlap("日ǰ", "日j\u030c") == 1


@settings(deadline=None)
@given(st.text("aZéßжЯωΩ日か1-. \u0301", max_size=20))
@pytest.mark.parametrize("script", ["Latin", "Cyrillic", "Greek"])
def test_script_by_the_names_of_characters(script, text):
    letters = [unicodedata.name(char) for char in text if unicodedata.category(char).startswith("L")]
    expected = sum(name.startswith(script.upper() + " ") for name in letters) / len(letters) if letters else 1
    assert script_share(text, _letters_of(script)) == pytest.approx(expected)


def test_what_came_before_by_a_set(monkeypatch):
    """With marks sorted in again and again, by ever larger numbers."""
    monkeypatch.setattr(seen, "FEWEST", 5)
    remembered, known = Seen(), set()
    for number in range(2_000):
        pair = str(number * 7919 % 1_500), str(number % 3)
        assert remembered.add(*pair) == (pair in known)
        known.add(pair)
    assert len(remembered._sorted) + len(remembered._recent) == len(known)
    assert len(remembered._recent) <= max(5, len(known) / 8)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"unit": "tokens"}, "unit is 'tokens'; it must be words or characters"),
        ({"min_length": 0}, "min_length is 0; it must be at least 1"),
        ({"min_length": 5, "max_length": 4}, "max_length is 4; it must be at least 5"),
        ({"max_ratio": 0.5}, "max_ratio is 0.5; it must be at least 1"),
        ({"max_ratio": float("nan")}, "max_ratio is nan; it must be at least 1"),
        ({"max_overlap": 1.5}, "max_overlap is 1.5; it must be from 0 to 1"),
        ({"max_repeats": 0}, "max_repeats is 0; it must be at least 1"),
        ({"min_script": -1}, "min_script is -1; it must be from 0 to 1"),
        ({"source_script": "German"}, "Unicode has no script called German"),
        ({"target_script": "Han+"}, r"Unicode has no script called Han\+"),
        ({"target_script": "Han}\\p{L"}, "Unicode has no script called Han"),
        ({"target_script": ""}, "Unicode has no script called"),
    ],
    ids=str,
)
def test_limits_that_can_not_be(limits, told):
    with pytest.raises(UserError, match=told):
        PairLimits(**limits)
