"""Translating a file, or standard input."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import (
    ALPHA_OPTION,
    BATCH_SIZE_OPTION,
    BEAM_OPTION,
    ENGINE_OPTION,
    FILE_ARGUMENT,
    MODEL_ARGUMENT,
)
from tf_transformer.errors import UserError
from tf_transformer.terminal import (
    check_is_no_file,
    given,
    notes,
    open_sentences,
    quiet_tensorflow,
    read_lines,
    streams_of,
    telling_progress,
    write_translation,
)


@app.command()
def translate(
    model: Annotated[Path, MODEL_ARGUMENT],
    file: Annotated[Path | None, FILE_ARGUMENT] = None,
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            "--nbest",
            min=1,
            help="Print so many translations of each line, each with its score; widens the beam to as many, unless "
            "--beam-size is given.",
        ),
    ] = None,
    min_length: Annotated[int | None, typer.Option(min=1, help="Fewest tokens, the closing one counted.")] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Most tokens, the closing one counted.")] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0, help="Draw tokens by chance, without a beam; at 1 with the model's probabilities."),
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw among so many likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw among the likeliest with this probability.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of the draws.")] = None,
    replace_unknown: Annotated[
        bool, typer.Option("--replace-unknown", help="Put the source's word for an unknown token.")
    ] = False,
    cut: Annotated[bool, typer.Option("--cut", help="Translate the beginning of a sentence that is too long.")] = False,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print an object a line: translation, score, truncated.")
    ] = False,
) -> None:
    """Translates a file, or standard input, line by line to standard output."""
    changes = given(
        beam_size=beam_size,
        alpha=alpha,
        num_hypotheses=nbest,
        min_length=min_length,
        max_length=max_length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        replace_unknown=replace_unknown or None,
    )
    if temperature and alpha is not None and not (nbest or as_json):
        raise UserError(
            "--alpha ranks and scores what is drawn, of which nothing is shown here; leave it out, or give --nbest or "
            "--json"
        )
    if sys.stdout is None:
        raise UserError("standard output is closed; send it to a file or to another command")
    check_is_no_file(model)
    file = None if file == Path("-") else file
    stream = open_sentences(file)
    with quiet_tensorflow(streams=True):
        from tf_transformer.translation import load_translate, own_options, translate_texts

    function = load_translate(model, changes, engine)
    if (
        nbest
        and nbest > 1
        and beam_size is None
        and not temperature
        and nbest > (width := own_options(model).beam_size)
    ):
        notes.print(f"--nbest {nbest} makes the beam {nbest} wide, in place of {width}; --beam-size tells it otherwise")
    streams = streams_of(engine)
    name = "standard input" if file is None else str(file)
    lines = enumerate(read_lines(stream, name), start=1)
    # Sorted by length within a window, so that batches hold little padding, and written window by window.
    with telling_progress(file) as advance:
        while window := list(islice(lines, 16 * batch_size)):
            translations = translate_texts(function, [line for _, line in window], batch_size, streams, advance)
            for (number, _), translation in zip(window, translations, strict=True):
                if translation.truncated and not cut:
                    raise UserError(
                        f"{name}, line {number}: more tokens than the model has positions; split it, or give --cut to "
                        "translate its beginning"
                    )
                write_translation(number, translation, as_json, nbest is not None)
            sys.stdout.flush()
