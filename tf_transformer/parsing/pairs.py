"""Trees as pairs of a sentence and its linearised tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tf_transformer.data.pairs import Source
from tf_transformer.parsing.cleaning import clean
from tf_transformer.parsing.linearization import linearise
from tf_transformer.parsing.reading import TreeFiles
from tf_transformer.parsing.tree import Tree


class TreePairs(Source):
    """Trees, cleaned, as sentence pairs: words with spaces between them, and the linearised tree.

    Args:
        source: trees as a treebank has them; it is iterated over again each time.
        tags: whether a word is written as its part-of-speech tag, and not as `XX`.

    Example:
        >>> from tf_transformer.parsing import read_tree
        >>> pairs = TreePairs([read_tree("( (S (NP-SBJ (NNS Dogs)) (VP (VBP bark)) (. .)) )")])
        >>> list(pairs)
        [('Dogs bark .', '(S (NP XX )NP (VP XX )VP XX )S')]
    """

    def __init__(self, source: Iterable[Tree], tags: bool = False) -> None:
        self._source, self._tags = source, tags

    def state(self) -> list | None:
        return self._source.state() if isinstance(self._source, TreeFiles) else None

    def trees(self) -> Iterator[Tree]:
        """The cleaned trees themselves; one that was made of empty elements alone is left out."""
        return (tree for tree in map(clean, self._source) if tree is not None)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for tree in self.trees():
            yield " ".join(tree.words()), " ".join(linearise(tree, self._tags))
