"""Reads a model's output as a tree over the sentence's words, and repairs it where it is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from tf_transformer.errors import UserError
from tf_transformer.parsing.cleaning import ROOT
from tf_transformer.parsing.linearization import linearise
from tf_transformer.parsing.tree import Leaf, Tree
from tf_transformer.tokenizers.marks import WORD

_OPENING = re.compile(r"\(([^\s()]+)")
_CLOSING = re.compile(r"\)([^\s()]+)")
_TAG = re.compile(r"[^\s()\[\]]+")  # a special piece, such as [UNK], is none


class Mended(NamedTuple):
    """A tree, and whether the tokens had to be repaired for it.

    Example:
        >>> tree, mended = mend(["(NP", "XX"], ["dogs"])
        >>> mended
        True
    """

    tree: Tree
    mended: bool


def mend(tokens: Sequence[str], words: Sequence[str]) -> Mended:
    """Makes one tree over the words of any sequence of tokens; well-formed tokens are read as they are.

    The tokens are taken one by one, and every bracket that can hold a word is kept:

    - an opening bracket opens a constituent;
    - `XX`, or any other token without brackets, takes the next word and becomes its tag; if no word is left, it is
      dropped;
    - a closing bracket closes the innermost open constituent of its label, and with it those that are open inside;
      if none of its label is open, it gets an opening bracket at the beginning of the constituent it is in;
    - any other token is dropped.

    At the end, what is still open is closed. Words that no token took get the tag `XX` and come last in the outermost
    constituent that was still open, or else after everything. Constituents without words are dropped. If one
    constituent has closed, it becomes the root, and takes in what comes before and after it; if none or several have,
    `TOP`, which scoring does not count, is put over everything.

    Args:
        tokens: What a model wrote.
        words: The sentence, of at least one word.

    Raises:
        UserError: There are no words.

    Example:
        >>> words = ["Dogs", "chase", "cats", "."]
        >>> mend("(S (NP XX )NP (VP XX (NP XX )NP )VP XX )S".split(), words).mended
        False
        >>> mended = mend("XX )NP (VP XX (NP XX )VP )S".split(), words)
        >>> print(mended.tree, mended.mended)
        (S (NP (XX Dogs)) (VP (XX chase) (NP (XX cats))) (XX .)) True
    """
    if not words:
        raise UserError("a sentence without words has no tree: give at least one word")
    path: list[tuple[str, list[Tree | Leaf]]] = [("", [])]  # label and content of the constituents that are open
    left = iter(words)

    def close() -> str:
        label, children = path.pop()
        if children:
            path[-1][1].append(Tree(label, children))
        return label

    for token in tokens:
        children = path[-1][1]
        if _TAG.fullmatch(token):
            children.extend(Leaf(token, word) for word in islice(left, 1))
        elif opening := _OPENING.fullmatch(token):
            path.append((opening[1], []))
        elif closing := _CLOSING.fullmatch(token):
            if any(label == closing[1] for label, _ in reversed(path[1:])):
                while close() != closing[1]:
                    pass
            elif children:
                children[:] = [Tree(closing[1], children)]
    while len(path) > 2:
        close()
    path[-1][1].extend(Leaf(WORD, word) for word in left)
    if len(path) > 1:
        close()
    tree = _one_root(path[0][1])
    return Mended(tree, linearise(tree, tags=True) != list(tokens))


def _one_root(parts: list[Tree | Leaf]) -> Tree:
    """Makes the one constituent among the parts the root of them all; of several, or none, the parts of a new one."""
    places = [place for place, part in enumerate(parts) if isinstance(part, Tree)]
    if len(places) != 1:
        return Tree(ROOT, parts)
    (place,) = places
    root = parts[place]
    return Tree(root.label, [*parts[:place], *root.children, *parts[place + 1 :]])
