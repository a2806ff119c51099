"""Prepared pairs as they lie in a folder: token ids in flat files, which are mapped into memory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from tf_transformer.data.counting import PairCounts
from tf_transformer.data.prepared.parts import SIDES
from tf_transformer.errors import UserError
from tf_transformer.files.as_json import as_json, read_json
from tf_transformer.files.checksums import check_checksums

FORMAT = 1
MANIFEST = "manifest.json"
LINKS = "links"  # named like a side


def file_name(side: str, what: str) -> str:
    """The file with the "ids" or "offsets" of a side or of the links."""
    return f"{side}_{what}.npy"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What prepared pairs were made of.

    Attributes:
        settings: what decides which ids they have: tokenizer, limits, files.
        state: what tells without reading that the corpus is still the same; None where nothing does.
        fingerprint: tells its texts from any others.
        sources: of each source its name, its counts, and what was left out of it.
    """

    settings: dict[str, Any]
    state: list | None
    fingerprint: str
    sources: list[PreparedSource]

    def to_json(self) -> str:
        return as_json({"format": FORMAT, **dataclasses.asdict(self)}) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None where it is missing, or of another version."""
        try:
            found = read_json((folder / MANIFEST).read_bytes())
            if found.pop("format") != FORMAT:
                return None
            sources = [
                PreparedSource(**{**source, "counts": PairCounts(**source["counts"])}) for source in found["sources"]
            ]
            return cls(**{**found, "sources": sources})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


@dataclasses.dataclass(frozen=True)
class PreparedSource:
    """One of the sources that prepared pairs were made of.

    Attributes:
        name: what the log calls it.
        counts: of its pairs.
        skipped: pairs left out as invalid UTF-8.
        lost: what was left out of damaged files, in a line for each.
        aligned: pairs with an alignment.
    """

    name: str
    counts: PairCounts
    skipped: int
    lost: list[str]
    aligned: int = 0


class Side:
    """The source or the target sentences.

    Attributes:
        ids: all tokens, uint16 or uint32 (tokens,), START and END not among them.
        offsets: where each sentence begins among them, and the last one's end, int64 (sentences + 1,).
    """

    def __init__(self, folder: Path, side: str) -> None:
        self.ids, self.offsets = _mapped(folder, side)

    def lengths(self) -> np.ndarray:
        """The number of tokens of each sentence, END counted: int32 (sentences,)."""
        return (np.diff(self.offsets) + 1).astype(np.int32)

    def rows(self, sentences: np.ndarray, width: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Some sentences, padded with 0.

        Args:
            sentences: their numbers, (rows,).
            width: the length to pad to, with room for END; that of the longest unless given.

        Returns:
            int32 (rows, width); and the number of tokens of each, int64 (rows,), END not counted.
        """
        starts = self.offsets[sentences]
        lengths = self.offsets[sentences + 1] - starts
        columns = np.arange(width or int(lengths.max()) + 1)
        inside = columns < lengths[:, None]
        rows = np.zeros(inside.shape, np.int32)
        rows[inside] = self.ids[(starts[:, None] + columns)[inside]]
        return rows, lengths


class Links:
    """Which tokens of each pair are aligned.

    Attributes:
        ids: of all pairs, as `token_links` gives them, uint32 (links,).
        offsets: where each pair's begin among them, and the last one's end, int64 (pairs + 1,).
    """

    def __init__(self, folder: Path) -> None:
        self.ids, self.offsets = _mapped(folder, LINKS)

    def matrices(self, pairs: np.ndarray, target_length: int, source_length: int) -> np.ndarray:
        """The alignments of some pairs, 1 where tokens are aligned: uint8 (pairs, target_length, source_length)."""
        starts = self.offsets[pairs]
        lengths = self.offsets[pairs + 1] - starts
        begin = np.cumsum(lengths) - lengths
        links = self.ids[np.arange(lengths.sum()) + np.repeat(starts - begin, lengths)]
        aligned = np.zeros((len(pairs), target_length, source_length), np.uint8)
        aligned[np.repeat(np.arange(len(pairs)), lengths), links >> 16, links & 0xFFFF] = 1
        return aligned


def _mapped(folder: Path, side: str) -> tuple[np.ndarray, np.ndarray]:
    """The ids and offsets of a side, or of the links."""
    ids, offsets = (np.load(folder / file_name(side, what), mmap_mode="r") for what in ("ids", "offsets"))
    return ids.view(np.ndarray), offsets.view(np.ndarray)


class PreparedPairs:
    """The prepared pairs of a split; see `prepare_pairs`, which makes them.

    Args:
        folder: where they are.

    Attributes:
        manifest: what they were made of.
        source: the source sentences.
        target: the target sentences.
        links: which of their tokens are aligned; None where no pair is.

    Raises:
        UserError: there are none, or they are damaged.
    """

    def __init__(self, folder: Path) -> None:
        remedy = "remove that folder, and give the command again"
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UserError(f"{folder / MANIFEST}: missing or damaged; {remedy}")
        check_checksums(folder, remedy)
        self.manifest = manifest
        self.source, self.target = (Side(folder, side) for side in SIDES)
        self.links = Links(folder) if any(source.aligned for source in manifest.sources) else None

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def lengths(self) -> np.ndarray:
        """The length of each pair's longer side, END counted: int32 (pairs,)."""
        return np.maximum(self.source.lengths(), self.target.lengths())
