"""`filter`: aligned files of what is kept, counts of the rest, whole files or none."""

import gzip
import json
import signal
import subprocess
import sys
from dataclasses import fields

import pytest

from tests.bounded import SECONDS
from tests.cli.command import LIMITS, assert_mistake, contents, typed
from tf_transformer.data.text_filters import PairFilter, PairLimits

# What each line of the two files is: kept, or the reason why not.
LINES = [
    (b"A dog runs.", "Ein Hund läuft.".encode(), None),
    (b"A dog runs.", b"A dog runs!", "copied"),
    (b"A dog.\r", b"Ein Hund.", None),  # a line end of Windows
    (b"", b"Ein Hund.", "empty"),
    (b"T\xfcr", b"door", "damaged"),
    (b"A cat sleeps.", b"Eine Katze schl\xc3\x83\xc2\xa4ft.", "damaged"),
    (b"A dog runs.", "Ein Hund läuft.".encode(), "duplicate"),
    (b"A cat sleeps.", "Eine Katze schläft.".encode(), None),
    (b"Yes.", b"Ja, das ist so.", "unlike_lengths"),
]
KEPT = [(source.removesuffix(b"\r"), target) for source, target, reason in LINES if reason is None]
DROPPED = {"damaged": 2, "empty": 1, "unlike_lengths": 1, "copied": 1, "duplicate": 1}


@pytest.fixture
def pairs(tmp_path):
    """The two files, in a folder of their own."""
    folder = tmp_path / "crawled"
    folder.mkdir()
    for side, name in enumerate(["pairs.en", "pairs.de"]):
        (folder / name).write_bytes(b"".join(line[side] + b"\n" for line in LINES))
    return folder / "pairs.en", folder / "pairs.de"


def lines(pairs, side):
    return b"".join(pair[side] + b"\n" for pair in pairs)


def test_kept_pairs_stay_beside_each_other_and_the_others_are_counted(command, pairs, tmp_path):
    outcome = command("filter", *pairs, "--output", tmp_path / "clean", "--dropped", tmp_path / "dropped")
    assert outcome.status == 0
    assert (tmp_path / "clean.en").read_bytes() == lines(KEPT, 0)
    assert (tmp_path / "clean.de").read_bytes() == lines(KEPT, 1)
    dropped = [(s, t, reason) for s, t, reason in LINES if reason and s != b"T\xfcr"]
    assert (tmp_path / "dropped").read_bytes() == b"".join(
        b"\t".join([reason.encode(), s, t]) + b"\n" for s, t, reason in dropped
    )
    rows = [line.split()[:2] for line in outcome.lines]
    assert rows == [*([str(count), reason] for reason, count in DROPPED.items()), ["3", "kept"]]
    assert outcome.lines[-1].endswith("3 kept of 9 (33.3%)")
    assert outcome.err == f"written: {tmp_path / 'clean.en'} and {tmp_path / 'clean.de'}\n"
    assert not list(tmp_path.glob(".*"))


def test_packed_files_give_packed_ones_and_json_the_counts(command, pairs, tmp_path):
    packed = pairs[0].with_name("pairs.en.gz")
    packed.write_bytes(gzip.compress(pairs[0].read_bytes()))
    written = []
    for name in "first", "second":
        outcome = command("filter", packed, pairs[1], "--output", tmp_path / name, "--json")
        assert (outcome.status, outcome.err) == (0, "")
        files = {"source": f"{tmp_path / name}.en.gz", "target": f"{tmp_path / name}.de"}
        assert json.loads(outcome.out) == {"pairs": 9, "kept": 3, "dropped": DROPPED, **files}
        written.append((tmp_path / f"{name}.en.gz").read_bytes())
    assert gzip.decompress(written[0]) == lines(KEPT, 0) and written[0] == written[1]
    assert (tmp_path / "first.de").read_bytes() == lines(KEPT, 1)


def test_options_reach_the_filters(command, pairs, tmp_path):
    words = ["--duplicates", "--max-overlap", 1, "--max-ratio", 4, "--min-length", 3, "--target-script", "Latin"]
    outcome = command("filter", *pairs, "--output", tmp_path / "clean", "--json", *words)
    assert json.loads(outcome.out)["dropped"] == {"damaged": 2, "empty": 1, "too_short": 2}
    outcome = command("filter", *pairs, "--output", tmp_path / "none", "--json", "--source-script", "Greek")
    assert json.loads(outcome.out)["kept"] == 0
    assert (tmp_path / "none.en").read_bytes() == b""


