"""Removes from a treebank's trees what a parser does not have to predict."""

from __future__ import annotations

import re

from tf_transformer.parsing.tree import LEAF, OPEN, Leaf, Tree

EMPTY = "-NONE-"  # the tag of an empty element, which stands for no word
ROOT = "TOP"

# A category in front of function tags and indices; a label such as -LRB- has none.
_CATEGORY = re.compile(r"[^-=]+")


def clean(tree: Tree) -> Tree | None:
    """Cleans a tree as parsers are trained and scored on them.

    In this order: empty elements (`-NONE-`) go, and the constituents they leave empty; of the labels, function tags
    and indices go (NP-SBJ-1 and NP=2 become NP; -LRB- stays); brackets without a label go, and what they hold stays,
    for the unlabelled root is no constituent. TOP stands for such a root and goes as well. Where several trees, or
    words that no constituent holds, are left, they get TOP as their root, which scoring does not count: so a tree is
    always one constituent. Tags stay as they are.

    Args:
        tree: As `TreeFiles` gives it.

    Returns:
        The tree; None where it was made of empty elements alone.

    Example:
        >>> from tf_transformer.parsing import read_tree
        >>> print(clean(read_tree("( (S-IMP (NP-SBJ-1 (-NONE- *)) (VP (VB Wait))) )")))
        (S (VP (VB Wait)))
        >>> print(clean(read_tree("( (INTJ (UH Oh)) (. !) )")))
        (TOP (INTJ (UH Oh)) (. !))
    """
    path: list[list[Tree | Leaf]] = [[]]  # what is left of the constituents that are open
    for kind, node in tree.walk():
        if kind is OPEN:
            path.append([])
        elif kind is LEAF:
            if node.tag != EMPTY:
                path[-1].append(node)
        else:
            children = path.pop()
            label = category(node.label)
            if label in ("", ROOT):
                path[-1].extend(children)
            elif children:
                path[-1].append(Tree(label, children))
    left = path[0]
    if not left:
        return None
    return left[0] if len(left) == 1 and isinstance(left[0], Tree) else Tree(ROOT, left)


def category(label: str) -> str:
    """A label without function tags and indices.

    Example:
        >>> category("NP-SBJ-1"), category("PP-LOC=2"), category("-LRB-")
        ('NP', 'PP', '-LRB-')
    """
    found = _CATEGORY.match(label)
    return found[0] if found else label
