"""The command `tf-transformer` for the tests of it."""

import sys
from pathlib import Path
from typing import NamedTuple

from tests.tiny_run import RECIPE

COMMAND = Path(sys.executable).with_name("tf-transformer")

# Limits of pairs by the names of their options, none of which is the default.
LIMITS = {
    "unit": "characters",
    "min_length": 2,
    "max_length": 150,
    "max_ratio": 2.5,
    "max_overlap": 0.5,
    "max_repeats": 3,
    "source_script": "Latin",
    "target_script": "Greek",
    "min_script": 0.75,
    "duplicates": True,
}


class Outcome(NamedTuple):
    """What a command leaves behind."""

    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output's lines, every one of which must be ended."""
        assert self.out.endswith(b"\n") or not self.out
        return self.out.decode("utf-8").split("\n")[:-1]


def typed(options: dict) -> list:
    """Options by name and value as words of a command."""
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    return words


def contents(folder: Path) -> dict[str, bytes | None]:
    """All files, hidden ones too, with their bytes, and all folders."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def assert_mistake(outcome: Outcome, *told: str) -> None:
    """Asserts that it ended with status 2 and one line on standard error, which tells all of `told`.

    Before it, a command that had begun may have told at what.
    """
    assert outcome.status == 2
    *begun, message = outcome.err.removesuffix("\n").split("\n")
    assert all(line.startswith(("exporting ", "scoring ")) for line in begun)
    assert message.startswith("tf-transformer: ")
    for text in told:
        assert text in message


def train_on(*settings: str) -> list:
    """The words of a training on the pairs in the folder of mistakes, but for what is replaced."""
    words = ["train", RECIPE, "--run-dir", "{}/new"]
    both = "[pairs.en, pairs.de]"
    files = ["data.kind=files", "data.root={}", *(f"data.{split}={both}" for split in ("train", "validation", "test"))]
    model = ["tokenizer.vocab_size=340", "model.num_layers=1", "model.d_model=16", "model.num_heads=2", "model.dff=16"]
    for setting in [*files, *model, *settings]:
        words += ["--set", setting]
    return words
