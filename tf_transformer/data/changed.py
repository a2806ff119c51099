"""Pairs whose source texts are changed: by a tag, or by noise."""

from __future__ import annotations

from collections.abc import Iterator

from tf_transformer.data.noise import Noise
from tf_transformer.data.pairs import DerivedPairs, Pairs


class _ChangedSources(DerivedPairs):
    """Pairs of which each source text is changed."""

    def _changed(self, number: int, source: str) -> str:
        """The source text of the pair of this number, from 1 on."""
        raise NotImplementedError

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for number, (source, target) in enumerate(self._origin, start=1):
            yield self._changed(number, source), target


class TaggedPairs(_ChangedSources):
    """Pairs whose source text begins with a tag, as back-translated ones are marked (Caswell et al., 2019).

    Args:
        pairs: any source of pairs.
        tag: what stands before each source text, with a blank between. An empty text stays empty.

    Example:
        >>> list(TaggedPairs([("a dog", "ein Hund"), ("", "nichts")], "<bt>"))
        [('<bt> a dog', 'ein Hund'), ('', 'nichts')]
    """

    def __init__(self, pairs: Pairs, tag: str) -> None:
        super().__init__(pairs)
        self._tag = tag

    def _changed(self, number: int, source: str) -> str:
        return f"{self._tag} {source}" if source.strip() else source


class NoisyPairs(_ChangedSources):
    """Pairs whose source texts have noise, the same in each pass.

    So they are tokenised once, like any others: noise that each epoch draws again would have every training tokenise at
    every step. Different copies of a corpus come of different seeds.

    Args:
        pairs: any source of pairs.
        noise: gets each source text with the pair's number.

    Example:
        >>> from tf_transformer.data.noise import Noise
        >>> list(NoisyPairs([("a dog", "ein Hund")], Noise(upper_case=1)))
        [('A DOG', 'ein Hund')]
    """

    def __init__(self, pairs: Pairs, noise: Noise) -> None:
        super().__init__(pairs)
        self._noise = noise

    def _changed(self, number: int, source: str) -> str:
        return self._noise(number, source)
