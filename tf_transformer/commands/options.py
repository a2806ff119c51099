"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import is_ctranslate2, is_saved_model
from tf_transformer.terminal.arguments import newest_version

RECIPE_ARGUMENT = typer.Argument(
    help="Recipe to train: a YAML file such as train/recipes/demo.yaml.", show_default=False
)
SET_OPTION = typer.Option(
    "--set", help="Replace a setting of the recipe: --set training.steps=200. Repeatable.", metavar="KEY=VALUE"
)
RUN_DIR_OPTION = typer.Option(
    "--run-dir", help="Folder to write the run to.", show_default="runs/NAME, with the recipe's name"
)


def _none_of_dash(file: Path | None) -> Path | None:
    """The file of sentences; None for standard input."""
    return None if file == Path("-") else file


def _newest_versions(models: list[Path]) -> list[Path]:
    return [newest_version(model) for model in models]


MODEL_ARGUMENT = typer.Argument(
    help="Folder of a run, a checkpoint (RUN/checkpoints/FILE.keras), or folder of a SavedModel or of its versions, "
    "of which the highest is used.",
    show_default=False,
    callback=newest_version,
)
MODELS_ARGUMENT = typer.Argument(
    metavar="MODEL...",
    help="Folder of a run, a checkpoint (RUN/checkpoints/FILE.keras), or folder of a SavedModel or of its versions, "
    "of which the highest is used; several runs or checkpoints are an ensemble.",
    show_default=False,
    callback=_newest_versions,
)
GRAMMAR_OPTION = typer.Option(
    "--grammar/--no-grammar",
    help="--grammar restricts the search to well-formed trees; --no-grammar searches without that restriction and "
    "repairs outputs that are not trees.",
    show_default="the model's setting",
)
FILE_ARGUMENT = typer.Argument(
    help="File of sentences, one per line, plain or gzip; - is standard input.",
    show_default="standard input",
    callback=_none_of_dash,
)
MODELS_AND_FILE_ARGUMENT = typer.Argument(
    metavar="MODEL... [FILE]",
    help="Folder of a run, a checkpoint (RUN/checkpoints/FILE.keras), or folder of a SavedModel or of its versions, "
    "of which the highest is used; several runs or checkpoints are an ensemble. Then the file of sentences, one per "
    "line, plain or gzip; - is standard input, which is read if no file is given.",
    show_default=False,
    callback=_newest_versions,
)
BATCH_SIZE_OPTION = typer.Option("--batch-size", min=1, help="Number of sentences processed at once.")
RESUME_OPTION = typer.Option(
    "--resume",
    metavar="auto|never|PATH",
    help="auto: resume a training run that was interrupted in this folder; never: stop with an error instead; PATH: "
    "start from the saved training state of another run.",
)
WORKERS_OPTION = typer.Option(
    "--workers",
    min=1,
    help="Number of processes on this machine's CPU to train with, to try out training with several workers.",
)
JSON_OPTION = typer.Option("--json", help="Print JSON on standard output.")
BEAM_OPTION = typer.Option(
    "--beam-size", min=1, help="Beam size; 1 is greedy search.", show_default="the model's setting"
)
ALPHA_OPTION = typer.Option(
    "--alpha", min=0, help="Exponent of the length penalty; 0 is no penalty.", show_default="the model's setting"
)
NO_REPEAT_OPTION = typer.Option(
    "--no-repeat-ngram-size",
    min=0,
    metavar="N",
    help="Let no sequence of N tokens occur twice in a translation; 0 is no limit.",
    show_default="the model's setting",
)
ENGINE_OPTION = typer.Option("--engine", help="tensorflow, or ctranslate2 for a model exported in that format.")


def models_and_file(arguments: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """Parts the models from the file of sentences behind them, if there is one: a model is a folder or a checkpoint.

    The file is None for standard input, which `-` is too.

    Example:
        >>> models, file = models_and_file([Path("runs/a"), Path("runs/b/checkpoints/best.keras"), Path("test.en")])
        >>> len(models), str(file)
        (2, 'test.en')
    """
    *models, last = arguments
    if models and not os.path.isdir(last) and last.suffix != ".keras":
        return models, _none_of_dash(last)
    return [*models, last], None


# In place of an alpha without effect.
OR_A_BEAM = "or give a larger --beam-size"


def check_alpha(model: Path, changes: Mapping[str, Any], instead: str) -> None:
    """Raises a UserError where `--alpha` is given to a greedy search, which ends at the first closing token.

    Args:
        model: the first of the models, whose beam size is taken unless another is given.
        changes: the decoding options given.
        instead: what to do.
    """
    from tf_transformer.runs.directory import is_run
    from tf_transformer.translation.loading import own_options

    if "alpha" not in changes or changes.get("temperature"):
        return
    beam_size = changes.get("beam_size")
    if beam_size is None and (is_run(model) or is_saved_model(model) or is_ctranslate2(model)):
        beam_size = own_options(model).beam_size
    if beam_size == 1:
        raise UserError(
            "--alpha has no effect here: with a beam size of 1 it only changes scores, which are not shown; "
            f"leave it out, {instead}"
        )


def check_parsers_alpha(model: Path, changes: Mapping[str, Any], grammar: bool | None) -> None:
    """The same of a parser. With the grammar, too, only the closing token can follow a whole tree.

    A SavedModel's options are fixed then, which is told as it is loaded.
    """
    if grammar is False or not is_saved_model(model):
        check_alpha(model, changes, OR_A_BEAM)
