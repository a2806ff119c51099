"""The project's recipes, for those who have no checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import tf_transformer
from tf_transformer.commands.app import app
from tf_transformer.errors import UserError
from tf_transformer.terminal import notes

# A link to the checkout's folder; an installed package holds the files themselves.
OWN = Path(tf_transformer.__file__).with_name("train")


@app.command()
def recipes(
    folder: Annotated[Path, typer.Argument(help="Where to; files that are there are left as they are.")] = Path(
        "train"
    ),
) -> None:
    """Writes the project's recipes and sweeps below a folder, to be trained or copied and changed."""
    copied = 0
    for own in sorted(OWN.rglob("*.yaml")):
        path = folder / own.relative_to(OWN)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(own.read_bytes())
        except FileExistsError:
            if not path.is_file():
                raise UserError(f"{path}: is in the way and is no file; give another folder") from None
            if path.read_bytes() != own.read_bytes():
                notes.print(f"{path}: is there already and is left as it is")
            continue
        except OSError as error:
            raise UserError(f"{path}: can't be written ({error.strerror}); give another folder") from None
        copied += 1
        print(path)
    if not copied:
        notes.print(f"{folder}: all recipes and sweeps are there already")
