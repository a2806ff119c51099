"""The command `translate`: translate a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import (
    ALPHA_OPTION,
    BATCH_SIZE_OPTION,
    BEAM_OPTION,
    ENGINE_OPTION,
    MODELS_AND_FILE_ARGUMENT,
    NO_REPEAT_OPTION,
    check_alpha,
    models_and_file,
)
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_at_end
from tf_transformer.protection.glossary import Glossary
from tf_transformer.session.loading import session_loader
from tf_transformer.shards.source import SHARD_LINES
from tf_transformer.terminal.arguments import check_is_no_file, check_new_file, given
from tf_transformer.terminal.lines import open_sentences, output_lines, read_lines, telling_progress
from tf_transformer.terminal.translating import Translations, load_translations
from tf_transformer.terminal.windows import LONG, WINDOW_BATCHES, grows, is_long, windows


@app.command()
def translate(
    models_then_file: Annotated[list[Path], MODELS_AND_FILE_ARGUMENT],
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    no_repeat_ngram_size: Annotated[int | None, NO_REPEAT_OPTION] = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            "--nbest",
            min=1,
            help="Number of translations to print for each line, each with its score. The beam size is raised to this "
            "number unless --beam-size is given.",
        ),
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(min=1, help="Minimum number of output tokens, including the end token.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of output tokens, including the end token.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Sample at this temperature instead of beam search; 1 uses the model's probabilities unchanged, 0 is "
            "beam search.",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=0, help="Sample from the K most likely tokens; 0 is no limit.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Sample from the most likely tokens whose probabilities add up to P (nucleus sampling)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="Random seed for sampling; the same seed repeats a result.")
    ] = None,
    replace_unknown: Annotated[
        bool,
        typer.Option(
            "--replace-unknown", help="Replace an unknown output token with the source word it attends to most."
        ),
    ] = False,
    protect: Annotated[
        bool,
        typer.Option(
            "--protect",
            help="Keep links, mail addresses, {placeholders}, tags, numbers with units, emoji, and text between ⟦ and "
            "⟧ as they are.",
        ),
    ] = False,
    glossary: Annotated[
        Path | None,
        typer.Option(
            help="File of terms and their translations, one pair per line, separated by a tab; they are used wherever "
            "a term occurs. Includes --protect.",
        ),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(
            help="File to write word alignments to: one line per translation, such as 0-0 1-2: source word and target "
            "word, both counted from 0."
        ),
    ] = None,
    cut: Annotated[
        bool,
        typer.Option("--cut", help="Cut sentences that exceed the model's maximum length, instead of stopping."),
    ] = False,
    paragraphs: Annotated[
        bool,
        typer.Option(
            "--paragraphs",
            help="Treat each line as a paragraph of several sentences: translate its sentences one by one and print "
            "them as one line, with the original spacing.",
        ),
    ] = False,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line: translation, score, truncated.")
    ] = False,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", help="Translate what you type, with history and line editing; :help lists its commands."
        ),
    ] = False,
    shards: Annotated[
        Path | None,
        typer.Option(
            help="Folder for FILE's translation in shards, one file each. Given again, the command translates the "
            "shards that are missing; once all are there, it prints them joined."
        ),
    ] = None,
    shard_lines: Annotated[
        int | None, typer.Option(min=1, help="Number of lines in a shard.", show_default=f"{SHARD_LINES:,}")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Translate every N-th shard, starting from shard I (counted from 0), as one of N jobs."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="With --shards: the file for the joined translation, written whole once all shards are there."
        ),
    ] = None,
) -> None:
    """Translates a file or standard input, line by line, to standard output.

    Several models translate together, as an ensemble: what counts is the mean of their log-probabilities.
    """
    models, file = models_and_file(models_then_file)
    changes = given(
        beam_size=beam_size,
        alpha=alpha,
        no_repeat_ngram_size=no_repeat_ngram_size,
        num_hypotheses=nbest,
        min_length=min_length,
        max_length=max_length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        replace_unknown=replace_unknown or None,
        protect=protect or glossary is not None or None,
    )
    terms = Glossary.read(glossary) if glossary else None
    _check_options(
        models,
        changes,
        engine,
        file=file,
        alignments=alignments,
        paragraphs=paragraphs,
        as_json=as_json,
        interactive=interactive,
        terms=terms,
        shards=shards,
        only_in_shards={"--shard-lines": shard_lines, "--job": job, "--output": output},
    )
    if interactive:
        from tf_transformer.terminal.interactive import converse

        converse(models, changes, engine)
        return
    from tf_transformer.translation.loading import check_are_models

    check_are_models(models, engine)
    if not (nbest or as_json):
        check_alpha(models[0], changes, "give a larger --beam-size, or show the scores with --nbest or --json")
    load = partial(load_translations, models, changes, engine, batch_size, paragraphs=paragraphs, terms=terms)
    shown = partial(output_lines, as_json=as_json, nbest=nbest is not None, paragraphs=paragraphs, cut=cut)
    if not shards:
        _translate_stream(file, WINDOW_BATCHES * batch_size, load, shown, models, alignments)
        return
    from tf_transformer.shards.job import Job, TranslateShard, translate_in_shards

    if file is None:
        raise UserError("--shards needs FILE: a shard is found by its position in a file; give one, plain or gzip")

    def load_lines() -> TranslateShard:
        translations = load(optimise=file.stat().st_size >= LONG)
        return lambda lines, advance: shown(str(file), lines, translations(lines, advance))

    options = given(
        **changes,
        glossary=terms.fingerprint if terms else None,
        json=as_json or None,
        paragraphs=paragraphs or None,
    )
    translate_in_shards(
        file,
        shard_lines or SHARD_LINES,
        shards,
        Job.read(job) if job else None,
        output,
        {"models": models, "engine": engine, "options": options},
        load_lines,
    )


def _check_options(
    models: list[Path],
    changes: dict[str, Any],
    engine: str,
    *,
    file: Path | None,
    alignments: Path | None,
    paragraphs: bool,
    as_json: bool,
    interactive: bool,
    terms: Glossary | None,
    shards: Path | None,
    only_in_shards: dict[str, Any],
) -> None:
    """Raises a UserError for options that do not go together, or that nothing can be done with."""
    nbest = changes.get("num_hypotheses")
    if changes.get("temperature") and "alpha" in changes and not (nbest or as_json):
        raise UserError(
            "--alpha has no effect here: with --temperature it only changes scores, which are not shown; leave it out, "
            "or show the scores with --nbest or --json"
        )
    if paragraphs and nbest:
        raise UserError("--nbest ranks translations of one sentence; leave it out, or leave out --paragraphs")
    if sys.stdout is None:
        raise UserError("standard output is closed; redirect it to a file or to another command")
    for model in models:
        check_is_no_file(model)
    if alignments:
        if "protect" in changes or paragraphs or interactive or shards or engine != "tensorflow":
            raise UserError(
                "--alignments align what the model itself reads and writes, line by line; leave out --protect, "
                "--glossary, --paragraphs, --interactive, --shards and --engine"
            )
        check_new_file(alignments)
    for option, value in only_in_shards.items():
        if value is not None and not shards:
            raise UserError(f"{option} only applies to a translation in shards; give --shards DIR too, or leave it out")
    if interactive and (file or as_json or paragraphs or shards or terms):
        raise UserError(
            "--interactive translates what you type; leave out FILE, --json, --paragraphs, --shards and --glossary"
        )


def _translate_stream(
    file: Path | None,
    window: int,
    load: Callable[..., Translations],
    shown: Callable[..., Iterator[bytes]],
    models: list[Path],
    alignments: Path | None,
) -> None:
    """Translates a file or standard input window by window, and writes each before the next is translated.

    Args:
        file: what is translated; standard input unless given.
        window: the most lines in a window.
        load: `load_translations` with all arguments but `optimise`.
        shown: `output_lines` with the options of the output.
        models: what aligns the words.
        alignments: where word alignments are written, if they are asked for.
    """
    stream, name = open_sentences(file)
    optimise = is_long(stream)  # asked before anything is read: a stream that has ended is closed
    lines = windows(enumerate(read_lines(stream, name), start=1), window, at_once=grows(stream))
    translate_lines = load(optimise=optimise)
    if alignments:
        from tf_transformer.inspection.aligning import load_align

        align = load_align(models, session_loader(models, optimise=optimise))
    # With its name only once all is translated: what stops the command may be mended, and the same file given again.
    new_file = written_at_end(alignments, "the alignments") if alignments else nullcontext()
    with telling_progress(file) as advance, new_file as aligned:
        for numbered in lines:
            translations = list(translate_lines(numbered, advance))
            for line in shown(name, numbered, translations):
                sys.stdout.buffer.write(line)
            sys.stdout.flush()
            if alignments:
                texts = [text for _, text in numbered]
                aligned.writelines(f"{line}\n" for line in align(texts, [each.text for each in translations]))
