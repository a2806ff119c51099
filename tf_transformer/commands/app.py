"""The Typer app that all commands belong to."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tf_transformer import __version__

# As of a command that SIGPIPE ends, which is what shells know: `set -o pipefail` scripts tell it from a fault.
READER_GONE = 128 + signal.SIGPIPE


class _Commands(TyperGroup):
    """The commands; the reader of a command's output may end before it, as `head` does."""

    def invoke(self, ctx: typer.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # which Typer would make status 1, that of a traceback
            raise typer.Exit(READER_GONE) from None


app = typer.Typer(
    cls=_Commands,
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
