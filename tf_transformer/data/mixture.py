"""Several sources of sentence pairs, put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tf_transformer.data.pairs import Pairs, Source, state_of


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
