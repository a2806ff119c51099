"""Averaging a run's checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.terminal import quiet_tensorflow


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)],
    last: Annotated[int, typer.Option(min=2, help="How many checkpoints.")] = 5,
) -> None:
    """Averages a run's last checkpoints, as the paper does; the run's other commands then use the average."""
    with quiet_tensorflow():
        from tf_transformer.experiment.averaging import average_checkpoints
        from tf_transformer.model_card import renewed
        from tf_transformer.runs.directory import RunDirectory

    opened = RunDirectory.open(run)
    with renewed(opened):
        print(average_checkpoints(opened, last))
