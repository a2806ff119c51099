"""The command `train`: train a model from a recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import (
    JSON_OPTION,
    RECIPE_ARGUMENT,
    RESUME_OPTION,
    RUN_DIR_OPTION,
    SET_OPTION,
    WORKERS_OPTION,
)
from tf_transformer.errors import UserError
from tf_transformer.terminal.arguments import check_is_no_run
from tf_transformer.terminal.ctrl_c import sigterm_preempts
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.printed_scores import show_scores
from tf_transformer.terminal.process import keep_what_xla_compiles, quiet_tensorflow
from tf_transformer.training.freed_memory import keep_freed_memory


@app.command()
@sigterm_preempts()
def train(
    recipe: Annotated[Path, RECIPE_ARGUMENT],
    overrides: Annotated[list[str] | None, SET_OPTION] = None,
    run_dir: Annotated[Path | None, RUN_DIR_OPTION] = None,
    resume: Annotated[str, RESUME_OPTION] = "auto",
    workers: Annotated[int, WORKERS_OPTION] = 1,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Trains a model from a recipe and evaluates it. If it is interrupted, the same command resumes it."""
    from tf_transformer.distributed.cluster import is_chief, read_cluster
    from tf_transformer.experiment.corpus import check_files
    from tf_transformer.recipe import load_recipe
    from tf_transformer.runs.directory import RunDirectory

    check_is_no_run(recipe)
    loaded = load_recipe(recipe, overrides or [], run_dir)
    target = RunDirectory(run_dir or Path("runs") / loaded.name)
    if not (target.is_unfinished() or target.is_only_prepared()):
        target.check_is_free()
    check_files(loaded)
    if workers > 1:
        if loaded.training.distribution == "single" or read_cluster():
            if read_cluster():
                raise UserError(
                    f"--workers is {workers}, but TF_CONFIG already names the workers; unset TF_CONFIG, or leave out "
                    "--workers"
                )
            raise UserError(
                f"--workers is {workers}, but training.distribution is single; set it to mirrored, or leave out "
                "--workers"
            )
        from tf_transformer.distributed.launcher import run_workers

        words = [str(recipe), *(word for each in overrides or [] for word in ("--set", each)), "--resume", resume]
        words += (["--run-dir", str(run_dir)] if run_dir else []) + (["--json"] if as_json else [])
        raise typer.Exit(run_workers(["train", *words], workers))
    if loaded.training.jit_compile:
        keep_what_xla_compiles()
    keep_freed_memory()
    with quiet_tensorflow():
        from tf_transformer.experiment import runner

    run = runner.train(loaded, target.path, notes, resume)
    if not is_chief():
        return
    show_scores(json.loads(run.scores.read_text(encoding="utf-8")), as_json)
    notes.print(f"run: {run.path}")
