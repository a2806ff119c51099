"""The storage format of attention: one record per sentence and step, a list of byte strings.

The first is a header in JSON; each of the others holds one layer's weights as float16. Each is compressed on its own,
so that a layer can be had without the rest, and zlib's checksum tells what is damaged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tf_transformer.files.as_json import read_json
from tf_transformer.inspection.kinds import KINDS

PLUGIN = "attention"
FORMAT = "tf_transformer.attention/1"

# A side with more tokens is cut. A sentence of so many, in 6 layers of 8 heads, takes 19 MB before compression.
MAX_TOKENS = 256


class DamagedRecord(ValueError):
    """What was read is no record of attention, or only a part of one."""


@dataclass(frozen=True)
class Header:
    """All of a record but the weights.

    Attributes:
        source: the source tokens.
        target: the target tokens.
        sizes: layers and heads, by kind of attention.
        reference: a reference translation.
        alignment: the source position that each target token goes with, -1 for none.
        notice: what was left out.
    """

    source: list[str]
    target: list[str]
    sizes: dict[str, tuple[int, int]]
    reference: str | None = None
    alignment: list[int] | None = None
    notice: str | None = None

    def lengths(self, kind: str) -> tuple[int, int]:
        """How many tokens attend (rows of the weights), and how many are attended to (columns)."""
        rows = self.source if kind == "encoder" else self.target
        columns = self.target if kind == "decoder" else self.source
        return len(rows), len(columns)


def encode(
    source: Sequence[str],
    target: Sequence[str],
    attention: Mapping[str, Any],
    reference: str | None = None,
    alignment: Sequence[int] | None = None,
) -> list[bytes]:
    """Makes a record.

    Args:
        source: the source tokens.
        target: the target tokens.
        attention: weights from 0 to 1 by kind, each float (layers, heads, rows, columns).
        reference: a reference translation.
        alignment: the source position that each target token goes with, -1 for none.

    Returns:
        The record.

    Raises:
        ValueError: weights whose shape is not what the tokens call for, or that are no weights.
    """
    unknown = [kind for kind in attention if kind not in KINDS]
    if unknown or not attention:
        raise ValueError(f"attention has {', '.join(map(repr, unknown)) or 'no entries'}; give {', '.join(KINDS)}")
    if alignment is not None and len(alignment) != len(target):
        raise ValueError(f"alignment has {len(alignment)} entries for {len(target)} target tokens; give one for each")
    whole = Header(list(source), list(target), {})
    kept = Header(whole.source[:MAX_TOKENS], whole.target[:MAX_TOKENS], {})
    layers, sizes = [], {}
    for kind in KINDS:
        if kind not in attention:
            continue
        weights = np.asarray(attention[kind], "float32")
        _check(kind, weights, whole)
        rows, columns = kept.lengths(kind)
        layers += [layer.astype("<f2").tobytes() for layer in weights[:, :, :rows, :columns]]
        sizes[kind] = weights.shape[:2]
    header = Header(
        kept.source,
        kept.target,
        sizes,
        reference,
        None if alignment is None else [_within(int(place), len(kept.source)) for place in alignment[:MAX_TOKENS]],
        _notice(whole, kept),
    )
    text = json.dumps({"format": FORMAT, **asdict(header)}, ensure_ascii=False)
    return [zlib.compress(part, 1) for part in (text.encode("utf-8", "replace"), *layers)]


def decode_header(part: bytes) -> Header:
    """Reads a record's first part.

    Raises:
        DamagedRecord: it is none.
    """
    try:
        values = read_json(zlib.decompress(part))
        if values.pop("format") != FORMAT:
            raise DamagedRecord(f"its format is not {FORMAT}")
        return Header(**values)
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedRecord(f"the header can't be read: {error}") from None


def decode_layer(header: Header, record: Sequence[bytes], kind: str, layer: int) -> np.ndarray:
    """Reads a layer's weights, float16 (heads, rows, columns).

    Raises:
        KeyError: the record has no such kind, or no such layer.
        DamagedRecord: they are not whole.
    """
    if kind not in header.sizes:
        raise KeyError(f"attention {kind!r}")
    try:
        layers, heads = header.sizes[kind]
        if not 0 <= layer < layers:
            raise KeyError(f"layer {layer}")
        before = sum(header.sizes[other][0] for other in KINDS[: KINDS.index(kind)] if other in header.sizes)
        weights = zlib.decompress(record[1 + before + layer])
        return np.frombuffer(weights, "<f2").reshape(heads, *header.lengths(kind))
    except (zlib.error, ValueError, TypeError, IndexError) as error:  # also of a header that another program wrote
        raise DamagedRecord(f"weights of {kind}, layer {layer}: {error}") from None


def _check(kind: str, weights: np.ndarray, whole: Header) -> None:
    rows, columns = whole.lengths(kind)
    if weights.ndim != 4 or weights.shape[2:] != (rows, columns) or not weights.size:
        raise ValueError(
            f"attention[{kind!r}] has shape {weights.shape}; expected (layers, heads, {rows}, {columns}): there are "
            f"{len(whole.source)} source and {len(whole.target)} target tokens"
        )
    if not ((weights >= 0) & (weights <= 1.001)).all():  # NaN too; a softmax may be a rounding error above 1
        raise ValueError(f"attention[{kind!r}] contains values outside 0 to 1: give the softmax's output")


def _within(place: int, length: int) -> int:
    return place if place < length else -1


def _notice(whole: Header, kept: Header) -> str | None:
    cut = [
        f"the first {len(ours)} of {len(given)} {side} tokens"
        for side, ours, given in (("source", kept.source, whole.source), ("target", kept.target, whole.target))
        if len(ours) < len(given)
    ]
    return f"Shown: {' and '.join(cut)}." if cut else None
