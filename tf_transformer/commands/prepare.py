"""The command `prepare`: tokenise a recipe's data before it is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tf_transformer.commands.app import app
from tf_transformer.commands.options import RECIPE_ARGUMENT, RUN_DIR_OPTION, SET_OPTION
from tf_transformer.terminal.arguments import check_is_no_run
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow


@app.command()
def prepare(
    recipe: Annotated[Path, RECIPE_ARGUMENT],
    overrides: Annotated[list[str] | None, SET_OPTION] = None,
    run_dir: Annotated[Path | None, RUN_DIR_OPTION] = None,
) -> None:
    """Learns a recipe's vocabulary and tokenises its data, which `train` then uses. If it is interrupted, the same
    command continues."""
    from tf_transformer.experiment.corpus import check_files
    from tf_transformer.recipe import load_recipe

    check_is_no_run(recipe)
    loaded = load_recipe(recipe, overrides or [], run_dir)
    check_files(loaded)
    with quiet_tensorflow():
        from tf_transformer.experiment import preparing

    folder = preparing.prepare(loaded, run_dir or Path("runs") / loaded.name, notes)
    notes.print(f"prepared: {folder}")
