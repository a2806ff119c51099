"""Where the process itself matters: its output, its status, its end."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.bounded import SECONDS, eventually, started, turned_on, within
from tests.cli.command import COMMAND, train_on
from tests.eager import eagerly
from tests.tiny_run import MAX_LENGTH, RECIPE, settings, write_pairs


def test_standard_error_holds_the_mistake_alone(mistakes):
    """No notice of TensorFlow's, neither from loading it nor from using it; and no wait for the end of the input."""
    words = [COMMAND, "translate", mistakes / "versions" / "3", "--nbest", "2"]
    with started(words, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)) as process:
        process.stdin.write(b"A man sees a house.\n\n" + b"house " * 2 * MAX_LENGTH + b"\n")
        process.stdin.flush()
        assert process.wait(timeout=SECONDS) == 2
        out, err = process.stdout.read().decode(), process.stderr.read().decode()
    rows = [line.split("\t") for line in out.splitlines()]
    assert [number for number, *_ in rows] == ["1", "1", "2"]
    assert [rows[0][2], rows[2][2]] == ["Ein Mann sieht ein Haus.", ""]
    assert err.startswith("tf-transformer: standard input, line 3: longer than the model's maximum length")
    assert err.count("\n") == 1


@pytest.mark.thorough
def test_training_stopped_by_a_mistake_is_quiet_too(mistakes):
    """Also where the user's other programs have chosen another backend of Keras: commands need TensorFlow's."""
    words = [str(word).replace("{}", str(mistakes)) for word in train_on("tokenizer.vocab_size=5000")]
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    process = subprocess.run([COMMAND, *words], capture_output=True, timeout=SECONDS, env=environment)
    assert (process.returncode, process.stdout) == (2, b"")
    assert process.stderr.startswith(b"tf-transformer: tokenizer.vocab_size 5000 is larger than")
    assert process.stderr.count(b"\n") == 1


