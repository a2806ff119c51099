"""Text files, plain or gzip, read line by line; reports damaged files and files that change while being read."""

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tf_transformer.errors import UserError, reason

# A change in the middle of a long file is to be noticed before much of it is read.
LINES_BETWEEN_LOOKS = 1000

# What reading a gzip file raises that is cut off or damaged.
GZIP_ERRORS = (EOFError, zlib.error, gzip.BadGzipFile)

PACK_AGAIN = "download or compress it again"

# Advice at the end of messages, for pairs of which some may be left out.
OR_SKIP_DAMAGED = (
    '; training, or a source in Python, leaves out what can\'t be read if damaged is set to "skip" (data.damaged in a '
    "recipe)"
)
OR_SKIP_INVALID = (
    '; if just a few lines are damaged, training can leave them out: set invalid_utf8 to "skip" (in a recipe, '
    "data.invalid_utf8: skip)"
)


class Line(NamedTuple):
    """A line of a file, still undecoded, and where it stands."""

    path: Path
    number: int
    content: bytes


class Soundness(NamedTuple):
    """How many lines of a file may be read, and what is wrong with the others, if there is anything."""

    lines: int
    damage: str | None


class LineFile:
    r"""Streams the lines of a file, any number of times.

    Only "\n" ends a line: Python's text mode would also split at a lone "\r", and `str.splitlines` at U+2028
    and its like, and from there on every source sentence would stand beside the wrong target.

    A file that is gone, or has another size or time of change than at first, is never read on: what comes would not
    be what the run began with. (Its inode is not looked at: some network file systems have another one each time.)

    Args:
        path: The file.
        advice: What to do about a gzip file that is damaged, for the error.

    Raises:
        UserError: It is missing, a folder or unreadable.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "pairs.en"
        >>> _ = path.write_bytes(b"A dog runs.\r\nA man sings.\n")
        >>> [line.content for line in LineFile(path)]
        [b'A dog runs.', b'A man sings.']
        >>> LineFile(path).soundness()
        Soundness(lines=2, damage=None)
    """

    def __init__(self, path: Path, advice: str = PACK_AGAIN):
        self.path = path
        self._advice = advice
        with open_lines(path) as file:
            self._first_look = _look(file)

    def __iter__(self) -> Iterator[Line]:
        number = 0
        with self._open_again() as file:
            self._check_is_the_same(file, number)
            try:
                for number, content in numbered_lines(file):
                    yield Line(self.path, number, content)
                    if number % LINES_BETWEEN_LOOKS == 0:
                        self._check_is_the_same(file, number)
            except GZIP_ERRORS as error:
                self._check_is_the_same(file, number)
                raise damaged_gzip(self.path, error, number, self._advice) from error
            except OSError as error:
                raise UserError(
                    f"cannot read {self.path} ({reason(error)}; after line {number:,}): check its disk"
                ) from error
            self._check_is_the_same(file, number)

    def state(self) -> list:
        """The file's name, size in bytes and time of change in nanoseconds, as at first: what tells it from another."""
        return [str(self.path.absolute()), *self._first_look]

    def soundness(self) -> Soundness:
        """Reads the file once, to tell what is sound in it.

        What was written before a gzip file was cut off is. Where its content fails the checksum, nobody can say from
        which line on it is wrong, so nothing is.
        """
        number = 0
        try:
            for line in self:
                number = line.number
        except UserError as error:
            if isinstance(error.__cause__, EOFError):
                return Soundness(number, f"is cut off after line {number:,}")
            if isinstance(error.__cause__, GZIP_ERRORS):
                return Soundness(0, f"is damaged ({reason(error.__cause__)})")
            raise
        return Soundness(number, None)

    def _open_again(self) -> BinaryIO:
        if not self.path.exists():
            raise UserError(
                f"{self.path} is gone; it existed when reading began: restore it and give the command again"
            )
        return open_lines(self.path)

    def _check_is_the_same(self, file: BinaryIO, number: int) -> None:
        if _look(file) != self._first_look:
            raise not_the_same(self.path, "has changed since reading began", f"line {number:,}")


def open_lines(path: Path) -> BinaryIO:
    """Opens a plain or gzip file for reading bytes.

    Raises:
        UserError: it is missing, no regular file, or unreadable.
    """
    try:
        if not path.exists():
            where = "" if path.is_absolute() else f" in {Path.cwd()}, the current folder"
            raise UserError(f"{path} does not exist{where}: give the path of a text file, plain or gzip")
        if not path.is_file():  # a pipe is refused too: a corpus is read more than once
            raise UserError(f"{path} is not a regular file: give the path of a text file, plain or gzip")
        file = path.open("rb")
        if path.suffix != ".gz" and not is_gzip(file):
            return file
        file.close()
        return gzip.open(path)
    except OSError as error:
        raise UserError(f"cannot read {path} ({error.strerror}): check its permissions") from error


def is_gzip(file: io.BufferedReader) -> bool:
    """Whether what comes next in a file or a pipe is gzip, by its first bytes; they are left to be read."""
    return file.peek(2)[:2] == b"\x1f\x8b"


def numbered_lines(lines: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, without their ends and without the byte order mark that may stand before line 1."""
    for number, line in enumerate(lines, start=first):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def decoded(
    text: bytes, name: str | Path, number: int, advice: str = "convert the file to UTF-8", unit: str = "line"
) -> str:
    """A line, or another unit of a corpus, as text.

    Raises:
        UserError: it is not UTF-8; the file's name, the line's number and what to do are told.
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} (0x{text[error.start]:02x})"
        raise UserError(f"{name}, {unit} {number}: not valid UTF-8 at {byte}; {advice}") from None


@contextmanager
def nothing_to_be_left_out() -> Iterator[None]:
    """Within it, errors don't advise to leave damaged lines out."""
    try:
        yield
    except UserError as error:
        told = str(error).removesuffix(OR_SKIP_DAMAGED).removesuffix(OR_SKIP_INVALID)
        if told == str(error):
            raise
        raise UserError(told) from error.__cause__


def damaged_gzip(name: str | Path, error: Exception, number: int, advice: str = PACK_AGAIN) -> UserError:
    """The error of a gzip file that can't be read after so many lines."""
    return UserError(f"{name}: incomplete or damaged gzip file ({reason(error)}; after line {number:,}); {advice}")


def not_the_same(file: str | os.PathLike, what: str, place: str) -> UserError:
    """The error of a file that is no longer what reading began with."""
    return UserError(
        f"{file} {what} (after {place}): restore the original and give the command again, or start again with another "
        "(training in another folder)"
    )


def _look(file: BinaryIO) -> tuple[int, int]:
    state = os.fstat(file.fileno())
    return state.st_size, state.st_mtime_ns
