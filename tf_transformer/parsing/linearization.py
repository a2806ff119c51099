"""Writes trees as the token sequences that a model learns to write; `mend` reads such sequences.

Depth first, as Vinyals et al. (2015) have it: an opening bracket with its label, a closing bracket with its label, and
for each word `XX`, or its part-of-speech tag. A sentence of n words and k constituents has n + 2k tokens.
"""

from __future__ import annotations

from tf_transformer.errors import UserError
from tf_transformer.parsing.tree import LEAF, OPEN, Tree
from tf_transformer.tokenizers.marks import WORD


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
                raise UserError(
                    f"the word {node.word!r} in {str(tree)[:80]} has no tag: give each word a tag, (NN dog)"
                )
            tokens.append(node.tag if tags else WORD)
        elif not node.label or not node.children:
            raise UserError(
                f"a constituent without {'words' if node.label else 'a label'} in {str(tree)[:80]}: call clean() first"
            )
        else:
            tokens.append(f"({node.label}" if kind is OPEN else f"){node.label}")
    return tokens
