"""Back-translations: sentence pairs made of a text in the target language and its translation, which lies in shards."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tf_transformer.data.noise import Noise
from tf_transformer.data.text_filters import PairFilter, PairLimits
from tf_transformer.errors import UserError
from tf_transformer.files.as_json import as_json
from tf_transformer.files.checksums import digest
from tf_transformer.files.whole import PARTIAL, folder_written_once
from tf_transformer.shards.folder import ShardFolder
from tf_transformer.shards.job import Job, TranslateShard, translate_missing
from tf_transformer.shards.manifest import MANIFEST, check_folder, check_same, make_manifest
from tf_transformer.shards.source import Source
from tf_transformer.terminal.arguments import check_can_be_made

SOURCE, TARGET = "source.txt", "target.txt"

# Edunov et al. (2018), section 3.2, has these shares of words and this distance.
NOISED_BEAM = {"drop": 0.1, "fill": 0.1, "swap": 3}


def back_translate(
    file: Path,
    shard_lines: int,
    out: Path,
    job: Job | None,
    described: Mapping[str, Any],
    load: Callable[[], TranslateShard],
    limits: PairLimits,
    min_score: float | None,
    noise: Noise,
) -> dict[str, Any] | None:
    """Translates what is missing of a job's shards, beside `out`; where all of them are there, makes the pairs.

    Args:
        file: sentences of the target language, one a line.
        shard_lines: lines in each shard.
        out: the folder for the pairs, which appears whole.
        job: whose shards to translate; all of them unless given.
        described: model, engine and options, for the manifest.
        load: loads what translates into the source language, and gives each translation as a line of JSON.
        limits: which pairs are kept.
        min_score: the lowest score of a translation that is kept; None for any.
        noise: what is done to the translations that are kept.

    Returns:
        What `PairFilter.as_dict` tells; None where shards are left to other jobs.

    Raises:
        UserError: a mistake in the file; one of the folders is from another command; or something can't be written.
    """
    source = Source(file, shard_lines)
    if not source.lines:
        raise UserError(f"no sentences in {file}: give a file that holds at least one")
    manifest = make_manifest(source, **described)
    whole = {**manifest, "filters": {**asdict(limits), "min_score": min_score}, "noise": asdict(noise)}
    if out.exists():
        return _made_before(out, whole)
    check_can_be_made(out)
    folder = out.with_name(out.name + ".shards")
    check_folder(folder, manifest)
    shards = ShardFolder(folder, source, line_for_line=True)
    if translate_missing(shards, manifest, job, load):
        return None
    partial = folder / f"{PARTIAL}pairs-{socket.gethostname()}-{os.getpid()}"
    with folder_written_once(out, partial, "the back-translation") as written:
        result = _write(shards, written, PairFilter(limits), min_score, noise)
        text = as_json({**whole, "result": result}) + "\n"
        (written / MANIFEST).write_text(text, encoding="utf-8")
    return _made_before(out, whole)  # by this process, or by another that was sooner


def _made_before(out: Path, whole: dict[str, Any]) -> dict[str, Any]:
    """What a folder's manifest tells; the folder must be this command's."""
    if not (out / MANIFEST).is_file():
        raise UserError(f"{out}: already exists, holds no back-translation and was not changed; give another name")
    check_same(out / MANIFEST, whole, "this back-translation is")
    return json.loads((out / MANIFEST).read_bytes())["result"]["pairs"]


def _write(
    shards: ShardFolder, folder: Path, pairs: PairFilter, min_score: float | None, noise: Noise
) -> dict[str, Any]:
    """Writes both sides of the pairs that are kept; gives the counts and the files' checksums."""
    with (folder / SOURCE).open("wb") as sources, (folder / TARGET).open("wb") as targets:
        for number, target, row in _translations(shards):
            source = " ".join(row["translation"].splitlines())
            if row["truncated"]:
                pairs.count("truncated")
            elif min_score is not None and (row["score"] is None or row["score"] < min_score):  # null: not finite
                pairs.count("low_score")
            elif pairs.reason(source, target) is None:
                sources.write(noise(number, source).encode() + b"\n")
                targets.write(target.encode() + b"\n")
    return {"pairs": pairs.as_dict(), "sha256": {name: digest(folder / name) for name in (SOURCE, TARGET)}}


def _translations(shards: ShardFolder) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Each line with its number and its translation, as `translate --json` tells it."""
    for index in range(len(shards.source)):
        shards.check(index)
        try:
            rows = [json.loads(line) for line in shards.file(index).read_bytes().splitlines()]
        except ValueError:
            raise UserError(
                f"{shards.file(index)}: damaged, not lines of JSON; remove it, and give the command again"
            ) from None
        for (number, line), row in zip(shards.source.shard(index), rows, strict=True):
            yield number, line, row
