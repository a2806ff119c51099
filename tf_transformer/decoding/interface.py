"""The interface of a model to a search: one target position at a time, with a cache."""

from __future__ import annotations

from typing import Any, Protocol


class Stepping(Protocol):
    """What searches, translators and exports ask of a model; a `Stepper` is one.

    It may have an attribute `derived` too; see `derived_from_weights`.
    """

    def start_cache(self, source_ids: Any, beams: Any = 1, steps: Any | None = None) -> Any:
        """Reads the source, int (rows, source_len), for so many hypotheses a row; each tensor has the rows in front.

        The cache grows with every step, or has a fixed size, for a search of so many steps at most.
        """
        ...

    def step(self, ids: Any, position: Any, cache: Any, history: Any) -> tuple[Any, Any]:
        """Maps the tokens at a position, int (rows * beams,), to logits (rows * beams, vocabulary) and a new cache.

        `history`, bool (rows, beams, entries), tells which entries of the cache each hypothesis descends from. At each
        step the cache gets an entry for each hypothesis, and these stand last.
        """
        ...

    def settle(self, cache: Any, rows: Any | None, entries: Any) -> Any:
        """The cache of some rows, int32 (kept,), or of all, with some entries of each, int32 (kept, n)."""
        ...


def derived_from_weights(stepper: Stepping) -> list[Any]:
    """What is worked out from a model's weights before the first step: tensors in the stepper's attribute `derived`.

    An export holds them, and puts them back there, so that no call has to work them out. Steppers of other packages
    may work nothing out.

    Example:
        >>> from tf_transformer.decoding.interface import derived_from_weights
        >>> derived_from_weights(object())
        []
    """
    return getattr(stepper, "derived", [])
