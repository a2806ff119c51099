"""Penn brackets out of files: streamed, however they are laid out, and every mistake told in one line."""

import gzip
import itertools
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.mistakes import refused
from tests.parsing.random_trees import trees, untagged
from tf_transformer.errors import UserError
from tf_transformer.parsing import Leaf, Tree, TreeFiles, read_tree

DOGS = "(S (NP (NNS Dogs)) (VP (VBP bark)))"
CATS = "( (S (NP-SBJ (NNS Cats)) (VP (VBP sleep) (PP (-LRB- -LRB-) (IN in)))) )"


def file_of(folder: Path, content: bytes | str, name: str = "trees.mrg") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def told(make) -> str:
    """The message of the UserError that making or reading trees raises."""
    return refused(lambda: list(make()))


def test_trees_are_what_was_written():
    expected = Tree("S", [Tree("NP", [Leaf("NNS", "Dogs")]), Tree("VP", [Leaf("VBP", "bark")])])
    assert read_tree(DOGS) == expected
    assert read_tree(DOGS) != read_tree(DOGS.replace("VP", "NP"))
    assert read_tree(CATS).label == ""
    assert read_tree(CATS).leaves()[2:] == [Leaf("-LRB-", "-LRB-"), Leaf("IN", "in")]


def test_a_leaf_of_several_words_is_several_leaves():
    for blank in " ", "\u200a", "\u2009", "\u00a0":
        tree = read_tree(f"(NP (DT a) (NN {blank}Xpd{blank}TTD) (NN x))")
        assert tree.leaves() == [("DT", "a"), ("NN", "Xpd"), ("NN", "TTD"), ("NN", "x")]


@settings(deadline=None)
@given(trees)
def test_what_is_printed_is_read_again(tree):
    assert read_tree(str(tree)) == tree
    assert hash(read_tree(str(tree))) == hash(tree)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_any_layout_again_and_again(tmp_path, packed, ending):
    spread = CATS.replace(" (", "\n   (").replace("\n", ending)
    text = "\ufeff" + ending.join([DOGS, "", spread, f"  {DOGS}{CATS}{DOGS}", ""])
    content = text.encode()
    source = TreeFiles(file_of(tmp_path, gzip.compress(content) if packed else content))
    expected = [read_tree(each) for each in (DOGS, CATS, DOGS, CATS, DOGS)]
    assert list(source) == expected
    assert list(source) == expected


def test_files_come_one_after_the_other_and_are_streamed(tmp_path):
    first = file_of(tmp_path, DOGS, "first")
    second = file_of(tmp_path, CATS + "\n" + DOGS + "\nspoilt", "second")
    read = [str(tree) for tree in itertools.islice(TreeFiles([first, str(second)]), 3)]
    assert [tree.split("NNS ")[1][:4] for tree in read] == ["Dogs", "Cats", "Dogs"]


def test_a_file_s_size_and_time_of_change_tell_it_from_another(tmp_path):
    path = file_of(tmp_path, DOGS)
    os.utime(path, ns=(1, 1))
    states = [TreeFiles(path).state(), TreeFiles(path).state()]
    os.utime(path, ns=(2, 2))
    states.append(TreeFiles(path).state())
    file_of(tmp_path, DOGS + CATS)
    os.utime(path, ns=(2, 2))
    states.append(TreeFiles(path).state())
    assert states[0] == states[1] and states[1] != states[2] != states[3]


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (f"{DOGS}\n{DOGS[:-1]}\n{CATS}\n", 2, "1 brackets of the tree are not closed"),
        (f"{DOGS}\n\n{CATS})\n", 3, "a closing bracket"),
        (f"{DOGS}\nDogs bark.\n", 2, "text, 'Dogs'"),
        ("The dog barks (loudly).\n", 1, "text, 'The'"),
        (f"{DOGS}\n( (S\n (NP )\n (VP (VB go))))", 2, "a bracket (NP) without words"),
        ("\n(S (NP))", 2, "a bracket (NP) without words"),
        (f"{DOGS} ()", 1, "a bracket () without words"),
        (f"{DOGS}\n(S the (NN dog))", 2, "'the' in the tree is next to brackets"),
        (f"{DOGS}\n(S\n(NP (NN dog) barks))", 2, "'barks' in the tree is next to brackets"),
        (DOGS.encode() + b"\n(S (NN caf\xe9))\n", 2, "not valid UTF-8 at byte 11 (0xe9)"),
        (f"{DOGS}\n(S {DOGS * 30_000}", 2, "not closed within 100,000"),
    ],
)
def test_damage_is_told_with_file_and_line(tmp_path, content, line, what):
    path = file_of(tmp_path, content)
    message = told(lambda: TreeFiles(path))
    assert message.startswith(f"{path}, line {line}: ") and what in message and len(message) < 400


def test_a_word_without_a_tag_is_told_where_tags_are_needed(tmp_path):
    path = file_of(tmp_path, f"{DOGS}\n(S ( bark))\n")
    assert len(list(TreeFiles(path))) == 2
    message = told(lambda: TreeFiles(path, tags=True))
    assert message.startswith(f"{path}, line 2: 'bark' in the tree has no tag: give each word a tag")


def test_files_that_cannot_be_read(tmp_path):
    assert f"no trees in {tmp_path / 'empty'}" in told(lambda: TreeFiles(file_of(tmp_path, "\n \n", "empty")))
    with pytest.raises(UserError, match=re.escape(f"{tmp_path / 'none'} does not exist")):
        TreeFiles(tmp_path / "none")  # before anything is read
    cut = file_of(tmp_path, gzip.compress(DOGS.encode() * 100)[:-9], "cut.gz")
    message = told(lambda: TreeFiles(cut))
    assert f"{cut}: incomplete or damaged gzip file" in message and "skip" not in message
    assert "at least one" in told(lambda: TreeFiles([]))


@pytest.mark.parametrize("text", ["", f"{DOGS} {DOGS}", "Dogs bark", "(S (NP", ")"])
def test_one_tree_is_asked_for(text):
    told(lambda: read_tree(text))


def test_deep_trees_need_no_deep_stack():
    text = "(S " * 20_000 + "(NN dog)" + ")" * 20_000
    tree = read_tree(text)
    assert str(tree) == text
    assert tree == read_tree(text) and tree.words() == ["dog"]
    assert untagged(tree) != tree
