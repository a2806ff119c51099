"""The command `parse`: parse a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import (
    ALPHA_OPTION,
    BATCH_SIZE_OPTION,
    BEAM_OPTION,
    FILE_ARGUMENT,
    GRAMMAR_OPTION,
    MODEL_ARGUMENT,
    check_parsers_alpha,
)
from tf_transformer.cores import cores
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_new
from tf_transformer.session.loading import session_loader
from tf_transformer.terminal.arguments import check_is_no_file, check_new_page_and_image, given
from tf_transformer.terminal.lines import open_sentences, read_lines, telling_progress
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow
from tf_transformer.terminal.windows import WINDOW_BATCHES, grows, is_long, windows

# Brackets in words, as treebanks write them: plain brackets belong to the trees.
BRACKETS = str.maketrans({"(": "-LRB-", ")": "-RRB-"})


@app.command()
def parse(
    model: Annotated[Path, MODEL_ARGUMENT],
    file: Annotated[Path | None, FILE_ARGUMENT] = None,
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    grammar: Annotated[bool | None, GRAMMAR_OPTION] = None,
    pretty: Annotated[bool, typer.Option("--pretty", help="Draw each tree over several lines of text.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also draw the trees in this file, an HTML page.")] = None,
    png: Annotated[
        Path | None, typer.Option(help="Also draw the tree in this file, a PNG image (one sentence).")
    ] = None,
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
) -> None:
    """Parses a file or standard input, and writes one tree per line to standard output.

    Each input line is one sentence, with spaces between its words.
    """
    if sys.stdout is None:
        raise UserError("standard output is closed; redirect it to a file or to another command")
    check_is_no_file(model)
    check_new_page_and_image(html, png)
    changes = given(beam_size=beam_size, alpha=alpha)
    check_parsers_alpha(model, changes, grammar)
    stream, name = open_sentences(file, command="parse")
    load = session_loader(model, optimise=is_long(stream))
    lines = windows(read_lines(stream, name), WINDOW_BATCHES * batch_size, at_once=grows(stream))
    with quiet_tensorflow(streams=True, session=load is not None):
        from tf_transformer.parsing.drawing import draw_text, plot_tree, write_page
        from tf_transformer.parsing.sentences import load_parse, parse_sentences

    function = load_parse(model, changes, grammar, load)
    mended, truncated, trees = 0, 0, []
    with telling_progress(file) as advance:
        for window in lines:
            sentences = [line.translate(BRACKETS).split() for line in window]
            for parsed in parse_sentences(function, sentences, batch_size, cores(), advance):
                text = draw_text(parsed.tree) if pretty and parsed.tree else str(parsed.tree or "")
                sys.stdout.buffer.write(text.encode("utf-8") + b"\n")
                mended += parsed.mended
                truncated += parsed.truncated
                if parsed.tree and (html or png):
                    trees.append(parsed.tree)
            sys.stdout.flush()
    if mended and function.grammar:
        notes.print(f"{mended:,} trees had no room for all words; the last words were put at the end of the root")
    elif mended:
        notes.print(f"{mended:,} outputs were not well-formed trees and were repaired")
    if truncated:
        notes.print(
            f"{truncated:,} sentences were cut to the model's maximum length, so their last words were not read; "
            "split them into shorter ones"
        )
    if png and len(trees) != 1:
        raise UserError(f"--png can show only one tree, not {len(trees):,}; give one sentence, or use --html FILE")
    if html:
        with written_new(html, "the page") as partial:
            write_page(partial, trees)
        notes.print(f"page: {html}")
    if png:
        with written_new(png, "the image") as partial:
            plot_tree(trees[0], partial)
        notes.print(f"image: {png}")
