"""The Typer app that all commands belong to."""

from __future__ import annotations

from typing import Annotated

import typer

from tf_transformer import __version__

app = typer.Typer(
    name="tf-transformer",
    help='Train, evaluate and export the Transformer of "Attention Is All You Need", and translate with it.',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"tf-transformer {__version__}")
        raise typer.Exit


@app.callback()
def whole_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
