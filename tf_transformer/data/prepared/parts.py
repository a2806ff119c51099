"""Parts of a corpus, tokenised: what is made at a time, and what a preparation that was broken off goes on from."""

from __future__ import annotations

import itertools
import operator
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tf_transformer.data.filters import KEPT, VERDICTS, lacks_tag, verdicts
from tf_transformer.data.links import token_links
from tf_transformer.files.whole import written_whole

if TYPE_CHECKING:
    from tf_transformer.tokenizers import Tokenizer, TokenizerPair

Part = dict[str, np.ndarray]
SIDES = ("source", "target")


def make_part(
    tokenizers: TokenizerPair,
    pairs: Sequence[tuple[str, ...]],
    max_length: int,
    max_ratio: float | None,
    dtype: np.dtype,
) -> Part:
    """Tokenises pairs, and drops those that the limits drop.

    Args:
        tokenizers: A `TokenizerPair`.
        pairs: Source and target sentences, at least one pair; where they are aligned, with their alignments.
        max_length: The most tokens on either side, END counted.
        max_ratio: How many times as long as the other a side may be; None for any.
        dtype: That of the ids.

    Returns:
        "source_ids" and "target_ids" of the pairs kept, (tokens,); "source_lengths" and "target_lengths", int64
        (pairs,); "hashes" that tell the pairs apart, uint64 (pairs,); "verdicts", how many pairs got each, int64 (5,);
        and "copied", how many of those kept have the same text on both sides, int64. Of aligned pairs also "links_ids",
        uint32 (links,), as `token_links` gives them, and "links_lengths", int64 (pairs,).
    """
    sources, targets, *alignments = zip(*pairs, strict=True)
    sides = [
        tokenizer.encode(texts) for tokenizer, texts in ((tokenizers.source, sources), (tokenizers.target, targets))
    ]
    (_, source_lengths), (_, target_lengths) = sides
    without_tag = lacks_tag(tokenizers, targets)
    verdict = verdicts(source_lengths + 1, target_lengths + 1, max_length, max_ratio, without_tag).numpy()
    kept = verdict == KEPT
    part: Part = {}
    for side, (ids, lengths) in zip(SIDES, sides, strict=True):
        part[f"{side}_ids"] = ids[np.repeat(kept, lengths)].astype(dtype)
        part[f"{side}_lengths"] = lengths[kept]
    part["hashes"] = _hashes(part)
    part["verdicts"] = np.bincount(verdict, minlength=len(VERDICTS))
    same = np.fromiter(map(operator.eq, sources, targets), bool, len(pairs))
    part["copied"] = np.count_nonzero(same & kept)
    if alignments:
        links = [
            token_links(*each)
            for each in zip(
                _pieces(tokenizers.source, part, "source"),
                itertools.compress(sources, kept),
                _pieces(tokenizers.target, part, "target"),
                itertools.compress(targets, kept),
                itertools.compress(*alignments, kept),
                strict=True,
            )
        ]
        part["links_ids"] = np.concatenate([np.zeros(0, np.uint32), *links])
        part["links_lengths"] = np.array([len(each) for each in links], np.int64)
    return part


def _pieces(tokenizer: Tokenizer, part: Part, side: str) -> Iterator[list[str]]:
    """The pieces of each sentence of a side."""
    ends = np.cumsum(part[f"{side}_lengths"])
    for ids in np.split(part[f"{side}_ids"], ends[:-1]) if len(ends) else []:
        yield tokenizer.pieces(ids.tolist())


def _hashes(part: Part) -> np.ndarray:
    """A number for each pair; pairs of the same tokens have the same."""
    hashes = np.zeros(len(part["source_lengths"]), np.uint64)
    if not len(hashes):
        return hashes
    for side in SIDES:
        lengths = part[f"{side}_lengths"]
        starts = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) - np.repeat(starts, lengths)
        factors = np.random.PCG64(1).random_raw(int(lengths.max())) | np.uint64(1)
        sums = np.add.reduceat(part[f"{side}_ids"].astype(np.uint64) * factors[places], starts)
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + sums
    return hashes


def save_part(part: Part, path: Path, checksum: int) -> None:
    """Writes a part, whole; `checksum` is that of all texts up to its end."""
    with written_whole(path, "a part of the prepared data") as partial, partial.open("wb") as file:
        np.savez(file, checksum=checksum, **part)


def load_part(path: Path, checksum: int | None = None) -> Part | None:
    """Reads a part; None where it is missing, damaged or, if a checksum is given, that of other texts."""
    try:
        with np.load(path) as file:
            part = dict(file)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return part if checksum is None or part.get("checksum") == checksum else None
