"""Trees to tokens and back."""

import pytest

from tests.parsing.random_trees import untagged
from tf_transformer.errors import UserError
from tf_transformer.parsing import TreeFiles, clean, linearise, mend, read_tree


def test_the_example_of_the_paper():
    tree = read_tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
    assert " ".join(linearise(tree)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"


def test_a_word_without_a_tag_is_refused_where_tags_are_written():
    tree = read_tree("(S (NP (DT a) ( dog)))")
    assert linearise(tree) == ["(S", "(NP", "XX", "XX", ")NP", ")S"]
    with pytest.raises(UserError, match="the word 'dog' in .* has no tag: give each word a tag"):
        linearise(tree, tags=True)


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
        assert mend(tokens, words) == (untagged(tree), False)
        assert mend(linearise(tree, tags=True), words) == (tree, False)
    assert count == number


@pytest.mark.parametrize("text", ["( (S (NN a)))", "(S ( (NN a) (NN b)))"])
def test_an_unlabelled_constituent_is_refused(text):
    tree = read_tree(f"(S {text})")
    with pytest.raises(UserError, match="without a label"):
        linearise(tree)
