"""Trees drawn: what is drawn is the tree, whatever its words, and of a size that can be looked at."""

import re
import warnings
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from matplotlib.image import imread

from tests.parsing.random_trees import trees, untagged
from tf_transformer.parsing import Leaf, Tree, draw_text, mend, plot_tree, read_tree, write_page

TREE = read_tree("(S (NP (DT The) (NN dog)) (VP (VBZ sees) (NP (NP (PRP it)))) (. .))")

DRAWN = """\
S
├── NP  The/DT dog/NN
├── VP
│   ├── sees/VBZ
│   └── NP
│       └── NP  it/PRP
└── ./."""


def read_back(text: str) -> Tree:
    """The tree of a drawing, by how far its lines are indented."""
    path = [("", [])]

    def close():
        label, children = path.pop()
        path[-1][1].append(Tree(label, children))

    for line in text.split("\n"):
        before, content = re.fullmatch(r"([│├└─ ]*)(.*)", line).groups()
        while len(path) - 1 > len(before) // 4:
            close()
        label, _, words = content.partition("  ")
        if words:
            path[-1][1].append(Tree(label, [leaf_of(word) for word in words.split()]))
        elif "/" in content:
            path[-1][1].append(leaf_of(content))
        else:
            path.append((label, []))
    while len(path) > 1:
        close()
    return path[0][1][0]


def leaf_of(text: str) -> Leaf:
    word, _, tag = text.rpartition("/")
    return Leaf(tag, word)


def test_text_by_hand():
    assert draw_text(TREE) == DRAWN
    assert draw_text(untagged(TREE)) == re.sub(r"/\S+", "", DRAWN)


@settings(deadline=None)
@given(trees)
def test_text_holds_the_tree(tree):
    assert read_back(draw_text(tree)) == tree


def long_tree(words: int) -> Tree:
    """As deep as it is long would be no sentence: every fifth word nests."""
    tokens = [token for number in range(words) for token in (["(NP", "XX"] if number % 5 == 0 else ["XX"])]
    return mend(tokens, [f"word{number}" for number in range(words)]).tree


def test_a_picture_of_a_long_sentence_can_be_looked_at(tmp_path):
    height, width, _ = imread(plot_tree(long_tree(60), tmp_path / "tree.png")).shape
    assert width < 2500 and height < 2500
    small = imread(plot_tree(TREE, tmp_path / "small.png"))
    assert small.shape[0] < height / 5 and small.min() < 0.3  # something dark is drawn


def test_a_picture_of_any_characters(tmp_path):
    tree = read_tree("(NP (NN 강) (NN $a_b$) (NN {x}) (NN \U0001f9ea) (NN \u0430\u0301\x07))")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_tree(tree, tmp_path / "characters.png")


def test_a_picture_has_no_more_dots_than_can_be_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr("tf_transformer.parsing.drawing._MOST_DOTS", 1_000)
    deep = mend(["(NP"] * 60 + ["XX"], ["word"]).tree
    assert 990 <= max(imread(plot_tree(deep, tmp_path / "deep.png")).shape) <= 1_001


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.S)]


@pytest.mark.parametrize("tree", [TREE, long_tree(60)])
def test_a_page_holds_the_trees(tmp_path, tree):
    page = write_page(tmp_path / "page.html", [TREE, tree]).read_text(encoding="utf-8")
    assert "<title>Trees</title>" in page
    assert not re.search(r"https?:|<script|src=", page)
    _, svg = svgs(page)
    texts = svg.findall("text")
    labels = [node.label for kind, node in tree.walk() if kind == "open"]
    assert [text.text for text in texts if text.get("class") == "label"] == labels
    assert [text.text for text in texts if text.get("class") == "word"] == tree.words()
    rows = [float(text.get("y")) for text in texts if text.get("class") == "word"]
    assert rows == sorted(set(rows))
    assert svg.find("path").get("d").count("M") == len(texts) - 1  # a line to each but the root
    assert max(float(text.get("x")) for text in texts) < float(svg.get("width"))
    assert rows[-1] < float(svg.get("height"))


def test_a_page_of_words_that_look_like_html(tmp_path):
    tree = Tree("NP", [Leaf("<b>", "</svg><script>"), Leaf("NN", "&amp;")])
    (svg,) = svgs(write_page(tmp_path / "page.html", [tree]).read_text(encoding="utf-8"))
    assert [text.text for text in svg.findall("text")] == ["NP", "</svg><script>", "&amp;"]
