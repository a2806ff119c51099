"""The blocks of the documents, and the commands that their shell blocks give."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
FOLDERS = "train", "savedmodels", "serving", "benchmarks"
PAGES = ["README.md", *(f"{folder}/README.md" for folder in FOLDERS), "train/experiments.md"]
PAGES += sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/tutorials/*.md")])

# What the shell blocks start. In their place stands a program that notes its words and what it was given to read.
PROGRAMS = ("tf-transformer", "python", "pip", "make", "tensorboard", "sacrebleu", "docker", "curl", "scontrol", "srun")
NOTES = r"""#!/bin/bash
program=${0##*/}
case $program in
  scontrol) if [ "$1" = show ]; then printf 'node0\nnode1\n'; exit; fi ;;
  srun) exec "$@" ;;
esac
printf '%s\0' $(($# + 4)) "$LINE" "$TF_CONFIG" "$(cat)" "$program" "$@" >> "$NOTED"
"""


class Block(NamedTuple):
    """A block of a page, and the line that it begins at."""

    page: str
    line: int
    language: str
    text: str


class Command(NamedTuple):
    """A command as the shell starts it: of which block, with what `TF_CONFIG` and standard input."""

    line: int
    cluster: str
    stdin: str
    program: str
    arguments: list[str]


def blocks_of(page: str, *languages: str) -> list[Block]:
    """The blocks of a page, in their order: all of them, or those in some languages; "" where a block names none."""
    tokens = MarkdownIt().parse((ROOT / page).read_text(encoding="utf-8"))
    blocks = [token for token in tokens if token.type in ("fence", "code_block")]
    chosen = [token for token in blocks if not languages or token.info in languages]
    return [Block(page, token.map[0] + 2, token.info, token.content) for token in chosen]


def replaced(text: str, replacements: list[tuple[str, str]]) -> str:
    """Puts other text in place of some, all of which must be there."""
    for old, new in replacements:
        assert old in text, f"not in the document any more: {old}"
        text = text.replace(old, new)
    return text


def commands_of(script: str, folder: Path, variables: dict[str, str]) -> list[Command]:
    """Has bash work through a script, with programs that only note what they were given.

    A variable that nobody has set is an error.
    """
    programs, noted = folder / "programs", folder / "noted"
    programs.mkdir(exist_ok=True)
    for program in PROGRAMS:
        (programs / program).write_text(NOTES)
        (programs / program).chmod(0o755)
    noted.write_bytes(b"")
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "NOTED": str(noted), "LINE": "0", "TF_CONFIG": "", **variables}
    subprocess.run(["bash", "-euc", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True)
    words = noted.read_text(encoding="utf-8").split("\0")[:-1]
    commands = []
    while words:
        number = int(words.pop(0))
        (line, cluster, stdin, program, *arguments), words = words[:number], words[number:]
        commands.append(Command(int(line), cluster, stdin, program, arguments))
    return commands


def script_of(page: str, replacements: list[tuple[str, str]]) -> str:
    """The shell blocks of a page as one script, which tells the programs the line of the block that starts them."""
    parts = [f"export LINE={block.line}\n{block.text}" for block in blocks_of(page, "sh")]
    return replaced("\n".join(parts), replacements)
