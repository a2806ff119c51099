"""Checks of what the program is given, before a pipeline starts; Apache Beam is not needed for them."""

from __future__ import annotations

from pathlib import Path

from tf_transformer.data.lines import open_lines
from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import is_ctranslate2
from tf_transformer.terminal.arguments import check_can_be_made, check_is_no_file
from tf_transformer.translation.loading import check_are_models


def is_local(path: str) -> bool:
    """Whether a path is on a machine's own file system, and not on storage such as gs://."""
    return "://" not in path


def runs_here(runner: str | None) -> bool:
    """Whether the workers of a runner are on this machine, as those of Beam's own are, which is the default."""
    return runner is None or "direct" in runner.lower()


def check_on_this_machine(model: str, engine: str, source: str, output: str) -> None:
    """Checks what a pipeline needs whose workers are on this machine.

    Args:
        model: the model's folder.
        engine: "tensorflow" or "ctranslate2".
        source: the file that is translated.
        output: what the names of the output files begin with.

    Raises:
        UserError: the model or the file is missing, or the output can't be written.
    """
    folder = Path(model)
    check_is_no_file(folder)
    check_are_models([folder], engine)
    if engine == "ctranslate2" and not is_ctranslate2(folder):
        raise UserError(f"{model}: not a CTranslate2 model; give a folder that `export --format ctranslate2` wrote")
    if is_local(source):
        open_lines(Path(source)).close()
    if is_local(output):
        check_can_be_made(Path(f"{output}-0000000.txt"))
