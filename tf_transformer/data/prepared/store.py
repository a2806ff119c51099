"""Prepared pairs as they lie in a folder: token ids in flat files, which are mapped into memory."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from tf_transformer.data.filters import PairCounts
from tf_transformer.errors import UserError
from tf_transformer.files.checksums import check_checksums

FORMAT = 1
MANIFEST = "manifest.json"
SIDES = ("source", "target")


def file_name(side: str, what: str) -> str:
    """The file with a side's "ids" or "offsets"."""
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
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None where it is missing, or of another version."""
        try:
            found = json.loads((folder / MANIFEST).read_bytes())
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
    """

    name: str
    counts: PairCounts
    skipped: int
    lost: list[str]


class Side:
    """The source or the target sentences.

    Attributes:
        ids: all tokens, uint16 or uint32 (tokens,), START and END not among them.
        offsets: where each sentence begins among them, and the last one's end, int64 (sentences + 1,).
    """

    def __init__(self, folder: Path, side: str) -> None:
        self.ids, self.offsets = (
            np.load(folder / file_name(side, what), mmap_mode="r").view(np.ndarray) for what in ("ids", "offsets")
        )

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


class PreparedPairs:
    """The prepared pairs of a split; see `prepare_pairs`, which makes them.

    Args:
        folder: where they are.

    Attributes:
        manifest: what they were made of.
        source: the source sentences.
        target: the target sentences.

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

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def lengths(self) -> np.ndarray:
        """The length of each pair's longer side, END counted: int32 (pairs,)."""
        return np.maximum(self.source.lengths(), self.target.lengths())
