"""Pairs with placeholders, and the words that they stand for."""

import random
import re
from collections import Counter
from itertools import product

import pytest
import regex

from tf_transformer.data.demo import DemoSource
from tf_transformer.data.placeholders import PlaceholderPairs
from tf_transformer.data.word_pairs import FEWEST, LARGEST_SHARE, LEAST, WORD, learn_word_pairs
from tf_transformer.tokenizers.placeholders import PLACEHOLDERS

PLACEHOLDER = re.compile("|".join(PLACEHOLDERS))


@pytest.fixture(scope="module")
def pairs():
    generator = random.Random(0)
    return generator.sample(list(DemoSource("train")), 800)


@pytest.fixture(scope="module")
def changed(pairs):
    return list(PlaceholderPairs(pairs))


def test_both_sides_have_the_same_placeholders_each_once(changed):
    used = Counter()
    for source, target in changed:
        found = [Counter(PLACEHOLDER.findall(text)) for text in (source, target)]
        assert found[0] == found[1]
        assert set(found[0].values()) == {1}
        used += found[0]
    assert set(used) == set(PLACEHOLDERS)
    assert max(used.values()) < 2 * min(used.values())  # all are learned alike


def test_of_two_words_for_one_of_the_target_one_is_replaced():
    """As "cell" is translated by "Handy", which the source has too."""
    both = [("Handy, cell", "das Handy")] * 20
    pairs = [*both, *[("my cell", "mein Handy")] * 10, *[("my rain", "das mein Regen")] * 2000]
    assert learn_word_pairs(pairs) == {"cell": "Handy"}
    for source, target in list(PlaceholderPairs(pairs))[: len(both)]:
        assert sorted(PLACEHOLDER.findall(source)) == sorted(PLACEHOLDER.findall(target))
        assert re.fullmatch(r"das( Handy)?( ⟦\d⟧)*", target)


def test_the_rest_stays(pairs, changed):
    """A placeholder stands for one word, or for nothing with a blank before it; around them a pair is as it was."""
    around = re.compile(f" ?(?:{PLACEHOLDER.pattern})")
    for before, after in zip(pairs, changed, strict=True):
        for text, with_placeholders in zip(before, after, strict=True):
            assert re.fullmatch(r"(?: ?\w+)?".join(map(re.escape, around.split(with_placeholders))), text)


def test_words_that_translate_each_other_are_replaced_together(pairs, changed):
    """Where exactly one word is gone on each side, it is a name that both share or a pair of the lexicon."""
    lexicon = learn_word_pairs(pairs)
    replaced = set()
    for before, after in zip(pairs, changed, strict=True):
        words = [Counter(re.findall(r"\w+", text)) for text in before]
        left = [Counter(re.findall(r"\w+", PLACEHOLDER.sub("", text))) for text in after]
        gone = [list((was - there).elements()) for was, there in zip(words, left, strict=True)]
        if list(map(len, gone)) == [1, 1]:
            replaced.add((gone[0][0], gone[1][0]))
    assert len(replaced) > 20
    assert all(source == target or lexicon[source] == target for source, target in replaced)


def test_is_the_same_each_time(pairs, changed):
    assert list(PlaceholderPairs(pairs)) == changed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("वह अमेरिका में रहता है।", ["वह", "अमेरिका", "में", "रहता", "है"]),
        ("Tom saw Mu\u0308ller's cafe\u0301.", ["Tom", "saw", "Mu\u0308ller's", "cafe\u0301"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("10² ½ H₂O, semi-final 3.5", ["10²", "½", "H₂O", "semi-final", "3.5"]),
        ("❤\ufe0f 👩\u200d💻 1\ufe0f\u20e3", ["1\ufe0f\u20e3"]),
    ],
)
def test_marks_belong_to_their_word(text, words):
    assert WORD.findall(text) == words
    for source, _ in PlaceholderPairs([(text, text)] * 20):  # in other places each time
        assert not regex.search(r"⟧[\p{M}\u200c\u200d]", source)


def test_a_short_word_with_marks_is_no_name_as_one_without_is_none():
    for word in "de", "में", "du\u0308":
        assert all(source.startswith(f"{word} ") for source, _ in PlaceholderPairs([(word, word)] * 20))


def test_sides_without_text_stay():
    pairs = [("", "nichts"), ("nothing", " "), ("Tom", "Tom")]
    assert list(PlaceholderPairs(pairs))[:2] == pairs[:2]


def test_word_pairs_by_definition(pairs):
    """Dice's coefficient of all words, from the counts of sentences that have them."""
    sentences = [tuple(set(re.findall(r"\w+", text)) for text in pair) for pair in pairs]
    allowed = []
    for side in (0, 1):
        counts = Counter(word for sentence in sentences for word in sentence[side])
        allowed.append({w: c for w, c in counts.items() if FEWEST <= c <= LARGEST_SHARE * len(sentences)})
    dice = {}
    for s, t in product(*allowed):
        both = sum(s in source and t in target for source, target in sentences)
        dice[s, t] = 2 * both / (allowed[0][s] + allowed[1][t])
    found = learn_word_pairs(pairs)
    assert len(found) > 10
    for s, t in found.items():
        assert dice[s, t] >= LEAST
        assert dice[s, t] == max(dice[s, other] for other in allowed[1])
        assert dice[s, t] == max(dice[other, t] for other in allowed[0])
