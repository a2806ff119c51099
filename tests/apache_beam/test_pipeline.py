"""A file translated by several processes of Beam's runner, line for line; what fails is told with its line."""

import gzip
import json
import os
import random
import re
import subprocess
import sys

import pytest

pytest.importorskip("apache_beam", reason="needs Apache Beam: make test-beam")

import apache_beam as beam
from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.localfilesystem import LocalFileSystem
from apache_beam.ml.inference.base import KeyedModelHandler, RunInference
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.apache_beam.counting import Counting
from tests.bounded import SECONDS, eventually, started
from tests.cli.command import contents
from tests.tiny_run import MAX_LENGTH, PAIRS
from tf_transformer.apache_beam import __main__ as program
from tf_transformer.apache_beam.handler import Outcome
from tf_transformer.apache_beam.pipeline import ReadShard, WriteShard, shards_of
from tf_transformer.errors import UserError
from tf_transformer.experiment import export_run_ctranslate2
from tf_transformer.shards.source import Source

WORKERS = ["--direct_num_workers", "2", "--direct_running_mode", "multi_processing"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pipeline")


@settings(deadline=None, max_examples=50)
@given(st.text(st.sampled_from("aü\n\n\r\u2028\ufeff"), max_size=30), st.integers(1, 7), st.booleans())
def test_the_shards_are_those_of_a_translation_without_beam(folder, text, shard_lines, packed):
    file = folder / ("text.gz" if packed else "text")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    source, shards = Source(file, shard_lines), list(shards_of(str(file), shard_lines))
    assert len(shards) == len(source)
    expected = [[((index, number), line) for number, line in source.shard(index)] for index in range(len(source))]
    if packed:  # read no more: to find a shard's place, all before it would be unpacked again
        file.unlink()
    assert [list(ReadShard().process(shard)) for shard in shards] == expected


def translate(model, source, output, *words):
    """What the pipeline told; it ran in processes of its own."""
    program = [sys.executable, "-m", "tf_transformer.apache_beam", model, source, output, *words]
    return subprocess.run(list(map(str, program)), capture_output=True, text=True, timeout=SECONDS)


@pytest.fixture(scope="module")
def sources(folder):
    """A file of 300 lines of which three can't be translated, and what is expected of it."""
    rows = [(source.encode(), target) for source, target in random.Random(4).choices([*PAIRS, ("", "")], k=300)]
    failed = {}
    for place, line, reason in [
        (7, b"T\xfcr", "not valid UTF-8 at byte 2"),
        (90, b"house " * 2 * MAX_LENGTH, "longer than the model's maximum length"),
        (299, b"\xff", "not valid UTF-8 at byte 1"),
    ]:
        rows[place] = line, ""
        failed[place + 1] = (reason, line.decode(errors="replace"))
    file = folder / "sources.en"
    file.write_bytes(b"\n".join(line for line, _ in rows))
    return file, "".join(target + "\n" for _, target in rows), failed


def check(output, sources) -> None:
    """That the files are there, and what they hold."""
    _, expected, failed = sources
    shards = sorted(output.parent.glob("news-[0-9]*.txt"))
    assert [shard.name for shard in shards] == [f"news-{index:07d}.txt" for index in range(19)]
    assert "".join(shard.read_text() for shard in shards) == expected
    (told,) = output.parent.glob("news-failed-*.jsonl")
    rows = map(json.loads, told.read_text().splitlines())
    assert {row["line"]: (row["reason"], row["source"]) for row in rows} == failed
    assert len(contents(output.parent)) == 20


@pytest.mark.parametrize("engine", ["tensorflow", "ctranslate2"])
def test_with_several_processes(tiny_run_directory, tiny_saved_model, sources, tmp_path, engine):
    model = tiny_saved_model
    if engine == "ctranslate2":
        pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")
        model = export_run_ctranslate2(tiny_run_directory, tmp_path / "model")
    (tmp_path / "out").mkdir()
    output = tmp_path / "out" / "news"
    ended = translate(model, sources[0], output, "--engine", engine, "--shard-lines", 16, *WORKERS)
    assert ended.returncode == 0, ended.stderr
    check(output, sources)
    if engine == "tensorflow":  # both of Beam's processes had a share of the lines
        assert len(re.findall("BatchElements statistics", ended.stderr)) >= 2


def test_a_process_loads_the_model_once(tiny_saved_model, tmp_path):
    """For however many bundles, batches and threads: each of 20 bundles or so has batches of up to 16 sentences."""
    keyed = list(enumerate(random.Random(6).choices(PAIRS, k=500)))
    handler = Counting(str(tiny_saved_model), str(tmp_path / "loaded"), batch_size=1, options={"beam_size": 1})
    with beam.Pipeline(options=PipelineOptions(WORKERS)) as pipeline:
        (
            pipeline
            | beam.Create([(number, source) for number, (source, _) in keyed])
            | beam.Reshuffle()
            | RunInference(KeyedModelHandler(handler))
            | beam.MapTuple(lambda number, outcome: f"{number}\t{outcome.translation}")
            | beam.io.WriteToText(str(tmp_path / "out"))
        )
    written = [line for file in tmp_path.glob("out-*") for line in file.read_text().splitlines()]
    assert sorted(written) == sorted(f"{number}\t{target}" for number, (_, target) in keyed)
    processes = (tmp_path / "loaded").read_text().split()
    assert len(processes) == len(set(processes)) == 2


def test_through_a_job_server(tiny_saved_model, sources, tmp_path):
    """As a pipeline gets to Flink or Spark: by the portable protocol, to a server that is Beam's own here."""
    port, output = tmp_path / "port", tmp_path / "out" / "news"
    output.parent.mkdir()
    server = [sys.executable, "-m", "apache_beam.runners.portability.local_job_service_main", "--port_file", port]
    with started(list(map(str, server)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        eventually(lambda: port.exists() and port.read_text())
        where = ["--runner", "PortableRunner", "--job_endpoint", f"localhost:{port.read_text()}"]
        where += ["--environment_type", "LOOPBACK"]
        ended = translate(tiny_saved_model, sources[0], output, "--shard-lines", 16, *where)
        assert ended.returncode == 0, ended.stderr
    check(output, sources)


def test_a_shard_that_was_written_already_stays_where_no_file_is_replaced(tmp_path, monkeypatch):
    """As on HDFS, where a worker was lost after it had written the shard."""

    def rename(sources, targets):
        (source,), (target,) = sources, targets
        if os.path.exists(target) or "no-such" in target:
            raise BeamIOError("Rename operation failed")
        os.rename(source, target)

    monkeypatch.setattr(FileSystems, "rename", rename)
    shard = (3, [(31, Outcome("house", "Haus")), (32, Outcome("?", failure="too long"))])
    told = [list(WriteShard(str(tmp_path / "news")).process(shard)) for _ in range(2)]
    assert told[0] == told[1] and len(told[0]) == 1
    assert contents(tmp_path) == {"news-0000003.txt": b"Haus\n\n"}
    with pytest.raises(BeamIOError):
        list(WriteShard(str(tmp_path / "no-such")).process(shard))


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "news-00000.txt").write_text("mine")
    ended = translate("model", tmp_path / "file", tmp_path / "news")
    told = "such files exist and were not changed; give another OUTPUT"
    assert ended.stderr.splitlines()[-1] == f"python -m tf_transformer.apache_beam: {tmp_path / 'news'}-*: {told}"
    assert ended.returncode == 2
    assert contents(tmp_path) == {"news-00000.txt": b"mine"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing", "{file}", "{out}"], "missing: neither a run nor a SavedModel (no such folder); give the folder"),
        (["{model}", "{out}", "{out}"], "{out} does not exist: give the path of a text file, plain or gzip"),
        (["{model}", "nowhere://news.en", "nowhere://news"], "nowhere://news-*: Beam can't look for such files: "),
    ],
)
def test_what_is_missing_is_told_before_the_pipeline_starts(tmp_path, words, message):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").touch()
    (tmp_path / "file").write_text("A man\n")
    places = {name: tmp_path / name for name in ("model", "file", "out")}
    with pytest.raises(UserError) as raised:
        program.main([word.format(**places) for word in words])
    assert str(raised.value).startswith(message.format(**places))
    assert not list(tmp_path.glob("out*"))


def test_an_option_that_can_not_be_is_told_by_its_name():
    ended = translate("model", "file", "news", "--beam-size", 0)
    assert ended.stderr.splitlines()[-1] == (
        "python -m tf_transformer.apache_beam: --beam-size is 0; it must be at least 1"
    )
    assert ended.returncode == 2


class Storage(LocalFileSystem):
    """Storage that is empty; Beam finds it by its scheme."""

    @classmethod
    def scheme(cls):
        return "empty"


def test_a_file_that_storage_lacks_is_told_for_any_runner():
    """Whether its workers have the model is not known here."""
    with pytest.raises(UserError, match="^empty://news.en: no such file; give a file of sentences"):
        program.main(["/model", "empty://news.en", "empty://news", "--runner", "DataflowRunner"])
