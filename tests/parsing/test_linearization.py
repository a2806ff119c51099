"""Trees to tokens and back."""

import pytest
from hypothesis import given, settings

from tests.parsing.random_trees import trees
from tf_transformer.errors import UserError
from tf_transformer.parsing import TreeFiles, build_tree, clean, linearise, mend, read_tree


def test_the_example_of_the_paper():
    tree = read_tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
    assert " ".join(linearise(tree)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"


def test_a_word_without_a_tag_is_refused_where_tags_are_written():
    tree = read_tree("(S (NP (DT a) ( dog)))")
    assert linearise(tree) == ["(S", "(NP", "XX", "XX", ")NP", ")S"]
    with pytest.raises(UserError, match="the word 'dog' in .* has no tag: give each word one"):
        linearise(tree, tags=True)


def untagged(tree):
    return tree.with_tags(["XX"] * len(tree.words()))


@settings(deadline=None)
@given(trees)
def test_there_and_back(tree):
    assert build_tree(linearise(tree), tree.words()) == untagged(tree)
    assert build_tree(linearise(tree, tags=True), tree.words()) == tree


@pytest.mark.parametrize(
    ("file", "number"), [pytest.param("craft_train.mrg", 18_951, marks=pytest.mark.thorough), ("craft_dev.mrg", 2_780)]
)
def test_there_and_back_on_all_of_craft(craft, file, number):
    count = 0
    for tree in map(clean, TreeFiles(craft / file)):
        count += 1
        tokens, words = linearise(tree), tree.words()
        opening = sum(token.startswith("(") for token in tokens)
        assert len(tokens) == len(words) + 2 * opening
        same = untagged(tree)
        assert build_tree(tokens, words) == same
        assert mend(tokens, words) == (same, False)
        assert build_tree(linearise(tree, tags=True), words) == tree
    assert count == number


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
def test_what_is_no_tree_over_two_words_is_refused(tokens):
    with pytest.raises(UserError, match="over 2 words"):
        build_tree(tokens.split(), ["a", "dog"])


@pytest.mark.parametrize("text", ["( (S (NN a)))", "(S ( (NN a) (NN b)))"])
def test_an_unlabelled_constituent_is_refused(text):
    tree = read_tree(f"(S {text})")
    with pytest.raises(UserError, match="without label"):
        linearise(tree)
