"""Remembers which pairs have come before, in little memory."""

from __future__ import annotations

import hashlib
from bisect import bisect_left

import numpy as np

# Marks that are kept in a set before they are sorted in among the others.
FEWEST, SHARE = 2**16, 8


class Seen:
    """The pairs that have come so far, of each of which eight bytes are kept, and as many again for a while.

    Two pairs are taken for the same if 64 bits of a checksum agree: among a hundred million pairs that happens to
    different ones once in some three thousand corpora.

    Example:
        >>> seen = Seen()
        >>> seen.add("a dog", "ein Hund"), seen.add("a dog", "der Hund"), seen.add("a dog", "ein Hund")
        (False, False, True)
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.zeros(0, np.uint64)

    def add(self, source: str, target: str) -> bool:
        """Remembers a pair, and says whether it came before."""
        mark = int.from_bytes(hashlib.blake2b(f"{source}\n{target}".encode(), digest_size=8).digest())
        if mark in self._recent or self._is_sorted_in(mark):
            return True
        self._recent.add(mark)
        # Sets take many times the room of an array, so that no more than a small share is kept in one.
        if len(self._recent) >= max(FEWEST, len(self._sorted) // SHARE):
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            self._sorted = np.sort(np.concatenate([self._sorted, np.sort(recent)]), kind="stable")  # merges the two
            self._recent.clear()
        return False

    def _is_sorted_in(self, mark: int) -> bool:
        place = bisect_left(self._sorted, mark)
        return place < len(self._sorted) and int(self._sorted[place]) == mark
