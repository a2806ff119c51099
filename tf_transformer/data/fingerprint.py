"""Tells one corpus from another."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence

from tf_transformer.data.aligned import rows_of
from tf_transformer.data.mixture import sources_of
from tf_transformer.data.pairs import Source

CHUNK = 10_000  # pairs put together at a time, which is faster than one by one


class Fingerprint:
    """How many pairs have been looked at, and a checksum of their texts.

    Example:
        >>> looked_at = Fingerprint()
        >>> looked_at.add([("a dog", "ein Hund")])
        >>> print(looked_at)
        1 pairs, CRC-32 fb17f00a
    """

    def __init__(self) -> None:
        self.number, self.checksum = 0, 0

    def add(self, pairs: Sequence[tuple[str, ...]]) -> None:
        """Looks at the next pairs, with their alignments where they have some."""
        self.number += len(pairs)
        texts = "\t".join([*itertools.chain.from_iterable(pairs), ""])  # a tab behind each
        self.checksum = zlib.crc32(texts.encode(), self.checksum)

    def next_source(self) -> None:
        """What comes is of another source: of which source a pair is decides how often it comes."""
        self.checksum = zlib.crc32(b"\n", self.checksum)

    def __str__(self) -> str:
        return f"{self.number:,} pairs, CRC-32 {self.checksum:08x}"


def fingerprint(pairs: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of a corpus, in one pass over its texts and their alignments, source by source.

    Of a `Source` that has a state, there is no second pass: its files are never read on once they have changed.

    Example:
        >>> fingerprint([("a dog", "ein Hund"), ("a cat", "eine Katze")])
        '2 pairs, CRC-32 15d08c8c'
    """
    if isinstance(pairs, Source) and pairs.fingerprint:
        return pairs.fingerprint
    looked_at = Fingerprint()
    for number, source in enumerate(sources_of(pairs)):
        if number:
            looked_at.next_source()
        stream = iter(rows_of(source.pairs))
        while chunk := list(itertools.islice(stream, CHUNK)):
            looked_at.add(chunk)
    if isinstance(pairs, Source) and pairs.state():
        pairs.fingerprint = str(looked_at)
    return str(looked_at)
