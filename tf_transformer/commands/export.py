"""Writing a model for others to load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import ALPHA_OPTION, BEAM_OPTION
from tf_transformer.errors import UserError
from tf_transformer.terminal import given, quiet_tensorflow

FORMATS = ("savedmodel", "ctranslate2")


@app.command()
def export(
    run: Annotated[Path, typer.Argument(help="A run's folder, or one of its checkpoints.", show_default=False)],
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DEST",
            help="savedmodels/NAME for the next version, or savedmodels/NAME/VERSION.",
            show_default=False,
        ),
    ],
    file_format: Annotated[
        str, typer.Option("--format", help="savedmodel, or ctranslate2, whose DEST is the model's own folder.")
    ] = "savedmodel",
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    float16: Annotated[bool, typer.Option("--float16", help="Write a SavedModel's weights in half the size.")] = False,
    quantization: Annotated[
        str | None, typer.Option(help="Of CTranslate2's weights: int8, int16, float16, ...", show_default=False)
    ] = None,
) -> None:
    """Writes a run's best model as a SavedModel with its tokenizer inside, or for CTranslate2."""
    changes = given(beam_size=beam_size, alpha=alpha)
    if file_format not in FORMATS:
        raise UserError(f"--format is {file_format}; choose from {', '.join(FORMATS)}")
    if file_format == "ctranslate2" and (changes or float16):
        raise UserError("--beam-size, --alpha and --float16 are a SavedModel's; for ctranslate2 give --quantization")
    if file_format == "savedmodel" and quantization:
        raise UserError("--quantization is CTranslate2's; give --format ctranslate2 with it, or --float16")
    with quiet_tensorflow():
        from tf_transformer import experiment
        from tf_transformer.runs.directory import RunDirectory

    opened = RunDirectory.of_model(run)
    if file_format == "ctranslate2":
        print(experiment.export_run_ctranslate2(opened, destination, quantization))
    else:
        print(experiment.export_run(opened, destination, changes, float16))
