"""Writes files completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from tf_transformer.errors import UserError, reason, why_not_written

PARTIAL = ".partial-"  # what the name of a half-written file or folder begins with
REPLACED = ".replaced-"  # and that of a folder while another takes its place
AGAIN = "fix that, and give the command again"

# What file systems say that have no hard links, such as exFAT, shared folders of virtual machines, and some of FUSE's.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
# And those that sync no folders, such as VirtualBox's shared ones.
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}

# And what they say of a folder that is to get a name which another with files in it has.
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}


@contextmanager
def written_whole(path: Path, what: str, advice: str = AGAIN) -> Iterator[Path]:
    """Gives a file beside `path` to be written, which then takes its place; where that fails, nothing of it is left.

    Args:
        path: the file; one that is there already is replaced.
        what: what it is called in an error's message.
        advice: what the message tells to do.

    Raises:
        UserError: it can't be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> with written_whole(Path(mkdtemp()) / "notes.txt", "the notes") as partial:
        ...     _ = partial.write_text("whole")
    """
    with _beside(path, f"{PARTIAL}{path.name}", what, advice) as partial:
        yield partial
        sync(partial)
        partial.replace(path)
        sync(path.parent)


@contextmanager
def written_once(path: Path, what: str, advice: str = AGAIN) -> Iterator[Path]:
    """As `written_whole`, but what is there already stays, also where another process has just written it.

    Any number of processes, on any number of machines, may do this for the same file at the same time. On a file
    system without hard links the file is there for a moment before it has its content.

    Args:
        path: the file.
        what: what it is called in an error's message.
        advice: what the message tells to do.

    Raises:
        UserError: it can't be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> path = Path(mkdtemp()) / "notes.txt"
        >>> for text in "first", "second":
        ...     with written_once(path, "the notes") as partial:
        ...         _ = partial.write_text(text)
        >>> path.read_text()
        'first'
    """
    with _beside(path, _own_name(path), what, advice) as partial:
        yield partial
        if not path.exists():
            sync(partial)
            with suppress(FileExistsError):
                _take_name(partial, path)
            sync(path.parent)


@contextmanager
def written_new(path: Path, what: str, advice: str = AGAIN) -> Iterator[Path]:
    """As `written_once`, but where another file has the name at the end, that is an error.

    Args:
        path: the file.
        what: what it is called in an error's message.
        advice: what the message tells to do where it can't be written.

    Raises:
        UserError: it can't be written, or is there already.

    Example:
        >>> from tempfile import mkdtemp
        >>> with written_new(Path(mkdtemp()) / "notes.txt", "the notes") as partial:
        ...     _ = partial.write_text("new")
    """
    with _beside(path, _own_name(path), what, advice) as partial:
        yield partial
        sync(partial)
        try:
            _take_name(partial, path)
        except FileExistsError:
            raise UserError(
                f"{path}: {what} can't be written: another command has created this file, which was not "
                "changed; give another name"
            ) from None
        sync(path.parent)


@contextmanager
def written_at_end(path: Path, what: str) -> Iterator[TextIO]:
    """Gives a file without a name to be written bit by bit, whose text `path` gets at the end if nothing has failed.

    Unlike `written_new` it may be around work that can fail to write something else, which is not told of `path`.

    Args:
        path: the file.
        what: what it is called in an error's message.

    Raises:
        UserError: it can't be written at the end, or is there by then.

    Example:
        >>> from tempfile import mkdtemp
        >>> with written_at_end(Path(mkdtemp()) / "notes.txt", "the notes") as file:
        ...     print("whole", file=file)
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=path.parent) as file:
        yield file
        file.seek(0)
        with written_new(path, what) as partial, partial.open("w", encoding="utf-8") as written:
            shutil.copyfileobj(file, written)


