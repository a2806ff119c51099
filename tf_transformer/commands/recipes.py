"""The command `recipes`: copy the project's recipes, for those who have no checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tf_transformer
from tf_transformer.commands.app import app
from tf_transformer.errors import UserError
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(own.read_bytes())
        except FileExistsError:
            if not path.is_file():
                raise UserError(f"{path}: exists and is not a file; give another folder") from None
            if path.read_bytes() != own.read_bytes():
                notes.print(f"{path}: exists with other content, kept as it is")
            continue
        except OSError as error:
            raise UserError(f"{path}: can't be written ({error.strerror}); give another folder") from None
        copied += 1
        print(path)
    if not copied:
        notes.print(f"{folder}: already contains all recipes and sweeps")