def test_every_limit_reaches_the_filters(command, pairs, tmp_path, monkeypatch):
    assert LIMITS.keys() == {field.name for field in fields(PairLimits)}
    made, make = [], PairFilter.__init__

    def remember(self, limits):
        made.append(limits)
        make(self, limits)

    monkeypatch.setattr(PairFilter, "__init__", remember)
    assert command("filter", *pairs, "--output", tmp_path / "clean", *typed(LIMITS)).status == 0
    assert made == [PairLimits(**LIMITS)]
    assert all(getattr(made[0], name) != value for name, value in vars(PairLimits()).items())


def test_files_without_endings_that_differ(command, pairs, tmp_path):
    for file, name in zip(pairs, ("source", "target"), strict=True):
        (tmp_path / name).mkdir()
        file.rename(tmp_path / name / "text.txt")
    files = tmp_path / "source" / "text.txt", tmp_path / "target" / "text.txt"
    assert command("filter", *files, "--output", tmp_path / "clean").status == 0
    assert (tmp_path / "clean.source").read_bytes() == lines(KEPT, 0)
    assert (tmp_path / "clean.target").read_bytes() == lines(KEPT, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{}/none", "{}/pairs.de"], ["{}/none does not exist"]),
        (["{}/pairs.en", "{}/short.de"], ["pairs.en has 9 lines but", "short.de has 1"]),
        (
            ["{}/pairs.en", "{}/cut.de.gz"],
            ["cut.de.gz: incomplete or damaged gzip file", "; training, or a source in Python,"],
        ),
        (["{}/empty.en", "{}/empty.de"], ["no sentence pairs"]),
        (["{}/pairs.en", "{}/pairs.de", "--output", "{}/there"], ["{}/there.en: already exists"]),
        (["{}/pairs.en", "{}/pairs.de", "--output", "{}/no/clean"], ["{}/no: no such folder"]),
        (["{}/pairs.en", "{}/pairs.de", "--dropped", "{}/there.en"], ["{}/there.en: already exists"]),
        (["{}/pairs.en", "{}/pairs.de", "--dropped", "{}/clean.en"], ["--dropped and --output"]),
        (["{}/pairs.en", "{}/pairs.de", "--dropped", "{}/none/../clean.en"], ["--dropped and --output"]),
        (["{}/pairs.en", "{}/pairs.de", "--unit", "tokens"], ["--unit is 'tokens'; it must be words or characters"]),
        (["{}/pairs.en", "{}/pairs.de", "--min-length", "300"], ["--max-length is 200; it must be at least 300"]),
        (["{}/pairs.en", "{}/pairs.de", "--source-script", "German"], ["Unicode has no script called German"]),
    ],
    ids=str,
)
def test_a_mistake_leaves_nothing(command, pairs, words, told):
    folder = pairs[0].parent
    (folder / "short.de").write_text("Ein Hund.\n")
    (folder / "cut.de.gz").write_bytes(gzip.compress(pairs[1].read_bytes())[:-9])
    for name in "empty.en", "empty.de", "there.en":
        (folder / name).touch()
    before = contents(folder)
    words = [word.replace("{}", str(folder)) for word in words]
    if "--output" not in words:
        words += ["--output", str(folder / "clean")]
    assert_mistake(command("filter", *words), *(text.replace("{}", str(folder)) for text in told))
    assert contents(folder) == before


@pytest.mark.parametrize("taken", ["clean.en", "clean.de", "dropped"])
def test_a_name_that_another_command_takes_meanwhile_leaves_nothing_else(command, pairs, tmp_path, monkeypatch, taken):
    reason = PairFilter.reason

    def reason_and_take(*pair):
        (tmp_path / taken).write_text("another's")
        return reason(*pair)

    monkeypatch.setattr(PairFilter, "reason", reason_and_take)
    outcome = command("filter", *pairs, "--output", tmp_path / "clean", "--dropped", tmp_path / "dropped")
    assert_mistake(outcome, f"{tmp_path / taken}: ", "another command has created this file", "give another name")
    there = {name: content for name, content in contents(tmp_path).items() if not name.startswith("crawled")}
    assert there == {taken: b"another's"}


@pytest.mark.parametrize("where", ["half", "before"])
def test_killed_while_it_writes_no_half_file_is_left(pairs, tmp_path, where):
    words = ["filter", *map(str, pairs), "--output", str(tmp_path / "clean")]
    program = [sys.executable, "-m", "tests.shards.killed", "1", where, *words]
    process = subprocess.run(program, capture_output=True, timeout=SECONDS)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert not list(tmp_path.glob("clean*"))
