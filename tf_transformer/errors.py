"""Errors that the command reports in one line."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class UserError(ValueError):
    """A mistake in the user's input. The message is one line that says what is wrong, where, and what to do.

    The command `tf-transformer` prints the message without a traceback and exits with status 2.

    Example:
        >>> from tf_transformer import DecodingOptions
        >>> DecodingOptions(beam_size=0)
        Traceback (most recent call last):
        tf_transformer.errors.UserError: beam_size is 0; it must be at least 1
    """


class OutOfMemory(UserError):
    """Memory ran out. The settings may be right: on a larger or less busy machine the same command may succeed."""


@contextmanager
def telling_out_of_memory(where: Callable[[], str], advice: str) -> Iterator[None]:
    """Within it, running out of memory is an `OutOfMemory`, of one line. Of several contexts the outermost tells.

    Args:
        where: says at what it happened; called only then.
        advice: what the message tells to do.

    Example:
        >>> with telling_out_of_memory(lambda: "in a search", "lower the beam size"):
        ...     raise MemoryError
        Traceback (most recent call last):
        tf_transformer.errors.OutOfMemory: out of memory in a search; lower the beam size
    """
    try:
        yield
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        raise OutOfMemory(f"out of memory {where()}; {advice}") from error


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | OutOfMemory):
        return True
    # What TensorFlow raises, for a full disk too, goes by its name: commands that use its C library alone do not import
    # it. That library and CTranslate2 raise a RuntimeError.
    of_library = isinstance(error, RuntimeError) or type(error).__name__ == "ResourceExhaustedError"
    return of_library and re.search(r"\bOOM\b|out of memory", str(error), re.IGNORECASE) is not None


def check_is_list(texts: Any, name: str) -> None:
    """Raises a UserError for one string where a list of them is wanted: it would be taken letter by letter."""
    if isinstance(texts, str | bytes):
        raise UserError(f"{name} is one string; give a list of strings, one for each sentence: [{texts[:40]!r}, ...]")


def reason(error: Exception) -> str:
    """Why something failed, in one line: the system's word for it, or the error's own message, cut where it is long."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    text = " ".join(text.split()) or type(error).__name__
    return text if len(text) <= 300 else text[:300] + "..."


def why_not_written(error: Exception) -> str:
    """Why something can't be written, in one line."""
    # Of a full disk TensorFlow's message names only a file.
    full = type(error).__name__ == "ResourceExhaustedError"
    return "no space left on device, or a quota is reached" if full else reason(error)


class Preempted(Exception):
    """A training, or a sweep, was stopped by SIGTERM; the same command goes on with what was saved.

    The command `tf-transformer` exits with status 75, the system's status for "try again later".
    """


class WorkerLost(RuntimeError):
    """Another worker, or a whole machine, stopped or is missing; the same command may succeed if given again.

    The command `tf-transformer` prints the message without a traceback and exits with status 75, as for `Preempted`.
    """
