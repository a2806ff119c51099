"""What is to be known of a model before it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import JSON_OPTION


@app.command()
def card(
    model: Annotated[
        Path,
        typer.Argument(
            help="A run's folder or one of its checkpoints, a SavedModel's or a CTranslate2 model's folder.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Prints a model's card: what it is, was trained on and scores, and what it must not be used for."""
    from tf_transformer.model_card import read_card

    page, facts = read_card(model)
    print(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else page, end="\n" if as_json else "")
