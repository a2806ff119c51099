"""The command `backtranslate`: make sentence pairs of a text in the target language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tf_transformer.commands.app import app
from tf_transformer.commands.filter_options import (
    DUPLICATES_OPTION,
    FEWEST_OPTION,
    MOST_OPTION,
    OVERLAP_OPTION,
    RATIO_OPTION,
    REPEATS_OPTION,
    SCRIPT_SHARE_OPTION,
    SOURCE_SCRIPT_OPTION,
    TARGET_SCRIPT_OPTION,
    UNIT_OPTION,
    show_filtered,
)
from tf_transformer.commands.options import (
    ALPHA_OPTION,
    BATCH_SIZE_OPTION,
    BEAM_OPTION,
    ENGINE_OPTION,
    JSON_OPTION,
    MODEL_ARGUMENT,
)
from tf_transformer.errors import UserError
from tf_transformer.shards.source import SHARD_LINES
from tf_transformer.terminal.arguments import check_is_no_file, given
from tf_transformer.terminal.lines import output_lines
from tf_transformer.terminal.notes import notes
from tf_transformer.terminal.translating import load_translations
from tf_transformer.terminal.windows import LONG

METHODS = ("beam", "sampling", "noised-beam")


@app.command()
def backtranslate(
    model: Annotated[Path, MODEL_ARGUMENT],
    monolingual: Annotated[
        Path, typer.Argument(help="File of sentences in the language to translate into, one per line, plain or gzip.")
    ],
    out: Annotated[
        Path,
        typer.Argument(
            help="New folder for source.txt, target.txt and manifest.json; the translations are in OUT.shards."
        ),
    ],
    method: Annotated[
        str,
        typer.Option(
            metavar="|".join(METHODS),
            help="beam search, sampling, or beam search with words dropped, replaced and moved.",
        ),
    ] = "beam",
    beam_size: Annotated[int | None, BEAM_OPTION] = None,
    alpha: Annotated[float | None, ALPHA_OPTION] = None,
    top_k: Annotated[
        int | None, typer.Option(min=0, help="Sample from the K most likely tokens.", show_default="no limit")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="Random seed of sampling and noise.", show_default="0")
    ] = None,
    min_score: Annotated[
        float | None,
        typer.Option(
            help="Drop translations with a score below this, as translate --json prints it.", show_default="none"
        ),
    ] = None,
    unit: Annotated[str, UNIT_OPTION] = "words",
    min_length: Annotated[int, FEWEST_OPTION] = 1,
    max_length: Annotated[int, MOST_OPTION] = 200,
    max_ratio: Annotated[float, RATIO_OPTION] = 3.0,
    max_overlap: Annotated[float, OVERLAP_OPTION] = 0.75,
    max_repeats: Annotated[int, REPEATS_OPTION] = 4,
    source_script: Annotated[str | None, SOURCE_SCRIPT_OPTION] = None,
    target_script: Annotated[str | None, TARGET_SCRIPT_OPTION] = None,
    min_script: Annotated[float, SCRIPT_SHARE_OPTION] = 0.5,
    duplicates: Annotated[bool, DUPLICATES_OPTION] = False,
    engine: Annotated[str, ENGINE_OPTION] = "tensorflow",
    batch_size: Annotated[int, BATCH_SIZE_OPTION] = 64,
    shard_lines: Annotated[int, typer.Option(min=1, help="Number of lines in a shard.")] = SHARD_LINES,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="Translate every N-th shard, starting from shard I (counted from 0), as one of N jobs."
        ),
    ] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Makes pairs to train on of a text in the target language, by a model that translates into the source language.

    If it is interrupted, the same command goes on.
    """
    from tf_transformer.data.noise import Noise
    from tf_transformer.data.text_filters import PairLimits
    from tf_transformer.shards.back_translation import NOISED_BEAM, SOURCE, TARGET, back_translate
    from tf_transformer.shards.job import Job, TranslateShard
    from tf_transformer.translation.loading import check_are_models

    changes = _decoding_options(method, beam_size, alpha, top_k, seed)
    noise = Noise(**NOISED_BEAM, seed=seed or 0) if method == "noised-beam" else Noise()
    limits = PairLimits(
        unit=unit,
        min_length=min_length,
        max_length=max_length,
        max_ratio=max_ratio,
        max_overlap=max_overlap,
        max_repeats=max_repeats,
        source_script=source_script,
        target_script=target_script,
        min_script=min_script,
        duplicates=duplicates,
    )
    check_is_no_file(model)
    check_are_models([model], engine)

    def load_lines() -> TranslateShard:
        optimise = monolingual.stat().st_size >= LONG
        translations = load_translations([model], changes, engine, batch_size, optimise=optimise)
        return lambda lines, advance: output_lines(
            str(monolingual), lines, translations(lines, advance), as_json=True, cut=True
        )

    pairs = back_translate(
        monolingual,
        shard_lines,
        out,
        Job.read(job) if job else None,
        {"models": [model], "engine": engine, "options": {**changes, "json": True}},
        load_lines,
        limits,
        min_score,
        noise,
    )
    if pairs is None:
        return
    show_filtered({**pairs, "source": str(out / SOURCE), "target": str(out / TARGET)}, as_json)
    if not as_json:
        source, target = (out.absolute() / name for name in (SOURCE, TARGET))  # a recipe's paths start from data.root
        notes.print(
            f"written; to train on it, put into data.train of a recipe: {{files: [{source}, {target}], tag: <bt>}}"
        )


def _decoding_options(
    method: str, beam_size: int | None, alpha: float | None, top_k: int | None, seed: int | None
) -> dict[str, Any]:
    """The options of the search; those that the method has no use for are refused."""
    if method not in METHODS:
        raise UserError(f"--method is {method}; choose from {', '.join(METHODS)}")
    unused = {"sampling": {"--beam-size": beam_size, "--alpha": alpha}, "noised-beam": {"--top-k": top_k}}
    unused["beam"] = {"--top-k": top_k, "--seed": seed}
    for option, value in unused[method].items():
        if value is not None:
            raise UserError(f"{option} has no effect with --method {method}; leave it out, or choose another method")
    if method == "sampling":
        return given(temperature=1.0, top_k=top_k, seed=seed)
    return given(beam_size=beam_size, alpha=alpha)