@contextmanager
def folder_written_once(path: Path, partial: Path, what: str, advice: str = AGAIN) -> Iterator[Path]:
    """Gives a folder to be filled, which then gets its name; if another with files in it has it already, that stays.

    Args:
        path: the folder.
        partial: what it is called until then, on the same file system, and in this process alone.
        what: what it is called in an error's message.
        advice: what the message tells to do.

    Raises:
        UserError: it can't be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> for text in "first", "second":
        ...     with folder_written_once(folder / "notes", folder / ".partial", "the notes") as partial:
        ...         _ = (partial / "text").write_text(text)
        >>> (folder / "notes" / "text").read_text()
        'first'
    """
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        yield partial
        for file in (*partial.iterdir(), partial):
            sync(file)
        try:
            partial.rename(path)
        except OSError:
            if not path.is_dir() or not any(path.iterdir()):
                raise
        sync(path.parent)
    except OSError as error:
        raise UserError(f"{path}: {what} can't be written: {reason(error)}; {advice}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def folder_written_whole(path: Path) -> Iterator[Path]:
    """Gives a folder beside `path` to be filled, which then takes its place; where that fails, nothing of it is left.

    Unlike the others it raises what fails as it is, since its callers have words of their own for it.

    Args:
        path: the folder, or a link to it; its parents are made. One that is there already is replaced, and who has its
            files open can still read them. No other process may do this for it at the same time.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp()) / "notes"
        >>> for text in "first", "second":
        ...     with folder_written_whole(folder) as partial:
        ...         _ = (partial / "text").write_text(text)
        >>> (folder / "text").read_text()
        'second'
    """
    path = Path(os.path.realpath(path))  # the next time a folder could not take the place of a link
    partial, replaced = (path.with_name(f"{beginning}{path.name}") for beginning in (PARTIAL, REPLACED))
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        yield partial
        for file in (*partial.iterdir(), partial):
            sync(file)
        shutil.rmtree(replaced, ignore_errors=True)
        if path.exists():
            path.rename(replaced)
        partial.rename(path)
        sync(path.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    finally:
        if replaced.exists() and not path.exists():  # the new one did not get the name
            replaced.rename(path)
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def folder_written_new(
    path: Path,
    what: str,
    advice: str = "",
    errors: tuple[type[Exception], ...] = (OSError,),
    other: Callable[[], Path] | None = None,
) -> Iterator[Path]:
    """Gives a folder beside `path` to be filled, which then gets its name: nobody ever loads half of it.

    Args:
        path: the folder, which is not there yet or is empty, or a link to such a one; its parents are made.
        what: what it is called in an error's message.
        advice: what the message tells to do, if anything.
        errors: what tells that it can't be written.
        other: gives another name in the same folder, where `path` was taken meanwhile; without it that is an error.

    Raises:
        UserError: it can't be written; nothing of it is left.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp()) / "model"
        >>> with folder_written_new(folder, "the model") as partial:
        ...     _ = (partial / "weights").write_text("whole")
        >>> (folder / "weights").read_text()
        'whole'
    """
    target = Path(os.path.realpath(path))  # what a link names; the link itself can't become a folder
    # With a random part: in containers with one host name each process may be number 1, and one may have been killed.
    partial = target.with_name(f"{_own_name(target)}-{secrets.token_hex(4)}")
    try:
        partial.mkdir(parents=True)
        yield partial
        while True:
            try:
                partial.rename(target)
                break
            except OSError as error:
                if other is None or error.errno not in _TAKEN:
                    raise
                target = Path(os.path.realpath(other()))
    except errors as error:
        to_do = f"; {advice}" if advice else ""
        raise UserError(f"{path}: {what} can't be written: {why_not_written(error)}{to_do}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _own_name(path: Path) -> str:
    """What a file or folder is called until it has its name: in this process alone, among those of all machines."""
    return f"{PARTIAL}{path.name}-{socket.gethostname()}-{os.getpid()}"


def _take_name(partial: Path, path: Path) -> None:
    """Gives a file its name; raises FileExistsError if another has it."""
    try:
        os.link(partial, path)  # unlike a renaming it replaces nothing
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        path.touch(exist_ok=False)  # so that the name is nobody else's
        try:
            partial.replace(path)
        except BaseException:
            path.unlink()
            raise


@contextmanager
def _beside(path: Path, name: str, what: str, advice: str) -> Iterator[Path]:
    """Gives a file of that name beside `path`, which is removed at the end; a failure to write is told of `path`."""
    partial = path.with_name(name)
    try:
        yield partial
    except OSError as error:
        raise UserError(f"{path}: {what} can't be written: {reason(error)}; {advice}") from None
    finally:
        with suppress(OSError):  # where it could not even be made, such as inside a file
            partial.unlink()


def sync(path: Path) -> None:
    """Has the system write a file, or the names in a folder, to the disk; the latter where it can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
