"""Checksums of a folder's files, to find damaged files.

`SHA256SUMS` is in the format of `sha256sum`: `sha256sum -c SHA256SUMS`, run in the folder, checks it too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_whole

CHECKSUMS = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  (.+)\n")


def write_checksums(folder: str | os.PathLike, names: Iterable[str] | None = None) -> None:
    """Writes `SHA256SUMS` into a folder.

    Args:
        folder: where the files are.
        names: the files' names, relative to the folder; all that lie in it unless given.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> _ = (folder / "letter.txt").write_text("dear")
        >>> write_checksums(folder)
        >>> check_checksums(folder, "copy it again")
        >>> _ = (folder / "letter.txt").write_text("bear")
        >>> check_checksums(folder, "copy it again")  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        UserError: /tmp/.../letter.txt: damaged, its checksum differs from SHA256SUMS; copy it again
    """
    folder = Path(folder)
    if names is None:
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {CHECKSUMS}
    lines = [f"{digest(folder / name)}  {name}\n" for name in sorted(names)]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8", newline="\n")


def check_checksums(folder: str | os.PathLike, remedy: str) -> None:
    """Checks a folder's files against its `SHA256SUMS`; one without, of an earlier version, passes.

    Files that it does not list are not looked at.

    Args:
        folder: where the files are.
        remedy: what to do about damage, the end of the error's message.

    Raises:
        UserError: a file is damaged, missing or can't be read, or `SHA256SUMS` itself is damaged.
    """
    folder = Path(folder)
    sums = folder / CHECKSUMS
    try:
        text = sums.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{sums}: can't be read ({error}); {remedy}") from None
    lines = [_LINE.fullmatch(line) for line in text.splitlines(keepends=True)]
    if not lines or not all(line and _lies_inside(line[2]) for line in lines):
        raise UserError(f"{sums}: damaged, not a list of checksums; {remedy}")
    for expected, name in (line.groups() for line in lines):
        try:
            found = digest(folder / name)
        except OSError as error:
            raise UserError(f"{folder / name}: can't be read ({error.strerror}); {remedy}") from None
        if found != expected:
            raise UserError(f"{folder / name}: damaged, its checksum differs from {CHECKSUMS}; {remedy}")


def replace_checked(folder: str | os.PathLike, name: str, text: str, what: str) -> None:
    """Replaces one file of a folder, and its checksum; the folder passes the check at any moment.

    The other files are not read, unless the folder has no `SHA256SUMS`, which is then written.

    Args:
        folder: where the files are.
        name: the file's name.
        text: what it gets.
        what: what is replaced, for an error's message.

    Raises:
        UserError: a file can't be written.
    """
    folder = Path(folder)
    sums = folder / CHECKSUMS
    if not sums.exists():
        (folder / name).write_text(text, encoding="utf-8")
        return write_checksums(folder)
    others = [line for line in sums.read_text("utf-8").splitlines(keepends=True) if not line.endswith(f"  {name}\n")]
    own = f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
    # Meanwhile without a checksum of the file: either would be wrong, should this be interrupted.
    for path, content in ((sums, "".join(others)), (folder / name, text), (sums, "".join([own, *others]))):
        with written_whole(path, what) as partial:
            partial.write_text(content, encoding="utf-8", newline="\n")


def _lies_inside(name: str) -> bool:
    path = Path(name)
    return "\0" not in name and not path.is_absolute() and ".." not in path.parts


def digest(path: Path) -> str:
    """A file's SHA-256, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
