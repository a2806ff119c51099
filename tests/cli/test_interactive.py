"""The prompt of `translate --interactive`, in a real terminal."""

import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.bounded import SECONDS, eventually, turned_on
from tests.cli.command import COMMAND, assert_mistake
from tests.tiny_run import MAX_LENGTH, PAIRS

SOURCE, TARGET = PAIRS[0]


def _in_its_terminal() -> None:
    """Keys such as Ctrl-C become signals only of a process whose terminal it is."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    turned_on()


class Terminal:
    """The command in a pseudo-terminal, and the text on it."""

    def __init__(self, *words, **environment: str) -> None:
        self.screen = ""
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [COMMAND, "translate", *map(str, words), "--interactive"],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            env={**os.environ, "TERM": "dumb", **environment},
            start_new_session=True,
            preexec_fn=_in_its_terminal,
        )
        os.close(theirs)

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def read_until(self, text: str, behind: str = r".*?\n> ") -> str:
        """What comes on the screen, up to a text and what is behind it, the next prompt unless told."""
        give_up = time.monotonic() + SECONDS
        pattern = re.compile(re.escape(text) + behind, re.S)
        while not (found := pattern.search(self.screen)):
            assert time.monotonic() < give_up, self.screen
            if select.select([self.ours], [], [], 0.2)[0]:
                self.screen += os.read(self.ours, 4096).decode().replace("\r", "")
        seen, self.screen = self.screen[: found.end()], self.screen[found.end() :]
        return seen

    def ask(self, line: str, answered: str) -> str:
        self.type(line + "\n")
        return self.read_until(answered)

    def waits_for_a_key(self) -> bool:
        """Whether its main thread sleeps, as it does once all is drawn."""
        state = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/stat").read_text()
        return state.rpartition(")")[2].split()[0] == "S"

    def end(self) -> int:
        return self.process.wait(SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)
        os.close(self.ours)


@pytest.fixture
def terminal(tiny_saved_model, tmp_path):
    opened = []

    def open_one(*words, **environment):
        opened.append(Terminal(tiny_saved_model, *words, **{"XDG_STATE_HOME": str(tmp_path), **environment}))
        opened[-1].read_until("ready; :help lists the commands, Ctrl-D quits")
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_a_conversation(terminal, tiny_saved_model, tiny_run_directory, tmp_path):
    history = tmp_path / "tf_transformer" / "history"
    history.parent.mkdir()
    history.write_text(f"X{SOURCE}\n")
    prompt = terminal()
    shutil.rmtree(history.parent)  # it has been read
    # Up, to the line's beginning, away with the X.
    assert prompt.ask("\x10\x01\x04", TARGET).endswith(f"{TARGET}\n> ")
    prompt.type("half a line")
    prompt.read_until("half a line", behind="")
    eventually(prompt.waits_for_a_key)  # Python's readline notices a signal while it draws only at the next key
    prompt.type("\x03")  # Ctrl-C
    prompt.read_until("")
    time.sleep(1.5)  # elsewhere it ends the command within a second
    assert prompt.ask(SOURCE, TARGET)  # nothing is left of the half line

    prompt.ask(":nbest 3", "ready in")
    three = [line.split("  ") for line in prompt.ask(SOURCE, f"  {TARGET}").splitlines()[-4:-1]]
    scores = [float(score) for score, _ in three]
    assert three[0][1] == TARGET and scores == sorted(scores, reverse=True)
    prompt.ask(":nbest 1", "ready in")

    prompt.ask(":attention", "translated words are now shown with the words they attend to")
    shown = prompt.ask(SOURCE, TARGET)
    rows = [line.split("←") for line in shown.splitlines() if "←" in line]
    assert [word.strip() for word, _ in rows] == TARGET.split()
    assert {word for _, words in rows for word in words.split()} <= set(SOURCE.split())
    prompt.ask(":attention", "attention is no longer shown")

    for wrong, told in {
        ":what": "unknown command :what; :help lists the commands",
        ":nbest many": ":nbest many: give the number of translations",
        ":nbest 10000": ":nbest 10000: give the number of translations",
        ":attention 3": ":attention takes no argument",
        ":model": ":model takes the folder",
        f":model {tmp_path}/none": "neither a run nor a SavedModel (no such folder)",
        ":model ~no-such-user/none": "~no-such-user/none: neither a run nor a SavedModel (no such folder)",
    }.items():
        prompt.ask(wrong, told)
    assert prompt.ask(SOURCE, TARGET)  # the model is still the one before
    prompt.ask("house " * MAX_LENGTH, "\n(only the beginning of the line, up to the model's maximum length)")
    assert ":quit" in prompt.ask(":help", "Ctrl-C cancels a line.")
    prompt.ask(f":model {tiny_saved_model}/../1", "/../1: ready in")
    assert prompt.ask(SOURCE, TARGET)
    prompt.type("\x04")  # Ctrl-D
    assert prompt.end() == 0
    assert history.read_text().splitlines()[:3] == [f"X{SOURCE}", SOURCE, ":nbest 3"]
    assert history.stat().st_mode & 0o077 == 0


def test_a_history_that_can_not_be_written_is_no_reason_to_fail(terminal, tmp_path):
    (tmp_path / "file").touch()
    prompt = terminal(XDG_STATE_HOME=str(tmp_path / "file"))
    assert prompt.ask(SOURCE, TARGET)
    prompt.type(":quit\n")
    assert prompt.end() == 0


def test_without_a_terminal(command, tiny_saved_model, tmp_path):
    outcome = command("translate", tiny_saved_model, "--interactive", stdin=b"A man sees a house.\n")
    assert_mistake(outcome, "--interactive needs a terminal for its input and output")
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tHund\n")
    for words in (
        [tmp_path / "file"],
        ["--json"],
        ["--paragraphs"],
        ["--shards", tmp_path / "shards"],
        ["--glossary", terms],
    ):
        outcome = command("translate", tiny_saved_model, "--interactive", *words)
        assert_mistake(outcome, "leave out FILE, --json, --paragraphs, --shards and --glossary")
