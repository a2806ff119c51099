"""Several sources of sentence pairs, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tf_transformer.data.failures import Source
from tf_transformer.data.noise import Noise

Pairs = Iterable[tuple[str, str]]


class MadeOfPairs(Source):
    """Pairs that are made of a source's, which tells what it could not read."""

    def __init__(self, pairs: Pairs) -> None:
        self._origin = pairs

    @property
    def skipped(self) -> int:
        return getattr(self._origin, "skipped", 0)

    @property
    def lost(self) -> list[str]:
        return getattr(self._origin, "lost", [])

    def state(self) -> list | None:
        return state_of(self._origin)


class _ChangedSources(MadeOfPairs):
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

    So they are tokenised once, like any others: noise that each epoch draws anew would have every training tokenise at
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


@dataclass(frozen=True)
class WeightedSource:
    """One of several sources.

    Attributes:
        name: what the log calls it.
        pairs: its pairs.
        weight: how often each of them comes in an epoch, in the mean.
    """

    name: str
    pairs: Pairs
    weight: float = 1.0


class Mixture(Source):
    """Several sources, one after another; how they are mixed is decided where batches are made of them.

    Args:
        sources: at least one.

    Example:
        >>> news, web = [("a dog", "ein Hund")], [("a cat", "eine Katze")]
        >>> list(Mixture([WeightedSource("news", news), WeightedSource("web", web)]))
        [('a dog', 'ein Hund'), ('a cat', 'eine Katze')]
    """

    def __init__(self, sources: Sequence[WeightedSource]) -> None:
        self.sources = tuple(sources)

    def state(self) -> list | None:
        states = [state_of(source.pairs) for source in self.sources]
        return None if None in states else states

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for source in self.sources:
            yield from source.pairs


def sources_of(pairs: Pairs) -> tuple[WeightedSource, ...]:
    """The sources that pairs are put together from; of any others they are the only one."""
    return pairs.sources if isinstance(pairs, Mixture) else (WeightedSource("", pairs),)


def state_of(pairs: Pairs) -> list | None:
    """What tells without reading that the same pairs come as before; None where nothing does, as of a list."""
    return pairs.state() if hasattr(pairs, "state") else None
