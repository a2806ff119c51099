"""The command `export`: write a run's model as a SavedModel, or for another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import ALPHA_OPTION, BEAM_OPTION, NO_REPEAT_OPTION
from tf_transformer.errors import UserError
from tf_transformer.terminal.arguments import given
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow

# What is written, with the options that it takes.
FORMATS = {
    "savedmodel": ("--beam-size", "--alpha", "--no-repeat-ngram-size", "--float16", "--no-xla"),
    "ctranslate2": ("--quantization",),
    "marian": (),
    "argos": ("--quantization", "--source-language", "--target-language", "--tag"),
}


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
            "ctranslate2 and marian, a new folder; for argos, a new file FILE.argosmodel.",
            show_default=False,
        ),
    ],
    file_format: Annotated[
        str, typer.Option("--format", help="savedmodel, ctranslate2, marian or argos.")
    ] = "savedmodel",
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
            help="Whether XLA can compile a SavedModel's search, if a program asks for it. --no-xla makes the "
            "SavedModel smaller.",
        ),
    ] = True,
    quantization: Annotated[
        str | None,
        typer.Option(
            help="Type that ctranslate2 and argos store the weights in: int8, int16, float16, ...", show_default=False
        ),
    ] = None,
    source_language: Annotated[
        str | None,
        typer.Option(help="For argos: code of the language translated from.", show_default="the recipe's"),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(help="For argos: code of the language translated into.", show_default="the recipe's"),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            help="For argos: the tag that a multilingual model needs before each text, such as '>>deu<<'.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Exports a run's best model as a SavedModel that includes the tokenizer, or for another program.

    Several runs are exported as one SavedModel, which translates with all of them as an ensemble.
    """
    changes = given(beam_size=beam_size, alpha=alpha, no_repeat_ngram_size=no_repeat_ngram_size)
    if file_format not in FORMATS:
        raise UserError(f"--format is {file_format}; choose from {', '.join(FORMATS)}")
    _check_options(
        file_format,
        {
            "--beam-size": beam_size,
            "--alpha": alpha,
            "--no-repeat-ngram-size": no_repeat_ngram_size,
            "--float16": float16 or None,
            "--no-xla": None if xla else True,
            "--quantization": quantization,
            "--source-language": source_language,
            "--target-language": target_language,
            "--tag": tag,
        },
    )
    from tf_transformer.export.destinations import free_folder, free_package, version_folder
    from tf_transformer.runs.directory import RunDirectory, is_run
    from tf_transformer.translation.loading import NO_ENSEMBLE_IN_CTRANSLATE2

    if is_run(destination):
        raise UserError(
            f"{destination}: a run, but DEST is expected; give a folder such as savedmodels/NAME as the last argument"
        )
    if file_format == "ctranslate2" and len(runs) > 1:
        raise UserError(NO_ENSEMBLE_IN_CTRANSLATE2)
    if file_format != "savedmodel" and len(runs) > 1:
        raise UserError(
            f"--format {file_format} writes one model; give one run, or export the ensemble as a SavedModel"
        )
    opened = [RunDirectory.of_model(run) for run in runs]
    {"savedmodel": version_folder, "argos": free_package}.get(file_format, free_folder)(destination)
    notes.print(f"exporting {', '.join(str(run.best_checkpoint()) for run in opened)}")
    with quiet_tensorflow():
        from tf_transformer.experiment import exporting

    if file_format == "ctranslate2":
        print(exporting.export_run_ctranslate2(opened[0], destination, quantization))
    elif file_format == "marian":
        print(exporting.export_run_marian(opened[0], destination))
    elif file_format == "argos":
        languages = source_language, target_language
        print(exporting.export_run_argos(opened[0], destination, quantization, languages, tag))
    else:
        print(exporting.export_run(opened, destination, changes, float16, xla))


def _check_options(file_format: str, options: dict[str, Any]) -> None:
    """Refuses the options, None where not given, that a format does not take."""
    for name, value in options.items():
        if value is None or name in FORMATS[file_format]:
            continue
        fitting = " or ".join(f"--format {each}" for each, names in FORMATS.items() if name in names)
        smaller = {"--float16": "--quantization", "--quantization": "--float16"}.get(name)
        instead = f", or give {smaller}" if smaller in FORMATS[file_format] else ""
        raise UserError(f"{name} is for {fitting}; leave it out with --format {file_format}{instead}")
