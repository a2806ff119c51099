"""The command `import`: make a run of a MarianMT model, such as OPUS-MT's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.terminal.process import quiet_tensorflow


@app.command("import")
def import_model(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of a MarianMT model, such as a copy of Helsinki-NLP/opus-mt-en-de.", show_default=False
        ),
    ],
    run: Annotated[Path, typer.Argument(help="New folder to write the run to.", show_default=False)],
    source_language: Annotated[
        str | None,
        typer.Option(help="Code of the language translated from.", show_default="what the folder says, or und"),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(help="Code of the language translated into.", show_default="what the folder says, or und"),
    ] = None,
) -> None:
    """Turns an OPUS-MT model, or another MarianMT model, in the format of the transformers library, into a run."""
    from tf_transformer.marian.importing import check_import

    check_import(folder, run)
    with quiet_tensorflow():
        from tf_transformer.marian import import_marian

    print(import_marian(folder, run, source_language, target_language).path)
