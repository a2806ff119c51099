"""Noise: its shares beside binomial bounds, what it may change, and the same bits from seed and number alone."""

import math
import subprocess
import sys
from collections import Counter

import pytest

from tf_transformer.data.noise import FILLER, Noise, without_accents
from tf_transformer.errors import UserError

TEXT = "Der müde Hund läuft heute schnell durch unseren großen Garten"
WORDS = TEXT.split()
COUNT = 2_000


def within(found, count, share):
    """Whether a number of draws is within five standard deviations of its mean."""
    return abs(found - count * share) < 5 * math.sqrt(count * share * (1 - share))


def noised(**shares):
    noise = Noise(**shares)
    return [noise(number, TEXT) for number in range(COUNT)]


def test_without_shares_nothing_changes():
    assert noised() == [TEXT] * COUNT
    assert Noise()(1, "  two  blanks\t") == "  two  blanks\t"


def test_shares_of_sentences():
    found = Counter(noised(lower_case=0.2, upper_case=0.1))
    assert set(found) == {TEXT, TEXT.lower(), TEXT.upper()}
    assert within(found[TEXT.lower()], COUNT, 0.2) and within(found[TEXT.upper()], COUNT, 0.1)
    found = Counter(noised(no_accents=0.3))
    assert set(found) == {TEXT, "Der mude Hund lauft heute schnell durch unseren großen Garten"}
    assert within(found[TEXT], COUNT, 0.7)
    assert set(noised(lower_case=0.5, upper_case=0.5)) == {TEXT.lower(), TEXT.upper()}


def typos_of(word):
    """All that one typo makes of a word of letters."""
    swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)}
    left_out = {word[:i] + word[i + 1 :] for i in range(len(word))}
    doubled = {word[:i] + word[i] + word[i:] for i in range(len(word))}
    return (swapped | left_out | doubled) - {word}


def test_typos_are_one_in_so_many_words_and_nothing_else():
    changed, kinds = 0, Counter()
    for line in noised(typos=0.15):
        for word, typed in zip(WORDS, line.split(), strict=True):
            changed += word != typed
            kinds[len(typed) - len(word)] += word != typed
            assert typed == word or typed in typos_of(word)
    assert within(changed, COUNT * len(WORDS), 0.15)
    for kind in (-1, 0, 1):
        # Where a doubled letter would be swapped with itself, as in "schnell", one is left out.
        assert 0.25 < kinds[kind] / changed < 0.45
    assert Noise(typos=1)(1, "I am 42, é, no1 ok!") == "I am 42, é, no1 ok!"
    assert Noise(typos=1)(1, " a  Hund\t") != " a  Hund\t" and Noise(typos=1)(1, " a  Hund\t").startswith(" a  ")


def test_of_the_words_of_a_perturbed_set_a_tenth_has_a_typo():
    from tf_transformer.evaluation.perturbation import PERTURBATIONS

    lines = [PERTURBATIONS["typos"](number, TEXT).split() for number in range(COUNT)]
    changed = sum(word != typed for line in lines for word, typed in zip(WORDS, line, strict=True))
    assert within(changed, COUNT * len(WORDS), 0.1)


def test_words_dropped_filled_and_moved_as_often_as_told():
    lines = [line.split() for line in noised(drop=0.1, fill=0.1, swap=3)]
    assert within(sum(map(len, lines)), COUNT * len(WORDS), 0.9)
    assert within(sum(line.count(FILLER) for line in lines), sum(map(len, lines)), 0.1)
    assert all(
        set(line) <= {*WORDS, FILLER} and max(Counter(line).values()) <= line.count(FILLER) + 1 for line in lines
    )
    assert all(Noise(drop=1, seed=seed)(1, TEXT) in WORDS for seed in range(50))
    assert Noise(drop=1, fill=1, swap=3)(1, "") == ""


def test_no_word_moves_further_than_told():
    moved = Counter()
    for line in noised(swap=3):
        assert sorted(line.split()) == sorted(WORDS)
        moved.update(line.split().index(word) - place for place, word in enumerate(WORDS))
    assert set(moved) == set(range(-3, 4))
    assert moved[0] < 0.5 * moved.total()


def test_the_same_bits_in_another_process_and_in_any_order():
    shares = {"lower_case": 0.2, "no_accents": 0.5, "typos": 0.3, "drop": 0.1, "fill": 0.1, "swap": 3}
    noise = Noise(**shares, seed=5)
    backwards = [noise(number, TEXT) for number in reversed(range(50))][::-1]
    program = (
        "from tf_transformer.data.noise import Noise\n"
        f"noise = Noise(**{shares}, seed=5)\nfor number in range(50): print(noise(number, {TEXT!r}))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", timeout=120)
    assert run.stdout.splitlines() == backwards
    assert backwards != [Noise(**shares, seed=6)(number, TEXT) for number in range(50)]
    assert len(set(backwards)) > 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Café ñandú", "Cafe nandu"), ("ёй Ή", "еи Η"), ("が 한글 हिन्दी", "が 한글 हिन्दी"), ("ß ø æ ł", "ß ø æ ł")],
)
def test_accents_are_those_of_latin_greek_and_cyrillic(text, expected):
    assert without_accents(text) == expected


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ({"typos": 1.5}, "typos is 1.5; it must be from 0 to 1"),
        ({"drop": -0.1}, "drop is -0.1; it must be from 0 to 1"),
        ({"fill": float("nan")}, "fill is nan"),
        ({"swap": -1}, "swap is -1; it must be at least 0"),
        (
            {"lower_case": 0.6, "upper_case": 0.5},
            "lower_case is 0.6; together with upper_case, 0.5, it must be at most 1",
        ),
    ],
    ids=str,
)
def test_shares_that_can_not_be(shares, told):
    with pytest.raises(UserError, match=told):
        Noise(**shares)
