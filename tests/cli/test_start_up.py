"""A SavedModel is run without TensorFlow for Python, and a line from a pipe is answered when it comes."""

import os
import signal
import subprocess
import time

import pytest

from tests.bounded import SECONDS, started, turned_on, within
from tests.cli.command import COMMAND
from tests.tiny_run import MAX_LENGTH, PAIRS, write_pairs

# What takes seconds to import, and does nothing for a graph that is there.
HEAVY = {"tensorflow", "keras", "jax", "matplotlib", "tensorflow_text"}


def run_noting_imports(*words):
    """Runs the command; gives the process that has ended, and what was imported."""
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    process = subprocess.run([COMMAND, *words], capture_output=True, text=True, env=environment, timeout=SECONDS)
    noted = [line.rpartition("|")[2] for line in process.stderr.splitlines() if line.startswith("import time:")]
    return process, {name.strip().partition(".")[0] for name in noted}


@pytest.mark.parametrize("name", ["translate", "evaluate", "inspect"])
def test_nothing_heavy_is_imported_for_a_saved_model(tiny_saved_model, tmp_path, name):
    source, target = write_pairs(tmp_path, PAIRS[:2])
    words = {
        "translate": [source, "--beam-size", "1"],
        "evaluate": ["--source", source, "--reference", target],
        "inspect": [PAIRS[0][0], "--html", tmp_path / "page.html"],
    }[name]
    process, imported = run_noting_imports(name, tiny_saved_model, *words)
    assert process.returncode == 0
    assert "tf_transformer" in imported and not imported & HEAVY
    expected = {
        "translate": "".join(f"{target}\n" for _, target in PAIRS[:2]),
        "evaluate": "BLEU 100.00",
        "inspect": f"{PAIRS[0][1]}\n",
    }
    assert process.stdout.startswith(expected[name])


@pytest.fixture
def begun(tiny_saved_model):
    """The command, reading from a pipe."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with started([COMMAND, "translate", tiny_saved_model], **pipes, preexec_fn=turned_on) as process:
        yield process


def say(process, line: str) -> None:
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()


def test_a_line_is_answered_before_the_next_one_comes(begun):
    """And a letter of which half has come is no letter yet."""
    for source, target in PAIRS[:3]:
        say(begun, source)
        assert within(begun.stdout.readline).decode() == target + "\n"  # the pipe is still open: nothing else would end
    first, second = "The child finds ä".encode()[:-1], "ä house.\n".encode()[1:]
    begun.stdin.write(first)
    begun.stdin.flush()
    time.sleep(0.3)
    begun.stdin.write(second)
    begun.stdin.flush()
    assert within(begun.stdout.readline).endswith(b"\n")
    out, err = begun.communicate(b"\nA man sees a house.", timeout=SECONDS)  # the last line without an end
    assert (out.decode(), err, begun.returncode) == ("\nEin Mann sieht ein Haus.\n", b"", 0)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param(b"A \xff man\n", "standard input, line 2: not valid UTF-8 at byte 3", marks=pytest.mark.thorough),
        (b"house " * 2 * MAX_LENGTH + b"\n", "standard input, line 2: longer than the model's maximum length"),
    ],
)
def test_a_mistake_ends_it_though_the_pipe_is_open(begun, line, told):
    say(begun, "A man sees a house.")
    assert within(begun.stdout.readline) == b"Ein Mann sieht ein Haus.\n"
    begun.stdin.write(line)
    begun.stdin.flush()
    assert begun.wait(timeout=SECONDS) == 2
    message = begun.stderr.read().decode()
    assert message.startswith(f"tf-transformer: {told}") and message.count("\n") == 1


def test_ctrl_c_ends_it_while_it_waits_for_a_line(begun):
    say(begun, "A man sees a house.")
    within(begun.stdout.readline)
    begun.send_signal(signal.SIGINT)
    assert begun.wait(timeout=SECONDS) == 130
    assert begun.stderr.read() == b""


def test_a_named_pipe_is_answered_line_by_line(tiny_saved_model, tmp_path):
    os.mkfifo(tmp_path / "lines")
    pipe = tmp_path / "lines"
    with started([COMMAND, "translate", tiny_saved_model, pipe], stdout=subprocess.PIPE) as process:
        with within(lambda: open(pipe, "w")) as lines:
            print(PAIRS[0][0], file=lines, flush=True)
            assert within(process.stdout.readline).decode() == PAIRS[0][1] + "\n"
        assert (within(process.stdout.read), process.wait(timeout=SECONDS)) == (b"", 0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("translate {}/none", "neither a run nor a SavedModel (no such folder)"),
        ("translate {run}/checkpoints/none.keras", "none.keras: no such checkpoint"),
        ("translate {run} --engine ctranslate", "--engine is ctranslate; choose from tensorflow, ctranslate2"),
        ("export {run} {} --format argos", "a package ends in .argosmodel"),
        ("export {run} {} --format marian", "the folder is not empty"),
        ("export {run} {source}", "a file; give a folder such as savedmodels/NAME"),
        ("train {run}/recipe.yaml --run-dir {run}", "contains a finished training"),
        ("train {run}/recipe.yaml --run-dir {}/new --set data.root={}/none", "none/pairs.en does not exist"),
        ('prepare {run}/recipe.yaml --run-dir {}/new --set evaluation.also={{"x":[x.en,x.de]}}', "x.en does not exist"),
        ("import {} {}/new", "{}: no config.json there"),
        ("import {source} {run}", "exists and was not changed"),
        ("evaluate {}/none --source {source} --reference {source}", "neither a run nor a SavedModel (no such folder)"),
    ],
)
def test_a_mistake_is_told_before_anything_is_loaded(tiny_run_directory, tmp_path, words, told):
    source, _ = write_pairs(tmp_path)
    run = tiny_run_directory.path
    process, imported = run_noting_imports(*(word.format(tmp_path, run=run, source=source) for word in words.split()))
    assert process.returncode == 2 and told.format(tmp_path) in process.stderr
    assert "tf_transformer" in imported and not imported & HEAVY
