"""The command `translate`: translate a file or standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.options import (
    ALPHA_OPTION,
    BATCH_SIZE_OPTION,
    BEAM_OPTION,
    ENGINE_OPTION,
    MODELS_AND_FILE_ARGUMENT,
    NO_REPEAT_OPTION,
    models_and_file,
)
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_at_end
from tf_transformer.protection.glossary import Glossary
from tf_transformer.shards.source import SHARD_LINES
from tf_transformer.terminal.arguments import check_is_no_file, check_new_file, given
from tf_transformer.terminal.lines import open_sentences, paragraph_line, read_lines, telling_progress, translation_line
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.process import quiet_tensorflow, session_loader, streams_of
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
            help="File of terms and their translations, one pair per line with a tab between; they are used wherever a "
            "term occurs. Includes --protect.",
        ),
    ] = None,
    alignments: Annotated[
        Path | None,
        typer.Option(
            help="File to write word alignments to: a line for each translation, such as 0-0 1-2: source word, target "
            "word, counted from 0."
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
            help="Take each line as a paragraph of several sentences: translate its sentences one by one and print "
            "them as one line, with their blanks.",
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
            help="Folder for FILE's translation in shards, a file each. Given again, the command translates the shards "
            "that are missing; once all are there, it prints them joined."
        ),
    ] = None,
    shard_lines: Annotated[
        int | None, typer.Option(min=1, help="Number of lines in a shard.", show_default=f"{SHARD_LINES:,}")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Translate each N-th shard from I on, which counts from 0: one of N jobs."),
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
    if temperature and alpha is not None and not (nbest or as_json):
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
        if protect or glossary or paragraphs or interactive or shards or engine != "tensorflow":
            raise UserError(
                "--alignments are of what the model itself reads and writes, line by line; leave out --protect, "
                "--glossary, --paragraphs, --interactive, --shards and --engine"
            )
        check_new_file(alignments)
    for option, value in {"--shard-lines": shard_lines, "--shard": shard, "--output": output}.items():
        if value is not None and not shards:
            raise UserError(f"{option} only applies to a translation in shards; give --shards DIR too, or leave it out")
    if interactive:
        if file or as_json or paragraphs or shards or terms:
            raise UserError(
                "--interactive translates what you type; leave out FILE, --json, --paragraphs, --shards and --glossary"
            )
        from tf_transformer.terminal.interactive import converse

        converse(models, changes, engine)
        return
    from tf_transformer.translation.loading import check_are_models

    check_are_models(models, engine)
    file = None if file == Path("-") else file
    name = "standard input" if file is None else str(file)
    window = WINDOW_BATCHES * batch_size

    def load_model(optimise: bool) -> Callable[[list[tuple[int, str]], Callable[[int], None]], Iterator[bytes]]:
        """Loads what makes lines of output of numbered lines, and calls its second argument with lines done."""
        load = session_loader(models, engine, optimise)
        with quiet_tensorflow(streams=True, session=load is not None):
            from tf_transformer.model_card.files import source_language
            from tf_transformer.translation.loading import load_translate, own_options
            from tf_transformer.translation.paragraphs import translate_paragraphs
            from tf_transformer.translation.texts import translate_texts

            if alignments:
                from tf_transformer.inspection.aligning import load_align

        function = load_translate(models, changes, engine, load)
        if terms:
            function = terms.applied(function)
        language = source_language(models[0]) if paragraphs else None
        if (
            nbest
            and nbest > 1
            and beam_size is None
            and not temperature
            and nbest > (width := own_options(models[0]).beam_size)
        ):
            notes.print(f"--nbest {nbest} raises the beam size from {width} to {nbest}; set another with --beam-size")
        streams = streams_of(engine)
        align = load_align(models, load) if alignments else None

        def translated(lines: list[tuple[int, str]], advance: Callable[[int], None]) -> Iterator[bytes]:
            texts = [line for _, line in lines]
            if paragraphs:
                translations = translate_paragraphs(
                    lambda sentences: translate_texts(function, sentences, batch_size, streams), texts, language
                )
            else:
                translations = translate_texts(function, texts, batch_size, streams, advance, window)
            if alignments:
                translations = list(translations)
                aligned.writelines(f"{line}\n" for line in align(texts, [each.text for each in translations]))
            for (number, _), translation in zip(lines, translations, strict=True):
                if translation.truncated and not cut:
                    raise UserError(
                        f"{name}, line {number}: longer than the model's maximum length; split the sentence, or give "
                        "--cut to translate only its beginning"
                    )
                if paragraphs:
                    yield paragraph_line(translation, as_json)
                    advance(1)
                else:
                    yield translation_line(number, translation, as_json, nbest is not None)

        return translated

    if shards:
        from tf_transformer.shards.job import Share, translate_in_shards

        if file is None:
            raise UserError("--shards needs FILE: a shard is found by its place in a file; give one, plain or gzip")
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
            Share.read(shard) if shard else None,
            output,
            {"models": models, "engine": engine, "options": options},
            lambda: load_model(optimise=file.stat().st_size >= LONG),
        )
        return
    stream = open_sentences(file)
    optimise = is_long(stream)  # asked before anything is read: a stream that has ended is closed
    lines = windows(enumerate(read_lines(stream, name), start=1), window, at_once=grows(stream))
    translated = load_model(optimise)
    # With its name only once all is translated: what stops the command may be mended, and the same file given again.
    new_file = written_at_end(alignments, "the alignments") if alignments else nullcontext()
    with telling_progress(file) as advance, new_file as aligned:
        for numbered in lines:
            for line in translated(numbered, advance):
                sys.stdout.buffer.write(line)
            sys.stdout.flush()
