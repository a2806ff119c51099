"""The command `card`: print a model's card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import JSON_OPTION
from tf_transformer.terminal.arguments import newest_version
from tf_transformer.terminal.json_output import print_json


@app.command()
def card(
    model: Annotated[
        Path,
        typer.Argument(
            help="Folder of a run, a checkpoint (RUN/checkpoints/FILE.keras), folder of a SavedModel or of its "
            "versions, of which the highest is used, or folder of a CTranslate2 model.",
            show_default=False,
            callback=newest_version,
        ),
    ],
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Prints a model's card: its architecture, training data, scores and limits."""
    from tf_transformer.model_card.files import read_card

    page, facts = read_card(model)
    if as_json:
        print_json(facts)
    else:
        print(page, end="")
