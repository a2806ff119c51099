"""The command `filter`: keep the sentence pairs of two files that look like translations."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

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
from tf_transformer.commands.options import JSON_OPTION
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_new
from tf_transformer.terminal.arguments import check_new_file
from tf_transformer.terminal.notes import notes

if TYPE_CHECKING:
    from tf_transformer.data.text_filters import PairFilter


@app.command(name="filter")
def filter_pairs(
    source: Annotated[Path, typer.Argument(help="File of source sentences, one per line, plain or gzip.")],
    target: Annotated[Path, typer.Argument(help="File of their translations, one per line, plain or gzip.")],
    output: Annotated[
        str,
        typer.Option(
            metavar="PREFIX",
            help="Prefix of the files for the pairs that are kept: clean for clean.en and clean.de, with the input "
            "files' endings.",
            show_default=False,
        ),
    ],
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
    dropped: Annotated[
        Path | None,
        typer.Option(
            help="File for the pairs that are dropped: the reason, the source and the target, separated by tabs."
        ),
    ] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Keeps the pairs of two files that look like translations of each other, and counts why the others do not."""
    from tf_transformer.data.text_filters import PairFilter, PairLimits

    pairs = PairFilter(
        PairLimits(
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
    )
    kept = [Path(output + ending) for ending in _endings(source, target)]
    if dropped and os.path.realpath(dropped) in map(os.path.realpath, kept):
        raise UserError(f"{dropped}: given for --dropped and --output; give two different names")
    for file in [*kept, *([dropped] if dropped else [])]:
        check_new_file(file)
    _write(source, target, pairs, kept, dropped)
    show_filtered({**pairs.as_dict(), "source": str(kept[0]), "target": str(kept[1])}, as_json)
    if not as_json:
        notes.print(f"written: {kept[0]} and {kept[1]}")


def _endings(source: Path, target: Path) -> tuple[str, str]:
    """What tells the two files' names apart, such as ".en.gz" and ".de.gz"."""
    packed = [".gz" if file.suffix == ".gz" else "" for file in (source, target)]
    names = [Path(file.name.removesuffix(end)).suffix for file, end in zip((source, target), packed, strict=True)]
    if names[0] == names[1]:
        names = [".source", ".target"]
    return names[0] + packed[0], names[1] + packed[1]


def _write(source: Path, target: Path, pairs: PairFilter, kept: list[Path], dropped: Path | None) -> None:
    """Reads all pairs and writes each to where it belongs; the files appear whole once all are read, or none does."""
    from tf_transformer.data.prepared.bar import pairs_bar
    from tf_transformer.data.sources import TextFiles

    read = TextFiles(source, target, invalid_utf8="skip")
    with _all_or_none() as written, ExitStack() as opened:
        advance = opened.enter_context(pairs_bar("filtering", notes))
        sides = [opened.enter_context(_new_file(path, written)) for path in kept]
        rest = opened.enter_context(_new_file(dropped, written)) if dropped else None
        for pair in read:
            reason = pairs.reason(*pair)
            if reason is None:
                for side, text in zip(sides, pair, strict=True):
                    side.write(text.encode() + b"\n")
            elif rest:
                rest.write("\t".join([reason, *pair]).encode() + b"\n")
            advance(1)
    pairs.count("damaged", read.skipped)


@contextmanager
def _all_or_none() -> Iterator[list[Path]]:
    """Gives a list for the files that have been written; where the next one can't be, these are removed."""
    written: list[Path] = []
    try:
        yield written
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def _new_file(path: Path, written: list[Path]) -> Iterator[BinaryIO]:
    """Opens a file that appears whole at the end, packed where its name ends in .gz; then it is among those written."""
    with written_new(path, "the pairs") as partial, partial.open("wb") as plain:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0) as packed:  # the same bytes each time
                yield packed
        else:
            yield plain
    written.append(path)
