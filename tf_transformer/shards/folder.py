"""The folder of the translated shards: a file each, which is there whole or not at all; and all of them joined."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from tf_transformer.errors import UserError
from tf_transformer.files.whole import PARTIAL, written_once
from tf_transformer.shards.source import Source


class ShardFolder:
    r"""The translated shards of a source.

    Args:
        path: the folder, with its manifest in it.
        source: what is translated.
        line_for_line: whether each line of the source is one of the translation, so that they can be counted.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> _ = (folder / "news.en").write_text("a dog\na cat\n")
        >>> shards = ShardFolder(folder, Source(folder / "news.en", shard_lines=1), line_for_line=True)
        >>> shards.write(1, [b"eine Katze\n"])
        >>> shards.missing()
        [0]
    """

    def __init__(self, path: Path, source: Source, line_for_line: bool) -> None:
        self.path = path
        self.source = source
        self.line_for_line = line_for_line

    def file(self, index: int) -> Path:
        """Where a translated shard lies, or will."""
        return self.path / f"{index:05d}.txt"

    def missing(self, job: int = 0, jobs: int = 1) -> list[int]:
        """The shards that have yet to be translated, of those of one of several jobs."""
        return [index for index in range(job, len(self.source), jobs) if not self.file(index).exists()]

    def write(self, index: int, lines: Iterable[bytes]) -> None:
        """Writes a translated shard, whole; if another process has done so meanwhile, its stays.

        Raises:
            UserError: it can't be written.
        """
        content = b"".join(lines)  # all of it made before anything is written
        with written_once(self.file(index), "the shard") as partial:
            partial.write_bytes(content)

    def join(self, output: Path) -> None:
        """Writes all shards into one file, whole, in their order. The file may be there, if it is the same.

        Raises:
            UserError: a shard is damaged, the file is there and is another, or it can't be written.
        """
        if not output.exists():
            with written_once(output, "the translation") as partial, partial.open("wb") as file:
                self.copy(file)
        self._check_is_joined(output)

    def copy(self, output: BinaryIO) -> None:
        """Writes all shards, in their order.

        Raises:
            UserError: a shard is damaged.
        """
        for left in self.path.glob(f"{PARTIAL}*"):  # of processes that were killed: nobody writes any more
            left.unlink(missing_ok=True)
        for index in range(len(self.source)):
            self.check(index)
            with self.file(index).open("rb") as file:
                shutil.copyfileobj(file, output)

    def check(self, index: int) -> None:
        """Raises a UserError where a shard is not what was written."""
        with self.file(index).open("rb") as file:
            found = sum(1 for _ in file)
        if self.line_for_line and found != self.source.lines_of(index):
            raise UserError(
                f"{self.file(index)}: damaged, it has {found:,} lines, not {self.source.lines_of(index):,}; remove it, "
                "and give the command again"
            )

    def _check_is_joined(self, output: Path) -> None:
        with output.open("rb") as joined:
            for index in range(len(self.source)):
                shard = self.file(index).read_bytes()
                if joined.read(len(shard)) != shard:
                    break
            else:
                if not joined.read(1):
                    return
        raise UserError(f"{output}: already exists, is another file and was not changed; give another name")