def test_a_reader_who_goes_is_no_reason_to_complain(tiny_saved_model, tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("A man sees a house.\n" * 10_000)  # more than a pipe holds
    words = [COMMAND, "translate", tiny_saved_model, file, "--batch-size", "1"]
    with started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert within(process.stdout.readline) == b"Ein Mann sieht ein Haus.\n"
        process.stdout.close()
        assert process.wait(timeout=SECONDS) == 128 + signal.SIGPIPE  # long before the last line
        assert within(process.stderr.read) == b""


@pytest.mark.thorough
def test_a_shell_takes_it_for_a_closed_pipe(tiny_saved_model, tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("A man sees a house.\n" * 20_000)
    script = '"$0" translate "$1" "$2" --batch-size 1 | head -1; echo "${PIPESTATUS[@]}"'
    words = ["bash", "-c", script, COMMAND, tiny_saved_model, file]
    process = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    assert (process.stdout, process.stderr) == ("Ein Mann sieht ein Haus.\n141 0\n", "")


@pytest.mark.parametrize(
    ("closed", "told"), [("<&-", "standard input is closed"), (">&-", "standard output is closed"), ("2>&-", "")]
)
def test_a_stream_that_is_closed(mistakes, closed, told):
    """No file that is opened takes its place: with standard error closed, the mistake goes nowhere else."""
    script = f'exec "$0" translate "$1" $2 {closed}'
    file = [] if told else [mistakes / "none.en"]
    words = ["sh", "-c", script, COMMAND, mistakes / "versions" / "3", *file]
    process = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith(f"tf-transformer: {told}" if told else "")
    assert process.stderr.count("\n") == bool(told)


def test_a_command_that_needs_no_standard_output(mistakes):
    process = subprocess.run(["sh", "-c", 'exec "$0" presets >&-', COMMAND], capture_output=True, timeout=SECONDS)
    assert process.returncode == 0
    assert b"Traceback" not in process.stderr


def test_ctrl_c_ends_a_translation_at_any_time(mistakes, tmp_path):
    """While modules are imported, while the model is loaded and while it works."""
    file, out, err = (tmp_path / name for name in ("sources.txt", "out", "err"))
    file.write_text("A man sees a house.\n" * 100_000)
    words = [COMMAND, "translate", mistakes / "versions" / "3", file]
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}

    def has_imported(module):
        return lambda: f" {module}\n" in err.read_text()

    # The first module once Ctrl-C is handled; the last that translating takes.
    modules = "tf_transformer.errors", "tf_transformer.session.signature"
    for is_at_it in *map(has_imported, modules), lambda: out.stat().st_size:
        with (
            out.open("w") as stdout,
            err.open("w") as stderr,
            started(words, stdout=stdout, stderr=stderr, env=environment, preexec_fn=turned_on) as process,
        ):
            eventually(is_at_it)
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 130
        assert [line for line in err.read_text().splitlines() if not line.startswith("import time:")] == []


def test_a_reader_who_never_came_is_no_reason_to_complain():
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = subprocess.run(
            [COMMAND, "presets", "--json"], stdout=writing, stderr=subprocess.PIPE, timeout=SECONDS
        )
    finally:
        os.close(writing)
    assert process.returncode == 128 + signal.SIGPIPE
    assert process.stderr == b""


def test_ctrl_c_leaves_a_checkpoint_that_translates(command, tmp_path):
    write_pairs(tmp_path)
    replaced = settings(
        tmp_path, training__steps=10**6, training__validate_every=10**6, training__distribution="mirrored"
    )
    words = [COMMAND, "train", RECIPE, "--run-dir", tmp_path / "run"]
    words += [word for setting in replaced for word in ("--set", setting)]
    checkpoints = tmp_path / "run" / "checkpoints"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(words, **pipes, preexec_fn=turned_on) as process:
        while not within(process.stderr.readline).startswith("first step: "):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        out, err = process.stdout.read(), process.stderr.read()
    assert out == "" and "Traceback" not in err
    assert "interrupted; the same command resumes from step" in err
    # The model as it was is saved too, and is all that a translation needs.
    assert list(checkpoints.iterdir()) == [checkpoints / "interrupted.keras"]
    with eagerly():
        outcome = command("translate", tmp_path / "run", "--beam-size", 1, stdin=b"A man sees a house.\n\n")
    assert outcome.status == 0
    assert len(outcome.lines) == 2


@pytest.mark.slow
def test_what_xla_compiles_is_kept(tmp_path):
    """A second training finds all of it, and compiles nothing again."""
    write_pairs(tmp_path)
    changes = {"training__jit_compile": "true", "training__steps": 6, "training__validate_every": 6}
    replaced = settings(tmp_path, **changes, evaluation__beam_size=1)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "my cache")}
    environment.pop("TF_XLA_FLAGS", None)

    def train(run):
        words = [COMMAND, "train", RECIPE, "--run-dir", tmp_path / run]
        words += [word for setting in replaced for word in ("--set", setting)]
        outcome = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert outcome.returncode == 0, outcome.stderr
        assert re.search(r"first step: [\d.]+ s, in which the model was traced and compiled\n", outcome.stderr)
        compiled = list((tmp_path / "my cache" / "tf_transformer" / "xla").glob("*/*"))
        assert compiled and all(path.suffix == ".pb" for path in compiled)
        return {path: path.stat().st_mtime_ns for path in compiled}

    assert train("first") == train("second")


WITH_SOMETHING_TO_TAKE_APART = """
import atexit, os, sys
from tf_transformer import cli

class Slow:
    def __del__(self, write=os.write):
        write(1, b"taken apart")

def main():
    atexit.register(print, "what is to run at the end")
    print("done", file=sys.stderr)
    {main}

sys.slow, cli.main = Slow(), main
cli.command()
"""


@pytest.mark.parametrize(
    ("main", "status", "told"),
    [
        ("pass", 0, ""),
        ("sys.exit(2)", 2, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('a mistake')", 1, "a mistake\n"),
        ("raise ValueError", 1, "ValueError\n"),
    ],
)
def test_it_ends_without_taking_apart_what_it_used(main, status, told):
    code = WITH_SOMETHING_TO_TAKE_APART.format(main=main)
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS)
    assert outcome.returncode == status
    assert outcome.stdout == "what is to run at the end\n"
    assert outcome.stderr.startswith("done\n")
    assert outcome.stderr.endswith(told or "done\n")
