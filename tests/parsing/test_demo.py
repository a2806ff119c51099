"""The built-in treebank."""

import hashlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tf_transformer.data import demo_lexicon
from tf_transformer.errors import UserError
from tf_transformer.parsing import clean, linearise
from tf_transformer.parsing.demo import DemoTrees, _Writer

SPLITS = ("train", "validation", "test")


def test_sizes_and_no_sentence_twice():
    sentences = [" ".join(tree.words()) for split in SPLITS for tree in DemoTrees(split)]
    assert [len(DemoTrees(split)) for split in SPLITS] == [5000, 500, 500]
    assert len(sentences) == len(set(sentences)) == 6000
    assert max(len(sentence.split()) for sentence in sentences) <= 30


def test_every_word_and_label_is_met_often_in_training():
    known = Counter(word for tree in DemoTrees("train") for word in tree.words() + linearise(tree))
    for split in SPLITS[1:]:
        assert {w for tree in DemoTrees(split) for w in tree.words() + linearise(tree) if known[w] < 3} == set()


def test_trees_are_clean_and_constituents_are_what_they_are_called():
    heads = {"VP": ("VBZ", "VBP", "VBN", "VB", "MD"), "PP": ("IN",), "ADJP": ("JJ",), "WHNP": ("WDT",)}
    for tree in DemoTrees("test"):
        assert clean(tree) == tree and tree.label == "S"
        for kind, node in tree.walk():
            if kind == "open" and node.label in heads:
                assert node.children[0].tag in heads[node.label]


def test_the_words_tell_the_tree():
    """Where each constituent begins and ends follows from the words' kinds and the prepositions."""
    writer, found = _Writer(), defaultdict(set)
    for _ in range(10_000):
        tree = writer.sentence()
        kinds = tuple(leaf.word.lower() if leaf.tag == "IN" else leaf.tag for leaf in tree.leaves())
        found[kinds].add(tuple(linearise(tree)))
    assert len(found) < 9_000  # many do come again
    assert not [trees for trees in found.values() if len(trees) > 1]


def test_verbs_agree_with_their_subjects():
    """Of the sentences that begin with a determiner, a noun and a verb."""
    plural = {noun.english_plural for noun in demo_lexicon.NOUNS}
    seen = Counter()
    for tree in DemoTrees("train"):
        for first, second in pairwise(tree.leaves()[1:3]):
            if first.tag in ("NN", "NNS") and second.tag in ("VBZ", "VBP"):
                assert (first.word in plural) == (first.tag == "NNS")
                assert (first.tag == "NNS") == (second.tag == "VBP"), str(tree)
                seen[second.tag] += 1
    assert min(seen["VBZ"], seen["VBP"]) > 100


FINGERPRINT = """
import hashlib, sys
from tf_transformer.parsing.demo import DemoTrees
digest = hashlib.sha256()
for split in ("train", "validation", "test"):
    for tree in DemoTrees(split):
        digest.update(f"{tree}\\n".encode())
assert "tensorflow" not in sys.modules
print(digest.hexdigest())
"""


def test_the_same_in_every_process_without_tensorflow():
    digest = hashlib.sha256()
    for split in SPLITS:
        for tree in DemoTrees(split):
            digest.update(f"{tree}\n".encode())
    # This process has a random seed.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    process = subprocess.run(
        [sys.executable, "-c", FINGERPRINT], env=environment, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == digest.hexdigest()


def test_an_unknown_split_is_refused():
    with pytest.raises(UserError, match="train, validation, test"):
        DemoTrees("dev")
