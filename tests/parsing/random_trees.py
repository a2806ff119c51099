"""Trees by chance, for properties, and copies of trees."""

import random

from hypothesis import strategies as st

from tf_transformer.parsing import Leaf, Tree

LABELS = ["S", "NP", "VP", "ADVP", "PRT"]
TAGS = ["NN", "DT", "-LRB-", ",", ".", ":"]

leaves = st.builds(Leaf, st.sampled_from(TAGS), st.sampled_from(["dog", "-LRB-", "é", "'s", "."]))


def _constituents(children: st.SearchStrategy) -> st.SearchStrategy:
    return st.builds(Tree, st.sampled_from(LABELS), st.lists(children, min_size=1, max_size=4))


trees = _constituents(st.recursive(leaves, _constituents, max_leaves=20))


def untagged(tree: Tree) -> Tree:
    """The same constituents over the same words, each with the tag `XX`."""
    path: list[list[Tree | Leaf]] = [[]]
    for kind, node in tree.walk():
        if kind == "open":
            path.append([])
        elif kind == "leaf":
            path[-1].append(Leaf("XX", node.word))
        else:
            children = path.pop()
            path[-1].append(Tree(node.label, children))
    return path[0][0]


def damage(tree: Tree, rng: random.Random) -> Tree:
    """A copy of a tree in which some constituents have another label, are gone, are new, or are moved."""
    spans = []  # (start, end, label), parents before their children
    starts = []
    words = 0
    for kind, node in tree.walk():
        if kind == "open":
            starts.append(len(spans))
            spans.append([words, None, node.label])
        elif kind == "leaf":
            words += 1
        else:
            spans[starts.pop()][1] = words
    root, *inner = spans
    damaged = []
    for start, end, label in inner:
        chance = rng.random()
        if chance < 0.06:
            label = rng.choice([*LABELS, "TOP"])
        elif chance < 0.12:
            continue
        elif chance < 0.24:
            start, end = max(0, start - rng.randrange(3)), min(words, end + rng.randrange(4))
        elif chance < 0.28:
            damaged.append((start, end, rng.choice(LABELS)))
        damaged.append((start, end, label))
    if rng.random() < 0.3:
        start = rng.randrange(words)
        damaged.append((start, rng.randrange(start, words) + 1, "NP"))
    kept = []
    for span in damaged:  # one that crosses another can't be in a tree with it
        if all(span[1] <= s or e <= span[0] or s <= span[0] <= span[1] <= e or span[0] <= s <= e <= span[1]
               for s, e, _ in kept):  # fmt: skip
            kept.append(span)
    return _tree_of(sorted(kept, key=lambda span: (span[0], -span[1])), tuple(root), tree.leaves())


def _tree_of(spans: list[tuple[int, int, str]], root: tuple[int, int, str], words: list[Leaf]) -> Tree:
    open_spans = [(root[1], root[2], [])]
    waiting = list(reversed(spans))
    for place in range(len(words) + 1):
        while len(open_spans) > 1 and open_spans[-1][0] == place:
            _, label, children = open_spans.pop()
            open_spans[-1][2].append(Tree(label, children))
        if place < len(words):
            while waiting and waiting[-1][0] == place:
                _, end, label = waiting.pop()
                open_spans.append((end, label, []))
            open_spans[-1][2].append(words[place])
    return Tree(root[2], open_spans[0][2])
