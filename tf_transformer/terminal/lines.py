"""Lines that a command reads and writes, and its progress."""

from __future__ import annotations

import gzip
import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tf_transformer.data.lines import GZIP_ERRORS, damaged_gzip, decoded, is_gzip, numbered_lines
from tf_transformer.errors import UserError
from tf_transformer.files.as_json import finite
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.windows import grows

GIVE_A_FILE = "; give a file of sentences, one per line"


def open_sentences(
    file: Path | None, command: str | None = "translate", advice: str = GIVE_A_FILE
) -> tuple[io.BufferedReader, str]:
    """Opens a file of sentences, or standard input unless one is given.

    Args:
        file: the file.
        command: what a sentence that was given in place of a file is for; None where none is taken.
        advice: what to do if the file can't be read.

    Returns:
        The stream, and its name for messages.

    Raises:
        UserError: it can't be opened.
    """
    if file is None:
        if sys.stdin is None:
            raise UserError("standard input is closed; give a file of sentences, or pipe them to the command")
        if sys.stdin.isatty():
            notes.print("type sentences, one per line; end with Ctrl-D")
        # A file of its own where it is the system's: whoever waits for a line in a thread must not hold Python's, which
        # is closed when the command ends.
        if grows(sys.stdin.buffer):
            return open(os.dup(sys.stdin.fileno()), "rb"), "standard input"
        return sys.stdin.buffer, "standard input"
    try:
        return file.open("rb"), str(file)
    except OSError as error:
        # Not something that anyone would name a file.
        sentence = isinstance(error, FileNotFoundError) and " " in str(file) and not file.parent.name
        hint = f"; to {command} a sentence: echo {shlex.quote(str(file))} | tf-transformer {command} MODEL"
        raise _unreadable(str(file), error, hint if sentence and command else advice) from None


def _unreadable(name: str, error: OSError, advice: str = GIVE_A_FILE) -> UserError:
    return UserError(f"{name}: can't be read: {error.strerror}{advice}")


def read_lines(stream: io.BufferedReader, name: str) -> Iterator[str]:
    """Reads lines of UTF-8, plain or gzip; only line feeds end a line, so that each line gives one line of output."""
    number = 0
    try:
        with stream, gzip.open(stream) if is_gzip(stream) else stream as lines:
            for number, line in numbered_lines(lines):
                yield decoded(line, name, number)
    except GZIP_ERRORS as error:
        raise damaged_gzip(name, error, number) from None
    except OSError as error:
        raise _unreadable(name, error) from None


@contextmanager
def telling_progress(file: Path | None) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar of translated sentences if standard error is a terminal.

    No bar is shown if standard output is a terminal too: the translations themselves show the progress.

    Args:
        file: the file that is translated; None for standard input, whose length is unknown.

    Returns:
        A function that adds a number of sentences to the count.
    """
    if not notes.is_terminal or sys.stdout.isatty():
        yield lambda done: None
        return
    lines = None
    if file and file.is_file():  # not a pipe, which can be read only once
        lines = sum(1 for _ in read_lines(*open_sentences(file)))
    with progress_bar(lines) as advance:
        yield advance


@contextmanager
def progress_bar(lines: int | None) -> Iterator[Callable[[int], None]]:
    """Shows a bar of translated sentences, of so many; see `telling_progress`."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    left = [TextColumn("left"), TimeRemainingColumn()]
    columns = TextColumn("translated"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *left
    with Progress(*columns, console=notes, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        yield partial(progress.advance, progress.add_task("", total=lines))


def output_lines(
    name: str,
    lines: Iterable[tuple[int, str]],
    translations: Iterable[Any],
    *,
    as_json: bool = False,
    nbest: bool = False,
    paragraphs: bool = False,
    cut: bool = False,
) -> Iterator[bytes]:
    """What is printed of the translations of lines.

    Args:
        name: where the lines are from, for messages.
        lines: the lines, each with its number.
        translations: one for each line, in order; with `paragraphs` each is a `Paragraph`.
        as_json: whether each is printed as JSON.
        nbest: whether all hypotheses are printed.
        paragraphs: whether a line is a paragraph of several sentences.
        cut: whether lines may have been cut to the model's maximum length.

    Raises:
        UserError: a line was cut that may not be.
    """
    for (number, _), translation in zip(lines, translations, strict=True):
        if translation.truncated and not cut:
            raise UserError(
                f"{name}, line {number}: longer than the model's maximum length; split the sentence, or give --cut to "
                "translate only its beginning"
            )
        if paragraphs:
            yield paragraph_line(translation, as_json)
        else:
            yield translation_line(number, translation, as_json, nbest)


def translation_line(number: int, translation: Any, as_json: bool, nbest: bool) -> bytes:
    """What is printed of a translation: a line, or several of n-best ones."""
    hypotheses = [(translation.text, translation.score), *translation.others]
    if as_json:
        row = _row(translation)
        if nbest:
            row["nbest"] = [{"translation": text, "score": score} for text, score in hypotheses]
        return _one_line(json.dumps(finite(row), ensure_ascii=False))
    if nbest:
        return b"".join(_one_line(f"{number}\t{score:.4f}\t{text}") for text, score in hypotheses)
    return _one_line(translation.text)


def paragraph_line(paragraph: Any, as_json: bool) -> bytes:
    """What is printed of a paragraph's translation: one line, with the blanks of the source.

    Scores are those of sentences: as JSON each has its own row.
    """
    if not as_json:
        return paragraph.text.encode("utf-8") + b"\n"
    sentences = [
        {"source": source, **_row(translation)}
        for source, translation in zip(paragraph.sources, paragraph.sentences, strict=True)
    ]
    row = {"translation": paragraph.text, "truncated": paragraph.truncated, "sentences": sentences}
    return json.dumps(finite(row), ensure_ascii=False).encode("utf-8") + b"\n"


def _row(translation: Any) -> dict[str, Any]:
    return {"translation": translation.text, "score": translation.score, "truncated": translation.truncated}


def _one_line(text: str) -> bytes:
    """One line, as UTF-8 in any locale; line breaks inside a translation become spaces."""
    return " ".join(text.splitlines()).encode("utf-8") + b"\n"
