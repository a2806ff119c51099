"""Finds the attention data in a log directory's event files.

TensorBoard's own reader would give ten steps of each sentence at the most. Here an index holds where each record lies;
it is read when someone looks at it.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event

from tf_transformer.files.home import below_home
from tf_transformer.tensorboard.record import PLUGIN, DamagedRecord, Header, decode_header, decode_layer


@dataclass(frozen=True)
class Place:
    """Where a record lies: the event file, and the event's first byte and length in it."""

    file: Path
    start: int
    length: int

    def read(self) -> list[bytes]:
        """The record's parts.

        Raises:
            DamagedRecord: the file has changed.
        """
        with open(self.file, "rb") as file:
            file.seek(self.start)
            found = _attention(file.read(self.length))
        if found is None:
            raise DamagedRecord(f"{_printable(self.file.name)} has changed")
        return found[2]


class Index:
    """All attention under a log directory; `refresh` finds what has been added.

    Several threads may ask.

    Args:
        log_dir: TensorBoard's.

    Attributes:
        places: by run (its folder's path in the log directory), then tag, then step.
        damaged: what is wrong with event files that can't be read to their end, by their paths in the log directory.
    """

    def __init__(self, log_dir: str | os.PathLike) -> None:
        self.log_dir = below_home(log_dir)
        self.places: dict[str, dict[str, dict[int, Place]]] = {}
        self.damaged: dict[str, str] = {}
        self._read: dict[Path, int] = {}  # how far each file has been read
        self._lock = threading.Lock()

    def refresh(self) -> dict[str, dict[str, list[int]]]:
        """Reads what the event files have got since the last time.

        Returns:
            The steps, by run and tag.
        """
        with self._lock:
            found = self.places, {}, self._read  # a damaged file is tried again: it may only not have been whole yet
            sizes = self._sizes()
            if any(sizes.get(path, 0) < read for path, read in self._read.items()):  # removed, or written again
                found = {}, {}, {}  # filled before the others see them
            for path, size in sizes.items():
                if size > found[2].get(path, 0):
                    self._extend(path, *found)
            self.places, self.damaged, self._read = found
            return {
                run: {tag: sorted(steps) for tag, steps in sorted(tags.items())}
                for run, tags in sorted(self.places.items())
            }

    def header(self, run: str, tag: str, step: int) -> Header:
        """A record's header.

        Raises:
            KeyError: there is no such record.
            DamagedRecord: it is damaged.
        """
        return decode_header(self._place(run, tag, step).read()[0])

    def layer(self, run: str, tag: str, step: int, kind: str, layer: int) -> np.ndarray:
        """A layer's weights, float16 (heads, rows, columns).

        Raises:
            KeyError: there is no such record, kind or layer.
            DamagedRecord: it is damaged.
        """
        record = self._place(run, tag, step).read()
        return decode_layer(decode_header(record[0]), record, kind, layer)

    def _place(self, run: str, tag: str, step: int) -> Place:
        tags = self.places.get(run)
        steps = tags.get(tag) if tags else None
        if steps is None or step not in steps:
            raise KeyError(f"run {run!r}" if tags is None else f"tag {tag!r}" if steps is None else f"step {step}")
        return steps[step]

    def _sizes(self) -> dict[Path, int]:
        """The event files and how long they are, oldest name first: what a later one holds replaces an earlier's."""
        sizes = {}
        for folder, files in self._folders():
            for path in (Path(folder, name) for name in sorted(files) if "tfevents" in name):
                try:
                    sizes[path] = path.stat().st_size
                except OSError:  # gone in between
                    continue
        return sizes

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        """The folders and the names in them, through links too, as TensorBoard's other tabs do.

        A folder has all its names with no link or one. Names with more links are only for what has no other name:
        there can be endlessly many.
        """
        seen: set[str] = set()
        above: dict[str, frozenset[str]] = {}  # the real paths of a folder and of those that its name leads through
        starts, links = [str(self.log_dir)], 0
        while starts:
            linked = []
            for start in starts:
                for folder, folders, files in os.walk(start):  # stops at links
                    real, over = os.path.realpath(folder), above.get(os.path.dirname(folder), frozenset())
                    if real in over or (links > 1 and real in seen):
                        folders.clear()
                        continue
                    seen.add(real)
                    above[folder] = over | {real}
                    folders.sort()
                    linked += filter(os.path.islink, (os.path.join(folder, name) for name in folders))
                    yield folder, files
            starts, links = linked, links + 1

    def _extend(self, path: Path, places: dict, damaged: dict[str, str], read: dict[Path, int]) -> None:
        place = path.relative_to(self.log_dir)
        name, run = _printable(place.as_posix()), _printable(place.parent.as_posix())
        try:
            with open(path, "rb") as file:
                file.seek(read.get(path, 0))
                for start, length in _events(file):
                    file.seek(start)
                    found = _attention(file.read(length))
                    read[path] = start + length + 4
                    if found:
                        tag, step, _ = found
                        tags = places.setdefault(run, {})
                        tags.setdefault(tag, {})[step] = Place(path, start, length)
        except DamagedRecord as damage:
            damaged[name] = str(damage)
        except OSError:  # it may be readable the next time
            return


def _printable(name: str) -> str:
    r"""A file's name as it can be sent: bytes that are no UTF-8 become `\xf6`, so that two names stay two."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _events(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Goes through a TFRecord file from where it stands: first byte and length of each event, up to an unfinished one.

    Raises:
        DamagedRecord: what comes is no record.
    """
    start, end = file.tell(), file.seek(0, os.SEEK_END)
    while end - start >= 12:
        file.seek(start)
        head = file.read(12)
        length, check = struct.unpack("<QI", head)
        if check != _masked_crc(head[:8]):
            raise DamagedRecord(f"damaged at byte {start:,}; what comes before is shown")
        if start + 12 + length + 4 > end:  # still being written
            return
        yield start + 12, length
        start += 12 + length + 4


def _attention(event: bytes) -> tuple[str, int, list[bytes]] | None:
    """Tag, step and record of an event; None for one of anything else.

    Raises:
        DamagedRecord: the bytes are no event.
    """
    if PLUGIN.encode() not in event:  # most are figures of other kinds, which need not be parsed
        return None
    try:
        parsed = Event.FromString(event)
    except DecodeError:
        raise DamagedRecord("an event is damaged; what comes before is shown") from None
    for value in parsed.summary.value:
        if value.metadata.plugin_data.plugin_name == PLUGIN and value.tensor.string_val:
            return value.tag, parsed.step, list(value.tensor.string_val)
    return None


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def _masked_crc(data: bytes) -> int:
    """TFRecord's checksum: CRC-32C, turned by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
