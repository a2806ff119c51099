"""Input, output and messages of the command line."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tf_transformer.data.lines import GZIP_ERRORS, damaged_gzip, decoded, is_gzip, numbered_lines
from tf_transformer.errors import UserError
from tf_transformer.windows import grows

if TYPE_CHECKING:
    from tf_transformer.session.signature import Signature
    from tf_transformer.translation import LoadSignature

notes = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def speak_utf8() -> None:
    """Restarts the command in Python's UTF-8 mode if the locale has another encoding.

    TensorFlow takes file names to be UTF-8. Python must do the same, or the two write to different files.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


@contextmanager
def some_home() -> Iterator[None]:
    """Sets a temporary home directory if the user has none, or none that can be written to.

    Keras, TensorFlow and Matplotlib store settings there. Without a home they use a folder that all users of the
    machine share, or create one named ~ in the working directory.
    """
    home = os.path.expanduser("~")
    if os.path.isabs(home) and os.access(home, os.W_OK | os.X_OK):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tf-transformer-") as folder:
        os.environ["HOME"] = folder
        yield


def keep_what_xla_compiles() -> None:
    """Makes XLA keep compiled programs in the user's cache. To be called before TensorFlow starts."""
    cache = os.path.expanduser(os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tf_transformer", "xla"))
    try:
        os.makedirs(cache, exist_ok=True)
    except OSError:  # works without a cache, only slower
        return
    os.environ.setdefault("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory={cache}")


@contextmanager
def quiet_tensorflow(streams: bool = False, session: bool = False) -> Iterator[None]:
    """Hides TensorFlow's start-up notices while it is loaded; errors are still raised as exceptions.

    Keras then uses TensorFlow and float32, whatever the user has configured for other programs.

    With `streams`, TensorFlow works on several batches at once, each in one thread: the operations of a decoding step
    are too small to be split over threads, and oneDNN makes them slower (figures: benchmarks/README.md).

    With `session`, TensorFlow's library is loaded without TensorFlow for Python; see `tf_transformer.session`.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if streams:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    with _silent_standard_error():
        if session:
            from tf_transformer.session.c_api import library

            with ThreadPoolExecutor(1) as thread:
                loading = thread.submit(library)  # while the block imports what it needs
                yield
                loading.result()
            return
        import keras

        keras.config.set_floatx("float32")
        yield
        import tensorflow as tf

        if streams:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(cores())
        # The first device look-up prints notices of its own.
        tf.config.list_physical_devices()
        tf.get_logger().setLevel("ERROR")


@contextmanager
def _silent_standard_error() -> Iterator[None]:
    sys.stderr.flush()
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def session_loader(
    models: Path | Sequence[Path], engine: str = "tensorflow", optimise: bool = False
) -> LoadSignature | None:
    """What loads a SavedModel's signatures without importing TensorFlow for Python, which takes seconds.

    Args:
        models: what the user gave as a model, or as models of an ensemble, none of which is a SavedModel.
        engine: what is to run it.
        optimise: whether its graph is made faster first, which pays where thousands of sentences are.

    Returns:
        What `tf_transformer.translation.load_signature` takes; None for a model of another kind, and where TensorFlow
        was installed without its C library.
    """
    from tf_transformer.session.c_api import find_library

    model, *others = [models] if isinstance(models, Path) else models
    if engine != "tensorflow" or others or not os.path.isfile(model / "saved_model.pb") or find_library() is None:
        return None

    def load(path: Path, name: str) -> Signature | None:
        from tf_transformer.session.signature import load_in_session

        return load_in_session(path, name, cores(), optimise)

    return load


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Arguments of the package, with the names of their command-line options or recipe keys.
OTHER_NAMES = {
    **{name: "--" + name.replace("_", "-") for name in ("beam_size", "min_length", "max_length", "top_k", "top_p")},
    "no_repeat_ngram_size": "--no-repeat-ngram-size",
    **{name: "--" + name for name in ("alpha", "temperature", "seed", "engine", "tokenize", "quantization", "unit")},
    "num_hypotheses": "--nbest",
    "replace_unknown": "--replace-unknown",
    "protect": "--protect",
    "vocab_size": "tokenizer.vocab_size",
    "layers": "training.freeze",
}


def in_the_users_words(message: str) -> str:
    """A UserError's message with the package's argument names replaced by those of the command line and of recipes.

    Only messages that begin with an argument's name are changed: others may contain a file name that looks like one.

    Example:
        >>> in_the_users_words("num_hypotheses is 5; it must be at most beam_size, 4")
        '--nbest is 5; it must be at most --beam-size, 4'
        >>> in_the_users_words("data/seed: no such file")
        'data/seed: no such file'
    """
    if re.match(r"\w*", message)[0] not in OTHER_NAMES:
        return message
    return re.sub(rf"\b({'|'.join(OTHER_NAMES)})\b", lambda name: OTHER_NAMES[name[0]], message)


def streams_of(engine: str) -> int:
    """Number of batches to process at once; CTranslate2 uses threads of its own."""
    return cores() if engine == "tensorflow" else 1


def check_is_no_run(recipe: Path) -> None:
    """Raises a UserError if a run's folder is given in place of a recipe."""
    if not os.path.isfile(recipe / "recipe.yaml"):  # unlike pathlib's, it returns False for a name that is too long
        return
    again = f"tf-transformer train {shlex.quote(str(recipe / 'recipe.yaml'))} --run-dir"
    if (recipe / "training_state").is_dir():
        raise UserError(f"{recipe}: a run, not a recipe; to resume it: {again} {shlex.quote(str(recipe))}")
    raise UserError(f"{recipe}: a finished run, not a recipe; to train its recipe again: {again} NEW_FOLDER")


def check_is_no_file(model: Path) -> None:
    """Raises a UserError if a file that is not a checkpoint is given in place of a model."""
    if os.path.isfile(model) and model.suffix != ".keras":
        raise UserError(
            f"{model}: a file, where a model is expected; give the folder of a run, RUN/checkpoints/FILE.keras or the "
            "folder of a SavedModel as the first argument"
        )


def newest_version(model: Path) -> Path:
    """A model's path; of a folder of a SavedModel's versions, such as `savedmodels/demo`, that of the highest.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for version in ("9", "10"):
        ...         Path(folder, "demo", version).mkdir(parents=True)
        ...         Path(folder, "demo", version, "saved_model.pb").touch()
        ...     newest_version(Path(folder, "demo")).name
        '10'
    """
    if any(os.path.isfile(model / name) for name in ("saved_model.pb", "recipe.yaml")) or not os.path.isdir(model):
        return model
    versions = [file.parent for file in model.glob("*/saved_model.pb") if file.parent.name.isdecimal()]
    return max(versions, key=lambda version: int(version.name), default=model)


def check_can_be_made(path: Path) -> None:
    """Raises a UserError if no file of this name can be written."""
    nearest = next(folder for folder in path.parents if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(f"{path}: can't be written: {nearest} is not a folder you can write to; give another path")


def check_new_page_and_image(html: Path | None, png: Path | None) -> None:
    """Raises a UserError if a page or an image can't be written, or if the file exists."""
    if html and png and os.path.realpath(html) == os.path.realpath(png):
        raise UserError(f"{html}: given for both --html and --png; give two different files")
    for file in filter(None, (html, png)):
        check_new_file(file)


def check_new_file(file: Path) -> None:
    """Raises a UserError if a file can't be written, or if it exists."""
    if file.exists():
        raise UserError(f"{file}: already exists and was not changed; give another name")
    if not file.parent.is_dir():
        raise UserError(f"{file.parent}: no such folder; create it, or give a file in another folder")
    check_can_be_made(file)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def open_sentences(file: Path | None) -> io.BufferedReader:
    """Opens a file of sentences, or standard input.

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
        return open(os.dup(sys.stdin.fileno()), "rb") if grows(sys.stdin.buffer) else sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        # Not something that anyone would name a file.
        sentence = isinstance(error, FileNotFoundError) and " " in str(file) and not file.parent.name
        hint = f"; to translate a sentence: echo {shlex.quote(str(file))} | tf-transformer translate MODEL"
        raise _unreadable(str(file), error, hint if sentence else GIVE_A_FILE) from None


GIVE_A_FILE = "; give a file of sentences, one per line"


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
        with open_sentences(file) as stream:
            lines = sum(1 for _ in read_lines(stream, str(file)))
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


def translation_line(number: int, translation: Any, as_json: bool, nbest: bool) -> bytes:
    """What is printed of a translation: a line, or several of n-best ones."""
    hypotheses = [(translation.text, translation.score), *translation.others]
    if as_json:
        row = _row(translation)
        if nbest:
            row["nbest"] = [{"translation": text, "score": score} for text, score in hypotheses]
        return _one_line(json.dumps(row, ensure_ascii=False))
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
    return json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n"


def _row(translation: Any) -> dict[str, Any]:
    return {"translation": translation.text, "score": translation.score, "truncated": translation.truncated}


def _one_line(text: str) -> bytes:
    """One line, as UTF-8 in any locale; line breaks inside a translation become spaces."""
    return " ".join(text.splitlines()).encode("utf-8") + b"\n"
