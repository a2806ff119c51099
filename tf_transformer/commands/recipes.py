"""The command `recipes`: copy the project's recipes, for those who have no checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

import tf_transformer
from tf_transformer.commands.app import app
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_once
from tf_transformer.terminal.notes import notes

# A link to the checkout's folder; an installed package holds the files themselves.
OWN = Path(tf_transformer.__file__).with_name("train")


@app.command()
def recipes(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; existing files are kept.")] = Path("train"),
) -> None:
    """Copies the project's recipes and sweeps to a folder, to train or to adapt."""
    copied = 0
    for own in sorted(OWN.rglob("*.yaml")):
        path = folder / own.relative_to(OWN)
        if os.path.lexists(path):
            if not path.is_file():
                raise UserError(f"{path}: exists and is not a file; give another folder")
            if path.read_bytes() != own.read_bytes():
                notes.print(f"{path}: exists with other content, kept as it is")
            continue
        with written_once(path, "the recipe", "fix that, or give another folder") as partial:
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(own.read_bytes())
        copied += 1
        print(path)
    if not copied:
        notes.print(f"{folder}: already contains all recipes and sweeps")
