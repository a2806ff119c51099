"""One job of a translation in shards: those that are missing, one after another, and what is done at the end."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tf_transformer.errors import UserError
from tf_transformer.shards.folder import ShardFolder
from tf_transformer.shards.manifest import begin, check_folder, make_manifest
from tf_transformer.shards.source import Source
from tf_transformer.terminal.arguments import check_can_be_made
from tf_transformer.terminal.lines import progress_bar
from tf_transformer.terminal.notes import notes

# Makes lines of output of a shard's lines, which have their numbers; calls what it is given with lines that are done.
TranslateShard = Callable[[list[tuple[int, str]], Callable[[int], None]], Iterable[bytes]]


class Job(NamedTuple):
    """One of several jobs; its shards are each `jobs`-th, from `number` on."""

    number: int
    jobs: int

    @classmethod
    def read(cls, text: str) -> Job:
        """Reads what `--job` is given.

        Raises:
            UserError: it is not I/N, with I from 0 to N - 1.

        Example:
            >>> Job.read("3/8")
            Job(number=3, jobs=8)
        """
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        job = cls(int(found[1]), int(found[2])) if found else None
        if not job or job.number >= job.jobs:
            raise UserError(f"--job is {text}; give I/N, the number of this job and of all jobs: 0/8 to 7/8 for 8 jobs")
        return job


def translate_in_shards(
    file: Path,
    shard_lines: int,
    folder: Path,
    job: Job | None,
    output: Path | None,
    described: Mapping[str, Any],
    load: Callable[[], TranslateShard],
) -> None:
    """Translates what is missing of a job's shards; where all of them are there, writes the joined translation.

    Args:
        file: what is translated.
        shard_lines: lines in each shard.
        folder: where the shards lie, or will.
        job: whose shards to translate; all of them unless given.
        output: where the joined translation is written; to standard output unless given, and not by one of several
            jobs.
        described: model, engine and options, for the manifest.
        load: loads the model; not called where nothing is missing.

    Raises:
        UserError: a mistake in the file or its lines; the folder holds shards of another command; or something can't
            be written.
    """
    source = Source(file, shard_lines)
    manifest = make_manifest(source, **described)
    check_folder(folder, manifest)
    shards = ShardFolder(folder, source, line_for_line="num_hypotheses" not in described["options"])
    if output:
        # Before the shards are joined, all else that is half written in their folder is removed.
        if output.parent.resolve() == folder.resolve():
            raise UserError(f"{output}: in the folder of the shards; give a file in another folder")
        if not output.parent.is_dir():
            raise UserError(f"{output.parent}: no such folder; create it, or give a file in another folder")
        if output.exists() and shards.missing():
            raise UserError(f"{output}: already exists and was not changed; give another name")
        check_can_be_made(output)
    if translate_missing(shards, manifest, job, load):
        return
    if output:
        shards.join(output)
        notes.print(f"translation: {output}")
    elif not job:
        shards.copy(sys.stdout.buffer)
        sys.stdout.flush()


def translate_missing(
    shards: ShardFolder, manifest: dict[str, Any], job: Job | None, load: Callable[[], TranslateShard]
) -> int:
    """Translates what is missing of a job's shards; gives the number of those that are left to other jobs.

    Args:
        shards: where they lie, or will.
        manifest: what they are the translation of; the folder's own, if it has one, must be the same.
        job: whose shards to translate; all of them unless given.
        load: loads the model; not called where nothing is missing.
    """
    source, missing = shards.source, shards.missing(*job) if job else shards.missing()
    if missing:
        translate = load()
        begin(shards.path, manifest)
        with _telling(sum(map(source.lines_of, missing)), len(source)) as (advance, tell):
            for index in missing:
                began = time.perf_counter()
                shards.write(index, translate(source.shard(index), advance))
                tell(index, source.lines_of(index), time.perf_counter() - began)
    if left := len(shards.missing()):
        notes.print(f"{left:,} of {len(source):,} shards are left to other jobs")
    return left


@contextmanager
def _telling(lines: int, shards: int) -> Iterator[tuple[Callable[[int], None], Callable[[int, int, float], None]]]:
    """Shows a bar on a terminal, elsewhere a line for each shard."""
    if notes.is_terminal:
        with progress_bar(lines) as advance:
            yield advance, lambda index, done, seconds: None
        return

    def tell(index: int, done: int, seconds: float) -> None:
        notes.print(f"shard {index} of {shards:,}: {done:,} lines in {seconds:.1f} s, {done / seconds:,.0f} a second")

    yield lambda done: None, tell
