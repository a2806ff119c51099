"""The interface of grammars, which restrict the tokens that a search can choose."""

from __future__ import annotations

from typing import Any, Protocol


class Grammar(Protocol):
    """The sequences that a search may write, one token at a time.

    What it has to remember of each hypothesis is tensors of shape (rows, beams, ...), which travel with it.
    """

    def start(self, beams: Any) -> dict[str, Any]:
        """What is remembered of hypotheses of no token yet."""
        ...

    def allowed(self, state: dict[str, Any], room: Any) -> Any:
        """The tokens that may come next, bool (rows, beams, vocabulary).

        `room`, int32 (rows,), tells how many tokens each row's hypotheses may still get, the closing one counted. One
        at least must be allowed to each hypothesis that came about by allowed tokens.
        """
        ...

    def after(self, state: dict[str, Any], tokens: Any) -> dict[str, Any]:
        """What is remembered of hypotheses once they have their next token, int32 (rows, beams)."""
        ...
