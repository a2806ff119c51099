"""A SavedModel is run without TensorFlow for Python, and a line from a pipe is answered when it comes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.bounded import SECONDS, started, turned_on, within
from tests.cli.command import COMMAND
from tests.tiny_run import MAX_LENGTH, PAIRS, write_pairs

# What takes seconds to import, and does nothing for a graph that is there.
HEAVY = {"tensorflow", "keras", "jax", "matplotlib", "tensorflow_text"}

# Runs commands one after another; notes of each how it ended, and what was imported for it that was not there yet.
NOTING_IMPORTS = """
import json, sys
from tests.cli.several_commands import run

outcomes, before = [], set()
for words in json.loads(sys.argv[1]):
    outcomes.append(run(words) | {"imported": sorted(set(sys.modules) - before)})
    before = set(sys.modules)
print(json.dumps(outcomes))
"""

MISTAKES = {
    "translate {}/none": "neither a run nor a SavedModel (no such folder)",
    "translate {run}/checkpoints/none.keras": "none.keras: no such checkpoint",
    "translate {run} --engine ctranslate": "--engine is ctranslate; choose from tensorflow, ctranslate2",
    "export {run} {} --format argos": "a package ends in .argosmodel",
    "export {run} {} --format marian": "the folder is not empty",
    "export {run} {source}": "a file; give a folder such as savedmodels/NAME",
    "train {run}/recipe.yaml --run-dir {run}": "contains a finished training",
    "train {run}/recipe.yaml --run-dir {}/new --set data.root={}/none": "none/pairs.en does not exist",
    'prepare {run}/recipe.yaml --run-dir {}/new --set evaluation.also={{"x":[x.en,x.de]}}': "x.en does not exist",
    "import {} {}/new": "{}: no config.json there",
    "import {source} {run}": "the folder is not empty and was not changed",
    "evaluate {}/none --source {source} --reference {source}": "neither a run nor a SavedModel (no such folder)",
}
WORK = {
    "translate {model} {source} --beam-size 1": "".join(f"{target}\n" for _, target in PAIRS[:2]),
    "evaluate {model} --source {source} --reference {target}": "BLEU 100.00",
    "inspect {model} {sentence} --html {}/page.html": f"{PAIRS[0][1]}\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("start_up")


@pytest.fixture(scope="module")
def outcomes(tiny_run_directory, tiny_saved_model, folder):
    """How each command ended, all of which one process runs."""
    source, target = write_pairs(folder, PAIRS[:2])
    names = {"run": tiny_run_directory.path, "model": tiny_saved_model, "source": source, "target": target}
    names["sentence"] = PAIRS[0][0]
    commands = [[word.format(folder, **names) for word in words.split()] for words in (*MISTAKES, *WORK)]
    process = subprocess.run(
        [sys.executable, "-c", NOTING_IMPORTS, json.dumps(commands)], capture_output=True, text=True, timeout=SECONDS
    )
    assert process.returncode == 0, process.stderr
    return dict(zip((*MISTAKES, *WORK), json.loads(process.stdout), strict=True))


def heavy(outcome):
    return {name.partition(".")[0] for name in outcome["imported"]} & HEAVY


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_told_before_anything_is_loaded(outcomes, folder, words):
    outcome = outcomes[words]
    assert outcome["status"] == 2 and MISTAKES[words].format(folder) in outcome["err"]
    assert not heavy(outcome)


@pytest.mark.parametrize("words", WORK)
def test_nothing_heavy_is_imported_for_a_saved_model(outcomes, words):
    outcome = outcomes[words]
    assert (outcome["status"], heavy(outcome)) == (0, set()), outcome["err"]
    assert outcome["out"].startswith(WORK[words])
    assert "tf_transformer.session.signature" in {name for each in outcomes.values() for name in each["imported"]}


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
    # Ctrl-C ends it while it waits for a line.
    begun.send_signal(signal.SIGINT)
    assert begun.wait(timeout=SECONDS) == 130
    assert (begun.stdout.read(), begun.stderr.read()) == (b"", b"")


@pytest.mark.thorough  # the first as test_processes.py has it
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"house " * 2 * MAX_LENGTH + b"\n", "standard input, line 2: longer than the model's maximum length"),
        (b"A \xff man\n", "standard input, line 2: not valid UTF-8 at byte 3"),
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


def test_a_named_pipe_is_answered_line_by_line(tiny_saved_model, tmp_path):
    os.mkfifo(tmp_path / "lines")
    pipe = tmp_path / "lines"
    with started([COMMAND, "translate", tiny_saved_model, pipe], stdout=subprocess.PIPE) as process:
        with within(lambda: open(pipe, "w")) as lines:
            print(PAIRS[0][0], file=lines, flush=True)
            assert within(process.stdout.readline).decode() == PAIRS[0][1] + "\n"
            lines.write("\n" + PAIRS[0][0])  # the last one without an end
        rest = f"\n{PAIRS[0][1]}\n".encode()
        assert (within(process.stdout.read), process.wait(timeout=SECONDS)) == (rest, 0)
