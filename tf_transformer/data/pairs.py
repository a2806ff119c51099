"""What every source of sentence pairs is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

Pairs = Iterable[tuple[str, str]]


class Source:
    """Pairs that can be iterated over again and again, and that remember what broke a pass off.

    Attributes:
        error: What the latest pass that failed raised; None where none did.
        skipped: Pairs left out as invalid UTF-8 in the latest pass.
        lost: What was left out of damaged files, in a line for each.
        fingerprint: What `data.fingerprint` found in a pass; None before, and where other pairs may come next time.
    """

    error: Exception | None = None
    skipped: int = 0
    lost: Sequence[str] = ()
    fingerprint: str | None = None

    def state(self) -> list | None:
        """What tells without reading that the same pairs come as before, as JSON has it; None where nothing does."""
        return None

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """One pass."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[str, str]]:
        try:
            yield from self._pairs()
        except Exception as error:
            self.error = error
            raise


class DerivedPairs(Source):
    """Pairs that are made of others, and tell what could not be read of those."""

    def __init__(self, pairs: Pairs) -> None:
        self._origin = pairs

    @property
    def skipped(self) -> int:
        return getattr(self._origin, "skipped", 0)  # it may be a list

    @property
    def lost(self) -> Sequence[str]:
        return getattr(self._origin, "lost", ())

    def state(self) -> list | None:
        return state_of(self._origin)


def state_of(pairs: Pairs) -> list | None:
    """What tells without reading that the same pairs come as before; None where nothing does, as of a list."""
    return pairs.state() if hasattr(pairs, "state") else None
