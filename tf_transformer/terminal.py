"""What the command reads from its user, and how it writes to them."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tf_transformer.data.lines import GZIP_ERRORS, is_gzip, numbered_lines, one_line
from tf_transformer.errors import UserError

notes = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def speak_utf8() -> None:
    """Starts the command anew in Python's UTF-8 mode where the locale has another encoding.

    TensorFlow takes the names of files for UTF-8. Python must too, or the two write to different files.
    """
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


@contextmanager
def some_home() -> Iterator[None]:
    """Gives a process whose user has no home, or none to write to, a temporary one.

    Keras, TensorFlow and Matplotlib want a place for their settings. Without one they take a folder that all users of
    the machine share, or make one named ~ in the working directory.
    """
    home = os.path.expanduser("~")
    if os.path.isabs(home) and os.access(home, os.W_OK | os.X_OK):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="tf-transformer-") as folder:
        os.environ["HOME"] = folder
        yield


def keep_what_xla_compiles() -> None:
    """Has XLA write what it compiles to the user's cache, and read it there the next time; before TensorFlow starts."""
    cache = os.path.expanduser(os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tf_transformer", "xla"))
    try:
        os.makedirs(cache, exist_ok=True)
    except OSError:  # slower, and no mistake
        return
    os.environ.setdefault("TF_XLA_FLAGS", f"--tf_xla_persistent_cache_directory={cache}")


@contextmanager
def quiet_tensorflow(streams: bool = False) -> Iterator[None]:
    """Keeps TensorFlow's start-up notices from the user while it is imported; errors are still told by exceptions.

    Keras computes with TensorFlow then, in float32, whatever the user has chosen for other programs.

    With `streams` it works on several batches at once, each in one thread: a decoding step's operations are too small
    for two threads to share one, and oneDNN makes them slower (benchmarks/README.md has the figures).
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if streams:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    try:
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
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Arguments of the package whose options or settings have other names.
OTHER_NAMES = {
    **{name: "--" + name.replace("_", "-") for name in ("beam_size", "min_length", "max_length", "top_k", "top_p")},
    **{name: "--" + name for name in ("alpha", "temperature", "seed", "engine", "tokenize", "quantization")},
    "num_hypotheses": "--nbest",
    "replace_unknown": "--replace-unknown",
    "vocab_size": "tokenizer.vocab_size",
}


def in_the_users_words(message: str) -> str:
    """A UserError's message with the names that the command line and recipes have for the package's arguments.

    Only a message that begins with such a name is about them; any other may hold a file's name that looks like one.

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
    """Batches at once; CTranslate2 has threads of its own."""
    return cores() if engine == "tensorflow" else 1


def check_is_no_run(recipe: Path) -> None:
    """Raises a UserError where a run's folder is given for a recipe."""
    if not os.path.isfile(recipe / "recipe.yaml"):  # unlike pathlib's, it takes a name that is too long for a no
        return
    again = f"tf-transformer train {shlex.quote(str(recipe / 'recipe.yaml'))} --run-dir"
    if (recipe / "training_state").is_dir():
        raise UserError(f"{recipe}: a run, not a recipe; to go on with it: {again} {shlex.quote(str(recipe))}")
    raise UserError(f"{recipe}: a run that has ended, not a recipe; to train the like of it: {again} ANOTHER")


def check_is_no_file(model: Path) -> None:
    """Raises a UserError where a file stands in a model's place, other than a checkpoint."""
    if os.path.isfile(model) and model.suffix != ".keras":
        raise UserError(
            f"{model}: a file where the model comes; give a run's folder, RUN/checkpoints/FILE.keras or a SavedModel's "
            "folder first"
        )


def check_can_be_made(path: Path) -> None:
    """Raises a UserError where nothing of this name can be written."""
    nearest = next(folder for folder in path.parents if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(f"{path}: can't be written, {nearest} is no folder to write to; give another")


def check_new_files(html: Path | None, png: Path | None) -> None:
    """Raises a UserError where a page or a picture can't be written, or something is there already."""
    if html and html == png:
        raise UserError(f"{html}: can't be page and picture; give --html and --png two names")
    for file in filter(None, (html, png)):
        if file.exists():
            raise UserError(f"{file}: is there already and is left as it is; give another name")
        if not file.parent.is_dir():
            raise UserError(f"{file.parent}: no such folder; make it first, or give a file in another")
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
            raise UserError("standard input is closed; give a file of sentences, or give them on standard input")
        if sys.stdin.isatty():
            notes.print("sentences from the terminal, one a line; Ctrl-D ends them")
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        # What nobody would call a file.
        sentence = isinstance(error, FileNotFoundError) and " " in str(file) and not file.parent.name
        hint = f"; to translate a sentence: echo {shlex.quote(str(file))} | tf-transformer translate MODEL"
        raise _unreadable(str(file), error, hint if sentence else GIVE_A_FILE) from None


GIVE_A_FILE = "; give a file of sentences, one a line"


def _unreadable(name: str, error: OSError, advice: str = GIVE_A_FILE) -> UserError:
    return UserError(f"{name}: can't be read: {error.strerror}{advice}")


def read_lines(stream: io.BufferedReader, name: str) -> Iterator[str]:
    """Reads lines of UTF-8, plain or gzip, split at line feeds alone, so that one line in is one line out."""
    number = 0
    try:
        with stream, gzip.open(stream) if is_gzip(stream) else stream as lines:
            for number, line in numbered_lines(lines):
                try:
                    yield line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
                    ) from None
    except GZIP_ERRORS as error:
        raise UserError(
            f"{name} is no whole gzip file ({one_line(error)}; line {number:,} was reached): fetch or compress it again"
        ) from None
    except OSError as error:
        raise _unreadable(name, error) from None


@contextmanager
def telling_progress(file: Path | None) -> Iterator[Callable[[int], None]]:
    """Shows how many sentences are translated, where standard error is a terminal.

    Not where the translations themselves show it, in a terminal too.

    Args:
        file: what is translated; None for standard input, whose end nobody knows.

    Returns:
        A function that counts so many sentences more.
    """
    if not notes.is_terminal or sys.stdout.isatty():
        yield lambda done: None
        return
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
    lines = None
    if file and file.is_file():  # no pipe, which can be read but once
        with open_sentences(file) as stream:
            lines = sum(1 for _ in read_lines(stream, str(file)))
    with Progress(*columns, console=notes, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
        yield partial(progress.advance, progress.add_task("", total=lines))


def write_translation(number: int, translation: Any, as_json: bool, nbest: bool) -> None:
    hypotheses = [(translation.text, translation.score), *translation.others]
    if as_json:
        row = {"translation": translation.text, "score": translation.score, "truncated": translation.truncated}
        if nbest:
            row["nbest"] = [{"translation": text, "score": score} for text, score in hypotheses]
        _write_line(json.dumps(row, ensure_ascii=False))
    elif nbest:
        for text, score in hypotheses:
            _write_line(f"{number}\t{score:.4f}\t{text}")
    else:
        _write_line(translation.text)


def _write_line(text: str) -> None:
    """One line of output for one line of input, whatever line breaks a translation may hold, in any locale."""
    sys.stdout.buffer.write(" ".join(text.splitlines()).encode("utf-8") + b"\n")


def show_parse_scores(scores: dict[str, Any]) -> None:
    for part, told in (scores, "all lengths"), (scores["at_most_40_words"], "at most 40 words"):
        figures = ", ".join(f"{name} {part[name]:.2f}" for name in ("recall", "precision"))
        complete = f"complete match {part['complete_match']:.2f}"
        print(f"F1 {part['f1']:.2f}   {figures}, {complete}   {told}, {part['sentences']:,} sentences")
    for name, told in ("without_parse", "had no tree over their words"), ("mended", "had to be mended to be trees"):
        if scores.get(name):
            notes.print(f"{scores[name]:,} of {scores['sentences']:,} sentences {told}")


def show_scores(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, indent=2, ensure_ascii=False))
        return
    if "f1" in scores:
        show_parse_scores(scores)
    else:
        print(f"BLEU {scores['bleu']:.2f}   {scores['signature']}")
        print(f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}")
    if "lowercased" in scores:
        print(f"BLEU {scores['lowercased']['bleu']:.2f}   {scores['lowercased']['signature']}")
    if "perplexity" in scores:
        print(f"perplexity {scores['perplexity']:.3f} a token")
    left_out = scores["sentences"] - scores.get("perplexity_sentences", scores["sentences"])
    if left_out:
        notes.print(
            f"the perplexity leaves out {left_out:,} of {scores['sentences']:,} sentences, which are empty on a side, "
            "or longer than the model's positions"
        )
    if scores.get("truncated"):
        notes.print(f"{scores['truncated']:,} of {scores['sentences']:,} sentences were cut to the model's positions")
