"""Cleaned trees, against what was cleaned by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsing.random_trees import trees
from tf_transformer.parsing import Tree, clean, read_tree

BY_HAND = {
    "the unlabelled root is no constituent": ("( (S (NP (NN dog))))", "(S (NP (NN dog)))"),
    "nor is TOP": ("(TOP (S (NP (NN dog))))", "(S (NP (NN dog)))"),
    "function tags and indices": (
        "(S (NP-SBJ-1 (NN a)) (NP=2 (NN b)) (PP-LOC-PRD=3 (IN c)) (NP-SBJ-1=2 (NN d)))",
        "(S (NP (NN a)) (NP (NN b)) (PP (IN c)) (NP (NN d)))",
    ),
    "brackets stay": (
        "(PRN (-LRB- -LRB-) (NML-1 (NN a)) (-RRB- -RRB-))",
        "(PRN (-LRB- -LRB-) (NML (NN a)) (-RRB- -RRB-))",
    ),
    "empty elements and what they leave empty": (
        "(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (-NONE- 0) (S (NP (-NONE- *T*-1))))))",
        "(S (VP (VB go)))",
    ),
    "a unary chain that empties leave stays": ("(S (S (NP (-NONE- *)) (VP (VB go))))", "(S (S (VP (VB go))))"),
    "a word of its own": ("( (NN Abstract))", "(TOP (NN Abstract))"),
    "several trees": ("( (S (NN a)) (NP-1 (NN b)))", "(TOP (S (NN a)) (NP (NN b)))"),
    "a tree and a word": ("( (S (NN a)) (. .))", "(TOP (S (NN a)) (. .))"),
    "one of two trees is empty": ("( (S (-NONE- *)) (NP-1 (NN b)))", "(NP (NN b))"),
    "a bracket without a label inside": ("(S ( (NP (NN a)) (VP (VB b))))", "(S (NP (NN a)) (VP (VB b)))"),
    "tags stay": ("(NP (-LRB- x) (PRP$ her) (NN-1 y) (: -))", "(NP (-LRB- x) (PRP$ her) (NN-1 y) (: -))"),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_by_hand(name):
    raw, cleaned = BY_HAND[name]
    assert str(clean(read_tree(raw))) == cleaned
    assert str(clean(read_tree(cleaned))) == cleaned


def test_nothing_is_left_of_empty_elements_alone():
    assert clean(read_tree("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))")) is None


@settings(deadline=None)
@given(trees, st.sampled_from(["", "TOP"]))
def test_a_clean_tree_stays_and_an_unlabelled_root_goes(tree, root):
    assert clean(tree) == tree
    assert clean(Tree(root, [tree])) == tree
