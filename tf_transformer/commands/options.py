"""Arguments and options that several commands have."""

from __future__ import annotations

import typer

RECIPE_ARGUMENT = typer.Argument(help="The recipe, a YAML file; train/recipes holds some.", show_default=False)
SET_OPTION = typer.Option(
    "--set", help="Replaces a setting: --set training.steps=200. Repeatable.", metavar="KEY=VALUE"
)
RUN_DIR_OPTION = typer.Option("--run-dir", help="Where the run goes.", show_default="runs/NAME, by the recipe's name")
MODEL_ARGUMENT = typer.Argument(
    help="A run's folder, one of its checkpoints (RUN/checkpoints/FILE.keras), or a SavedModel's folder.",
    show_default=False,
)
GRAMMAR_OPTION = typer.Option(
    "--grammar/--no-grammar",
    help="Search among well-formed trees alone, or among all there is, and mend what is no tree.",
    show_default="the model's",
)
FILE_ARGUMENT = typer.Argument(
    help="Sentences, one a line, plain or gzip; - is standard input.", show_default="standard input"
)
BATCH_SIZE_OPTION = typer.Option("--batch-size", min=1, help="Sentences translated at once.")
RESUME_OPTION = typer.Option(
    "--resume",
    metavar="auto|never|PATH",
    help="auto: go on with a training that was broken off; never: refuse to; PATH: begin from a state of another run.",
)
WORKERS_OPTION = typer.Option(
    "--workers", min=1, help="Train with so many processes on this machine's CPU, to try several workers."
)
JSON_OPTION = typer.Option("--json", help="Print JSON on standard output.")
BEAM_OPTION = typer.Option(
    "--beam-size", min=1, help="Hypotheses side by side; 1 is greedy search.", show_default="the model's"
)
ALPHA_OPTION = typer.Option("--alpha", min=0, help="Strength of the length penalty.", show_default="the model's")
ENGINE_OPTION = typer.Option("--engine", help="tensorflow, or ctranslate2 for a model in that format.")
