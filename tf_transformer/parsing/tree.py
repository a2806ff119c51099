"""A constituency tree: labelled constituents over tagged words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

OPEN, LEAF, CLOSE = "open", "leaf", "close"


class Leaf(NamedTuple):
    """A word and its part-of-speech tag.

    Example:
        >>> Leaf("NN", "dog").word
        'dog'
    """

    tag: str
    word: str


class Tree:
    """A constituent: its label, and what it consists of. It does not change.

    A model that repeats itself may nest brackets by the thousand, so nothing here is recursive: whatever is done to a
    tree is done along `walk`.

    Args:
        label: "S", "NP"; empty for an unlabelled bracket.
        children: Constituents and leaves, in the sentence's order.

    Example:
        >>> tree = Tree("S", [Tree("NP", [Leaf("NNS", "Dogs")]), Tree("VP", [Leaf("VBP", "bark")])])
        >>> print(tree)
        (S (NP (NNS Dogs)) (VP (VBP bark)))
        >>> tree.words()
        ['Dogs', 'bark']
    """

    __slots__ = ("label", "children")

    def __init__(self, label: str, children: Iterable[Tree | Leaf]):
        self.label = label
        self.children = tuple(children)

    def walk(self) -> Iterator[tuple[str, Tree | Leaf]]:
        """Gives (OPEN, tree), (LEAF, leaf) and (CLOSE, tree) in the order in which brackets are written."""
        yield OPEN, self
        path = [(self, iter(self.children))]
        while path:
            tree, children = path[-1]
            for child in children:
                if isinstance(child, Leaf):
                    yield LEAF, child
                else:
                    yield OPEN, child
                    path.append((child, iter(child.children)))
                    break
            else:
                yield CLOSE, tree
                path.pop()

    def leaves(self) -> list[Leaf]:
        """The words with their tags, in order."""
        return [node for kind, node in self.walk() if kind is LEAF]

    def words(self) -> list[str]:
        """The words, in order."""
        return [leaf.word for leaf in self.leaves()]

    def __str__(self) -> str:
        """Penn brackets in one line."""
        parts = []
        for kind, node in self.walk():
            if kind is OPEN:
                parts.append(f" ({node.label}")
            else:
                parts.append(f" ({node.tag} {node.word})" if kind is LEAF else ")")
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def __eq__(self, other: object) -> bool:
        return self._flat() == other._flat() if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._flat()))

    def _flat(self) -> list[tuple[str, str | Leaf]]:
        return [(kind, node if kind is LEAF else node.label) for kind, node in self.walk()]
