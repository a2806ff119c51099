"""The command `inspect`: show a model's attention."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import MODEL_ARGUMENT
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_new
from tf_transformer.session.loading import session_loader
from tf_transformer.terminal.arguments import check_can_be_made, check_is_no_file, check_new_page_and_image
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow

BLANK = "sentence {} is empty; give a sentence to translate"


@app.command()
def inspect(
    model: Annotated[Path, MODEL_ARGUMENT],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE...", help="Sentences to translate.")],
    logdir: Annotated[Path | None, typer.Option(help="Write the attention to this TensorBoard log directory.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the attention to this file as an HTML page.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="Write the last layer's heads to this file as a PNG image (one sentence).")
    ] = None,
) -> None:
    """Translates sentences and shows the model's attention in TensorBoard, as an HTML page or as an image."""
    if not (logdir or html or png):
        raise UserError("no output was asked for; give --logdir DIR for TensorBoard, --html FILE or --png FILE")
    check_is_no_file(model)
    for number, sentence in enumerate(sentences, start=1):
        if not sentence.strip():
            raise UserError(BLANK.format(number))
        if os.path.isfile(sentence):
            raise UserError(
                f"{sentence}: a file, but a sentence is expected; give the sentence itself, or for the file's first "
                f'line "$(head -n 1 {shlex.quote(sentence)})"'
            )
        if not sentence.isascii() and sentence != sentence.encode("utf-8", "replace").decode("utf-8"):
            raise UserError(f"sentence {number} is not valid UTF-8; set the terminal's encoding to UTF-8")
    if png and len(sentences) > 1:
        raise UserError("--png can show only one sentence; give one, or use --html FILE for several")
    check_new_page_and_image(html, png)
    if logdir and logdir.exists() and not logdir.is_dir():
        raise UserError(f"{logdir}: a file; --logdir must be a folder")
    if logdir:
        check_can_be_made(logdir / "run")
    load = session_loader(model)
    with quiet_tensorflow(session=load is not None):
        from tf_transformer.inspection.sentence import inspect, load_attend
        from tf_transformer.tensorboard.page import write_page

    inspections = inspect(load_attend(model, load), sentences)
    for number, each in enumerate(inspections, start=1):
        if not each.target_tokens:  # tokenizers count more characters as white space than Python does
            raise UserError(BLANK.format(number))
    for each in inspections:
        if each.truncated:
            notes.print(f"cut to the model's maximum length: {each.source}")
        print(each.translation)
    if logdir:
        with quiet_tensorflow():
            from tf_transformer.tensorboard.board import write_to_log_dir
        # Each model is a TensorBoard run of its own, so that models can be compared.
        write_to_log_dir(logdir / (model.as_posix().strip("./").replace("/", "-") or "model"), inspections)
        notes.print(f"to see it, run tensorboard --logdir {logdir} and open the tab Attention")
    if html:
        with written_new(html, "the page") as partial:
            write_page(partial, inspections, str(model))
        notes.print(f"page: {html}")
    if png:
        from tf_transformer.inspection.pictures import plot_inspection

        with written_new(png, "the image") as partial:
            plot_inspection(inspections[0], partial)
        notes.print(f"image: {png}")
