"""The file that is translated: its lines in shards, which are found by their place in the file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tf_transformer.data.lines import GZIP_ERRORS, damaged_gzip, decoded, numbered_lines, open_lines
from tf_transformer.errors import UserError, reason

# Lines in a shard, unless told: a multiple of the usual window, so that a shard's batches are those of the file.
SHARD_LINES = 10_240


class Source:
    r"""A file of lines, plain or gzip, in shards of so many lines; nothing of it is copied.

    It is read once to begin with: to find the shards, and so that a mistake in its last line is told now and not after
    hours.

    Args:
        path: the file.
        shard_lines: lines in each shard but the last, which may have fewer.

    Attributes:
        lines: the number of lines.
        sha256: the checksum of the text; of a gzip file, of what is packed in it.

    Raises:
        UserError: it can't be read, is damaged, or is not UTF-8.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "news.en"
        >>> _ = path.write_bytes(b"A dog runs.\r\nA man sings.\nA cat sleeps.")
        >>> source = Source(path, shard_lines=2)
        >>> len(source), source.shard(1)
        (2, [(3, 'A cat sleeps.')])
    """

    def __init__(self, path: Path, shard_lines: int) -> None:
        self.path = path
        self.shard_lines = shard_lines
        self._offsets: list[int] = []
        digest, offset, self.lines = hashlib.sha256(), 0, 0
        with open_lines(path) as self._file:
            self._look = self._state()
            for line in self._read():
                if self.lines % shard_lines == 0:
                    self._offsets.append(offset)
                self.lines += 1
                decoded(line, path, self.lines)
                digest.update(line)
                offset += len(line)
        self.sha256 = digest.hexdigest()
        # Kept open: what is packed can only be read forwards, so that shards in their order are read in one go.
        self._file = open_lines(path)

    def __len__(self) -> int:
        """The number of shards."""
        return len(self._offsets)

    def lines_of(self, index: int) -> int:
        """The number of lines of a shard."""
        return min(self.shard_lines, self.lines - index * self.shard_lines)

    def shard(self, index: int) -> list[tuple[int, str]]:
        """The lines of a shard, each with its number in the file, from 1.

        Raises:
            UserError: the file has changed, or can't be read any more.
        """
        if self._state() != self._look:
            raise UserError(f"{self.path} has changed since this command began: restore it, and give the command again")
        self._file.seek(self._offsets[index])
        first = index * self.shard_lines + 1
        lines = numbered_lines(islice(self._read(), self.shard_lines), first)
        return [(number, line.decode("utf-8")) for number, line in lines]

    def _read(self) -> Iterator[bytes]:
        number = 0
        try:
            for number, line in enumerate(self._file, start=1):  # noqa: B007  told where reading ends
                yield line
        except GZIP_ERRORS as error:
            raise damaged_gzip(self.path, error, number) from None
        except OSError as error:
            raise UserError(f"cannot read {self.path} ({reason(error)}): check its disk") from error

    def _state(self) -> tuple[int, int]:
        try:
            state = self.path.stat()
        except OSError as error:
            raise UserError(
                f"cannot read {self.path} ({error.strerror}): restore it, and give the command again"
            ) from None
        return state.st_size, state.st_mtime_ns
