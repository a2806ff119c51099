"""What the command reads from its user, and how it writes to them."""

from __future__ import annotations

import codecs
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

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

    With `streams` it works on several batches at once, each in one thread: a decoding step's operations are too small
    for two threads to share one, and oneDNN makes them slower (benchmarks/README.md has the figures).
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if streams:
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    sys.stderr.flush()
    saved = os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)
    try:
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


def streams_of(engine: str) -> int:
    """Batches at once; CTranslate2 has threads of its own."""
    return cores() if engine == "tensorflow" else 1


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def read_lines(file: Path | None, name: str) -> Iterator[str]:
    """Reads lines of UTF-8, split at line feeds alone, so that one line in is one line out."""
    try:
        stream = sys.stdin.buffer if file is None else file.open("rb")
        with stream:
            for number, line in enumerate(stream, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                try:
                    yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{name}, line {number}: byte {error.start + 1} is not UTF-8; convert the file to UTF-8"
                    ) from None
    except OSError as error:
        raise UserError(f"{name}: can't be read: {error.strerror}; give a file of sentences, one a line") from None


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


def show_scores(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(scores, indent=2, ensure_ascii=False))
        return
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
    if scores["truncated"]:
        notes.print(f"{scores['truncated']:,} of {scores['sentences']:,} sentences were cut to the model's positions")
