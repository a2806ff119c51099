"""Showing what a model attends to."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import MODEL_ARGUMENT
from tf_transformer.errors import UserError
from tf_transformer.terminal import (
    check_can_be_made,
    check_is_no_file,
    check_new_files,
    notes,
    quiet_tensorflow,
)

BLANK = "sentence {} is blank; give words to translate"  # of what `inspect` is given


@app.command()
def inspect(
    model: Annotated[Path, MODEL_ARGUMENT],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE...", help="What to translate.")],
    logdir: Annotated[Path | None, typer.Option(help="Write it for TensorBoard's tab Attention.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write it as a page of its own.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture of the last layer's heads.")] = None,
) -> None:
    """Shows what a model attends to as it translates: in TensorBoard, as a page, or as a picture."""
    if not (logdir or html or png):
        raise UserError("where to? give --logdir DIR for TensorBoard, --html FILE or --png FILE, or several of them")
    check_is_no_file(model)
    for number, sentence in enumerate(sentences, start=1):
        if not sentence.strip():
            raise UserError(BLANK.format(number))
        if os.path.isfile(sentence):
            raise UserError(
                f"{sentence}: a file; give sentences themselves, such as "
                f'"$(head -n 1 {shlex.quote(sentence)})" for its first'
            )
        if not sentence.isascii() and sentence != sentence.encode("utf-8", "replace").decode("utf-8"):
            raise UserError(f"sentence {number} is not UTF-8; give it in UTF-8")
    if png and len(sentences) > 1:
        raise UserError("--png draws one sentence; give one, or --html FILE for several")
    check_new_files(html, png)
    if logdir and logdir.exists() and not logdir.is_dir():
        raise UserError(f"{logdir}: a file; give a folder with --logdir")
    if logdir:
        check_can_be_made(logdir / "run")
    with quiet_tensorflow():
        from tf_transformer.inspection.sentence import inspect, load_attend
        from tf_transformer.tensorboard.board import write_to_log_dir
        from tf_transformer.tensorboard.page import write_page

    inspections = inspect(load_attend(model), sentences)
    for number, each in enumerate(inspections, start=1):
        if not each.target_tokens:  # a tokenizer takes more characters for blanks than Python does
            raise UserError(BLANK.format(number))
    for each in inspections:
        if each.truncated:
            notes.print(f"cut to the model's positions: {each.source}")
        print(each.translation)
    if logdir:
        # A run of its own for each model: they can be compared.
        write_to_log_dir(logdir / (model.as_posix().strip("./").replace("/", "-") or "model"), inspections)
        notes.print(f"see the tab Attention of: tensorboard --logdir {logdir}")
    if html:
        notes.print(f"page: {write_page(html, inspections, str(model))}")
    if png:
        from tf_transformer.inspection.pictures import plot_inspection

        notes.print(f"picture: {plot_inspection(inspections[0], png)}")
