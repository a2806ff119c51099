"""The grammar of linearised trees, which restricts a search to well-formed trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from tf_transformer.layers.lean_ops import shape_of, take

# How many constituents may be open at once.
MAX_DEPTH = 64


class TreeGrammar:
    """Lets a search write one tree over exactly the sentence's words, as `linearise` writes it, and nothing else.

    A constituent opens while there are words left for it, closes by its own label once it holds a word, and is the
    root alone, which closes after the last word. No constituent opens for which there would be no room to close.

    Args:
        opens: for each token of the vocabulary the number of the label that it opens, from 1 up; 0 if it opens none.
        closes: the same of the label that it closes.
        stands_for_word: for each token whether it stands for a word.
        end: the token that closes a sequence.
        words: int32 (rows,), how many words each sentence has; at most its limit less the three tokens that open and
            close the root and end the sequence. A sentence without words is closed at once.

    Example:
        >>> import numpy as np
        >>> opens, closes = [0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0]  # token 4 opens S, token 5 closes it
        >>> word = [False] * 6 + [True]
        >>> grammar = TreeGrammar(opens, closes, word, end=3, words=np.array([1]))
        >>> state = grammar.start(beams=1)
        >>> for token in (4, 6, 5):
        ...     print(np.flatnonzero(grammar.allowed(state, np.array([9]))))
        ...     state = grammar.after(state, np.array([[token]]))
        [4]
        [4 6]
        [5]
    """

    def __init__(
        self, opens: Sequence[int], closes: Sequence[int], stands_for_word: Sequence[bool], end: int, words: Any
    ) -> None:
        self.opens = ops.convert_to_tensor(opens, "int32")
        self.closes = ops.convert_to_tensor(closes, "int32")
        self.is_word = ops.convert_to_tensor(stands_for_word, "bool")
        self.is_end = ops.convert_to_tensor([token == end for token in range(len(opens))], "bool")
        self.words = ops.cast(words, "int32")

    def start(self, beams: Any) -> dict[str, Any]:
        left = ops.repeat(ops.expand_dims(self.words, axis=1), beams, axis=1)
        return {
            "left": left,  # words
            "depth": ops.zeros_like(left),
            "just_opened": ops.zeros_like(left, "bool"),  # so that the innermost constituent holds no word yet
            "labels": ops.zeros((*shape_of(left), MAX_DEPTH), "int32"),  # of what is open, the innermost first
        }

    def allowed(self, state: dict[str, Any], room: Any) -> Any:
        left, depth = state["left"], state["depth"]
        inside, room = depth > 0, ops.cast(ops.expand_dims(room, axis=1), "int32")
        # What is still needed for the words, what is open and the end; two more for one more constituent.
        needed = left + depth + 1
        may_open = (left > 0) & (depth < MAX_DEPTH) & (needed + 2 <= room)
        may_close = inside & ops.logical_not(state["just_opened"]) & ((depth > 1) | ops.equal(left, 0))
        closing = ops.where(may_close, state["labels"][:, :, 0], -1)
        may_end = ops.logical_not(inside) & ops.equal(left, 0)

        def of_tokens(which: Any, may: Any) -> Any:
            return which & ops.expand_dims(may, axis=2)

        return (
            of_tokens(self.opens > 0, may_open)
            | ops.equal(self.closes, ops.expand_dims(closing, axis=2))
            | of_tokens(self.is_word, inside & (left > 0))
            | of_tokens(self.is_end, may_end)
        )

    def after(self, state: dict[str, Any], tokens: Any) -> dict[str, Any]:
        opened, closed = take(self.opens, tokens), take(self.closes, tokens) > 0
        word = take(self.is_word, tokens)
        labels = state["labels"]
        with_it = ops.concatenate([ops.expand_dims(opened, axis=2), labels[:, :, :-1]], axis=2)
        without = ops.concatenate([labels[:, :, 1:], ops.zeros_like(labels[:, :, :1])], axis=2)
        closed_axis, opened_axis = ops.expand_dims(closed, axis=2), ops.expand_dims(opened > 0, axis=2)
        return {
            "left": state["left"] - ops.cast(word, "int32"),
            "depth": state["depth"] + ops.cast(opened > 0, "int32") - ops.cast(closed, "int32"),
            "just_opened": opened > 0,
            "labels": ops.where(opened_axis, with_it, ops.where(closed_axis, without, labels)),
        }
