"""The command `export`: write a run's model as a SavedModel, for CTranslate2 or for the transformers library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import ALPHA_OPTION, BEAM_OPTION, NO_REPEAT_OPTION
from tf_transformer.errors import UserError
from tf_transformer.terminal import given, quiet_tensorflow

FORMATS = ("savedmodel", "ctranslate2", "marian")


@app.command()
def export(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folder of a run, or a checkpoint (RUN/checkpoints/FILE.keras); several for a SavedModel of their "
            "ensemble.",
            show_default=False,
        ),
    ],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DEST",
            help="Folder to write to: savedmodels/NAME for the next version number, or savedmodels/NAME/VERSION. For "
            "ctranslate2 and marian, a new folder.",
            show_default=False,
        ),
    ],
    file_format: Annotated[str, typer.Option("--format", help="savedmodel, ctranslate2 or marian.")] = "savedmodel",
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    no_repeat_ngram_size: Annotated[int | None, NO_REPEAT_OPTION] = None,
    float16: Annotated[
        bool, typer.Option("--float16", help="Store a SavedModel's weights as float16, half the size.")
    ] = False,
    xla: Annotated[
        bool,
        typer.Option(
            "--xla/--no-xla",
            help="Whether XLA can compile a SavedModel's search, where a program asks for it. --no-xla makes the "
            "SavedModel smaller.",
        ),
    ] = True,
    quantization: Annotated[
        str | None,
        typer.Option(help="Type that CTranslate2 stores the weights in: int8, int16, float16, ...", show_default=False),
    ] = None,
) -> None:
    """Exports a run's best model as a SavedModel that includes the tokenizer, for CTranslate2, or for transformers.

    Several runs are exported as one SavedModel, which translates with all of them as an ensemble.
    """
    changes = given(beam_size=beam_size, alpha=alpha, no_repeat_ngram_size=no_repeat_ngram_size)
    if file_format not in FORMATS:
        raise UserError(f"--format is {file_format}; choose from {', '.join(FORMATS)}")
    if file_format != "savedmodel" and (changes or float16 or not xla):
        raise UserError(
            "--beam-size, --alpha, --no-repeat-ngram-size, --float16 and --no-xla are for --format savedmodel; leave "
            "them out, and for smaller weights of ctranslate2 give --quantization"
        )
    if file_format != "ctranslate2" and quantization:
        raise UserError(
            "--quantization is for CTranslate2; add --format ctranslate2, or give --float16 for a SavedModel"
        )
    from tf_transformer.runs.directory import RunDirectory, is_run
    from tf_transformer.translation import NO_ENSEMBLE_IN_CTRANSLATE2

    if is_run(destination):
        raise UserError(f"{destination}: a run, where DEST is expected; give as last a folder such as savedmodels/NAME")
    if file_format == "ctranslate2" and len(runs) > 1:
        raise UserError(NO_ENSEMBLE_IN_CTRANSLATE2)
    if file_format == "marian" and len(runs) > 1:
        raise UserError("--format marian writes one model; give one run, or export the ensemble as a SavedModel")
    with quiet_tensorflow():
        from tf_transformer import experiment

    opened = [RunDirectory.of_model(run) for run in runs]
    if file_format == "ctranslate2":
        print(experiment.export_run_ctranslate2(opened[0], destination, quantization))
    elif file_format == "marian":
        print(experiment.export_run_marian(opened[0], destination))
    else:
        print(experiment.export_run(opened, destination, changes, float16, xla))
