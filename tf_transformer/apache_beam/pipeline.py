"""A pipeline that translates a file: its shards are read, translated and written wherever the runner has a worker."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any, BinaryIO, NamedTuple
from uuid import uuid4

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError, CompressedFile
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference

from tf_transformer.apache_beam.handler import Outcome, TranslationHandler
from tf_transformer.data.lines import numbered_lines


class Shard(NamedTuple):
    """A part of a file: its number, the byte where it begins, its lines and, of a packed file, its text."""

    path: str
    index: int
    offset: int
    first_line: int
    lines: int
    text: bytes | None = None


def shards_of(path: str, shard_lines: int) -> Iterator[Shard]:
    """Finds the shards of a file, plain or packed, on any file system that Beam knows."""
    offset = 0
    with FileSystems.open(path) as file:
        # Who reads a packed file from a place on has to unpack all that is before it: its shards take their text along.
        packed = isinstance(file, CompressedFile)
        for index in count():
            lines = list(islice(_lines(file), shard_lines))
            if not lines:
                return
            text = b"".join(lines)
            yield Shard(path, index, offset, index * shard_lines + 1, len(lines), text if packed else None)
            offset += len(text)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    return iter(file.readline, b"")  # Beam's packed files are no iterators


class ReadShard(beam.DoFn):
    """Reads a shard: a line's place, (shard, number), and its text; what is not UTF-8 is set aside, under FAILED."""

    FAILED = "failed"

    def process(self, shard: Shard) -> Iterator[Any]:
        with FileSystems.open(shard.path) if shard.text is None else io.BytesIO(shard.text) as file:
            if shard.text is None:
                file.seek(shard.offset)
            for number, line in numbered_lines(islice(_lines(file), shard.lines), shard.first_line):
                place = shard.index, number
                try:
                    yield place, line.decode("utf-8")
                except UnicodeDecodeError as error:
                    text, told = line.decode("utf-8", errors="replace"), f"not valid UTF-8 at byte {error.start + 1}"
                    yield beam.pvalue.TaggedOutput(self.FAILED, (place, Outcome(text, failure=told)))


class WriteShard(beam.DoFn):
    """Writes a shard's translations, a line for each of its lines, into a file that appears whole."""

    def __init__(self, output: str) -> None:
        self.output = output

    def process(self, shard: tuple[int, Iterable[tuple[int, Outcome]]]) -> Iterator[str]:
        """Gives what failed, as JSON; in its place is an empty line."""
        index, rows = shard
        rows = sorted(rows)
        path = f"{self.output}-{index:07d}.txt"
        partial = f"{path}.partial-{uuid4().hex}"  # another worker may be at the same, should this one seem lost
        with FileSystems.create(partial, "text/plain", compression_type="uncompressed") as file:
            for _, outcome in rows:
                file.write(outcome.translation.encode("utf-8") + b"\n")
        try:
            FileSystems.rename([partial], [path])
        except BeamIOError:
            if not FileSystems.exists(path):
                raise
            # HDFS replaces no file; here is the same shard already, of a try that was lost after it had written it.
            FileSystems.delete([partial])
        for number, outcome in rows:
            if outcome.failure:
                told = {"line": number, "reason": outcome.failure, "source": outcome.source}
                yield json.dumps(told, ensure_ascii=False)


def translate_file(
    pipeline: beam.Pipeline, source: str, output: str, handler: TranslationHandler, shard_lines: int
) -> None:
    """Adds the translation of a file to a pipeline.

    Args:
        pipeline: the pipeline.
        source: the file, plain or packed.
        output: what the names of the written files begin with: `OUTPUT-0000000.txt` and so on, a shard each, which
            joined in the order of their names have line for line the source's order; and `OUTPUT-failed-*.jsonl`.
        handler: what translates.
        shard_lines: lines in a shard.
    """
    read = (
        pipeline
        | "file" >> beam.Create([source])
        | "shards" >> beam.FlatMap(shards_of, shard_lines)
        | "to all workers" >> beam.Reshuffle()
        | "lines" >> beam.ParDo(ReadShard()).with_outputs(ReadShard.FAILED, main="lines")
    )
    translated = read.lines | "translate" >> RunInference(KeyedModelHandler(handler))
    (
        (translated, read[ReadShard.FAILED])
        | "all lines" >> beam.Flatten()
        | "by shard" >> beam.MapTuple(lambda place, outcome: (place[0], (place[1], outcome)))
        | "shard by shard" >> beam.GroupByKey()
        | "write" >> beam.ParDo(WriteShard(output))
        | "what failed" >> beam.io.WriteToText(f"{output}-failed", file_name_suffix=".jsonl", num_shards=1)
    )
