"""Converts trees to the token sequences that a model writes, and back.

Depth first, as Vinyals et al. (2015) have it: an opening bracket with its label, a closing bracket with its label, and
for each word `XX`, or its part-of-speech tag. A sentence of n words and k constituents has n + 2k tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tf_transformer.errors import UserError
from tf_transformer.parsing.tree import LEAF, OPEN, Leaf, Tree

WORD = "XX"
OPENING = re.compile(r"\(([^\s()]+)")
CLOSING = re.compile(r"\)([^\s()]+)")
TAG = re.compile(r"[^\s()\[\]]+")  # a special piece, such as [UNK], is none


def linearise(tree: Tree, tags: bool = False) -> list[str]:
    """Writes a tree as tokens.

    Args:
        tree: A tree whose every constituent has a label and words, as `clean` gives it.
        tags: Whether a word is written as its part-of-speech tag, and not as `XX`.

    Raises:
        UserError: A constituent has no label, or no words; or a word has no tag that is to be written.

    Example:
        >>> from tf_transformer.parsing import read_tree
        >>> " ".join(linearise(read_tree("(S (NP (NNS Dogs)) (VP (VBP bark)) (. .))")))
        '(S (NP XX )NP (VP XX )VP XX )S'
        >>> " ".join(linearise(read_tree("(NP (DT a) (NN dog))"), tags=True))
        '(NP DT NN )NP'
    """
    tokens = []
    for kind, node in tree.walk():
        if kind is LEAF:
            if tags and not node.tag:
                raise UserError(f"the word {node.word!r} in {str(tree)[:80]} has no tag: give each word one, (NN dog)")
            tokens.append(node.tag if tags else WORD)
        elif not node.label or not node.children:
            raise UserError(
                f"a constituent without {'words' if node.label else 'label'} in {str(tree)[:80]}: call clean() first"
            )
        else:
            tokens.append(f"({node.label}" if kind is OPEN else f"){node.label}")
    return tokens


def build_tree(tokens: Sequence[str], words: Sequence[str]) -> Tree:
    """Reads a tree from tokens.

    Args:
        tokens: A well-formed sequence; `tf_transformer.parsing.mend` makes one of any other. A token without brackets
            stands for a word, and becomes its tag.
        words: The sentence.

    Raises:
        UserError: The tokens are not one tree over as many words.

    Example:
        >>> print(build_tree(["(NP", "XX", "XX", ")NP"], ["the", "dog"]))
        (NP (XX the) (XX dog))
    """
    path: list[tuple[str, list[Tree | Leaf]]] = [("", [])]  # label and content of the constituents that are open
    used = 0
    for place, token in enumerate(tokens):
        whole = place > 0 and len(path) == 1  # the root is closed
        if (opening := OPENING.fullmatch(token)) and not whole:
            path.append((opening[1], []))
        elif TAG.fullmatch(token) and len(path) > 1 and used < len(words):
            path[-1][1].append(Leaf(token, words[used]))
            used += 1
        elif len(path) > 1 and path[-1][1] and token == f"){path[-1][0]}":
            label, children = path.pop()
            path[-1][1].append(Tree(label, children))
        else:
            raise UserError(f"token {place + 1}, {token!r}, can't continue a tree over {len(words)} words: use mend()")
    if not tokens or len(path) > 1 or used < len(words):
        raise UserError(f"{len(tokens)} tokens are not a complete tree over {len(words)} words: use mend()")
    return path[0][1][0]
