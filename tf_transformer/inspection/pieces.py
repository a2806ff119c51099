"""How tokens are displayed: the first token of a word as it is, later ones with a dot before them.

Tokenizers tell the two apart in different ways. The tab Attention does the same (`tensorboard/static/tokens.js`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_transformer.tokenizers.marks import BLANK, CONTINUATION

CONTINUES = "·"
SHOWN_BLANK = "␣"
_CONTROLS = {"<pad>", "<unk>", "<s>", "</s>"}


def shown(*sides: Sequence[str]) -> list[list[str]]:
    """One text for each token of a sentence and its translation.

    Args:
        sides: the tokens of each, by the same kind of tokenizer, or a parser's tree, whose tokens are words.

    Returns:
        The texts of each.

    Example:
        >>> shown(["▁A", "▁green", "house", ".", "</s>"], ["▁Ein", "▁Haus"])
        [['A', 'green', '·house', '·.', '</s>'], ['Ein', 'Haus']]
        >>> shown(["a", "green", "##house", "."])
        [['a', 'green', '·house', '.']]
        >>> shown(["▁A", "▁dog", "s", "</s>"], ["(NP", "XX", "XX", ")NP", "[END]"])
        [['A', 'dog', '·s', '</s>'], ['(NP', 'XX', 'XX', ')NP', '[END]']]
    """
    has_blanks = any(map(_has_blanks, sides))
    return [
        [(_sentence_piece if has_blanks and not _is_tree(tokens) else _word_piece)(token) for token in tokens]
        for tokens in sides
    ]


def _has_blanks(tokens: Sequence[str]) -> bool:
    return any(token.startswith(BLANK) for token in tokens)


def _is_tree(tokens: Sequence[str]) -> bool:
    """Whether they are a parser's, which may have been stopped before the closing token."""
    opens = bool(tokens) and tokens[0].startswith("(")
    return not _has_blanks(tokens) and (opens or "[END]" in tokens)


def _word_piece(token: str) -> str:
    return CONTINUES + token[len(CONTINUATION) :] if token.startswith(CONTINUATION) and token != CONTINUATION else token


def _sentence_piece(token: str) -> str:
    if token in _CONTROLS:
        return token
    if not token.startswith(BLANK):
        return CONTINUES + token
    only_blanks = not token.strip(BLANK)
    return (token if only_blanks else token[1:]).replace(BLANK, SHOWN_BLANK)
