"""Whatever is written becomes a tree over exactly the words."""

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.parsing.random_trees import trees, untagged
from tf_transformer.errors import UserError
from tf_transformer.parsing import linearise, mend

WORDS = ["w1", "w2", "w3", "w4"]

# What was written over at most four words, and the tree by the rule, worked out by hand.
BY_HAND = {
    "nothing": ("", "(TOP w1 w2 w3 w4)"),
    "words alone": ("XX XX XX XX", "(TOP w1 w2 w3 w4)"),
    "closing brackets are missing at the end": ("(S (NP XX )NP (VP XX (NP XX XX", "(S (NP w1) (VP w2 (NP w3 w4)))"),
    "one is missing inside": ("(S (NP XX XX (VP XX XX )VP )S", "(S (NP w1 w2 (VP w3 w4)))"),
    "one inside is closed by the outer one": ("(S (VP XX (NP XX )VP XX XX )S", "(S (VP w1 (NP w2)) w3 w4)"),
    "the innermost of the label is closed": ("(S (S XX (NP XX )S XX XX )S", "(S (S w1 (NP w2)) w3 w4)"),
    "opening brackets are missing at the beginning": (
        "XX )NP (VP XX XX XX )VP )S",
        "(S (NP w1) (VP w2 w3 w4))",
    ),
    "one is missing inside another": ("(S (NP XX XX )NP XX )PP XX )S", "(S (PP (NP w1 w2) w3) w4)"),
    "too many words": ("(S (NP XX XX )NP (VP XX XX XX )VP (ADVP XX )ADVP )S", "(S (NP w1 w2) (VP w3 w4))"),
    "too few words": ("(S (NP XX )NP (VP XX )VP )S", "(S (NP w1) (VP w2) w3 w4)"),
    "too few words and brackets": ("(S (NP XX )NP (VP XX", "(S (NP w1) (VP w2) w3 w4)"),
    "brackets alone": ("(S (NP (NP (NP", "(S w1 w2 w3 w4)"),
    "several roots": ("(S XX )S (NP XX )NP XX XX", "(TOP (S w1) (NP w2) w3 w4)"),
    "words before and after the root": ("XX (S XX (NP XX )NP )S XX", "(S w1 w2 (NP w3) w4)"),
    "constituents without words": ("(S (NP )NP (VP XX XX XX XX (NP (PP )PP )NP )VP )S", "(S (VP w1 w2 w3 w4))"),
    "a closing bracket before all": (")S )NP (S XX XX XX XX )S", "(S w1 w2 w3 w4)"),
    "no tokens of a tree": ("(S [UNK] ( ) XX [the] XX XX ((S XX )S", "(S w1 w2 w3 w4)"),
    "the end, and then more": ("(S XX XX XX XX )S )S (NP XX )NP XX", "(S (S w1 w2 w3 w4))"),
}


def is_word(token: str) -> bool:
    return bool(token) and not set(token) & set("()[]")


def is_well_formed(tokens: list[str], words: int) -> bool:
    """By rewriting: innermost constituents are taken away until one is left."""
    text = " " + " ".join(tokens) + " "
    if sum(map(is_word, text.split())) != words or any(" " in token or not token for token in tokens):
        return False
    for label in {token[1:] for token in tokens if token[0] in "()" and len(token) > 1}:
        if set(label) & set("() "):
            return False
    items = list(tokens)
    while True:
        end = next((place for place, token in enumerate(items) if token[0] == ")"), None)
        if end is None:
            return items == ["*"]
        token = items[end]
        start = end - 1
        while start >= 0 and is_word(items[start]):
            start -= 1
        if start < 0 or start == end - 1 or len(token) == 1 or items[start] != "(" + token[1:]:
            return False
        items[start : end + 1] = ["*"]


token = st.sampled_from(["(S", ")S", "(NP", ")NP", "(VP", ")VP", "XX", "XX", "XX"]) | st.sampled_from(
    ["[UNK]", "", "(", ")", "XXX", "(A(", "( B", "))", "(XX", ")XX"]
)


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    tokens, expected = BY_HAND[name]
    tree, mended = mend(tokens.split(), WORDS)
    assert str(tree).replace("(XX ", "").replace(")", "") == expected.replace(")", "")
    assert mended


@settings(deadline=None)
@given(st.lists(token, max_size=60), st.integers(1, 12))
@example(["XX"], 1)
@example(["(S", "XX", ")S"], 1)
def test_anything_becomes_a_tree_over_exactly_the_words(tokens, number):
    words = [f"w{place}" for place in range(number)]
    tree, mended = mend(tokens, words)
    assert tree.words() == words
    tags = [token for token in tokens if is_word(token)][:number]
    tags += ["XX"] * (number - len(tags))  # of the words that no token took
    assert [leaf.tag for leaf in tree.leaves()] == tags
    written = linearise(tree, tags=True)
    assert is_well_formed(written, number)
    assert mended == (not is_well_formed(tokens, number))
    assert mended or written == tokens
    assert mend(written, words) == (tree, False)


@settings(deadline=None)
@given(trees, st.data())
def test_a_lost_bracket_costs_no_other_constituent(tree, data):
    """Whether it opens or closes one; of a closing one not even its own constituent."""
    tokens, words = linearise(tree), tree.words()
    brackets = [place for place, token in enumerate(tokens) if token != "XX"]
    lost = data.draw(st.sampled_from(brackets))
    mended = mend(tokens[:lost] + tokens[lost + 1 :], words)
    assert mended.mended

    def labels(sequence):
        return Counter(each for each in sequence if each.startswith("("))

    missing = labels(tokens) - labels(linearise(mended.tree))
    assert missing.total() <= tokens[lost].startswith("(")


@settings(deadline=None)
@given(trees)
def test_a_well_formed_tree_is_left_as_it_is(tree):
    assert mend(linearise(tree, tags=True), tree.words()) == (tree, False)
    assert mend(linearise(tree), tree.words()) == (untagged(tree), False)


@pytest.mark.parametrize(
    "tokens",
    [
        "",
        "XX XX",
        "(S XX )S",
        "(S XX XX XX )S",
        "(S XX XX )NP",
        "(S XX XX",
        "(S XX XX )S )S",
        "(S XX XX )S (S",
        "(S XX )S (S XX )S",
        "(S (NP )NP XX XX )S",
        "(S XX [UNK] XX )S",
        "( XX XX )",
        ")S XX XX (S",
    ],
)
def test_what_is_no_tree_over_two_words_is_told_as_mended(tokens):
    tree, mended = mend(tokens.split(), ["a", "dog"])
    assert mended and tree.words() == ["a", "dog"]


@pytest.mark.parametrize("tokens", [["(S"] * 20_000, [")S"] * 20_000, ["(S", "XX"] * 20_000, ["XX", ")S"] * 20_000])
def test_a_model_that_repeats_itself(tokens):
    tree, mended = mend(tokens, WORDS)
    assert tree.words() == WORDS and mended
    assert mend(linearise(tree), WORDS) == (tree, False)


def test_no_words():
    with pytest.raises(UserError, match="at least one word"):
        mend(["(S", ")S"], [])
