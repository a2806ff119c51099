"""The command `average`: average a run's checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow


@app.command()
def average(
    run: Annotated[Path, typer.Argument(help="Folder of a run.", show_default=False)],
    last: Annotated[int, typer.Option(min=2, help="Number of checkpoints to average, the newest ones.")] = 5,
) -> None:
    """Averages the last checkpoints of a run, as the paper does. Other commands then use the averaged model."""
    with quiet_tensorflow():
        from tf_transformer.experiment.averaging import average_checkpoints
        from tf_transformer.model_card.files import renewed
        from tf_transformer.runs.directory import RunDirectory

    opened = RunDirectory.open(run)
    with renewed(opened):
        average = average_checkpoints(opened, last)
    print(average)
    other = next((file.name for file in opened.by_preference() if file != average and file.is_file()), None)
    notes.print(f"the other commands now use it as the run's model; to go back to {other}, delete the file")
