"""`translate --shards`: whoever does which of the shards, joined they are what one command writes, to the byte."""

import gzip
import io
import json
import random
import re

import pytest
from rich.console import Console

from tests.cli.command import assert_mistake, contents
from tests.tiny_run import MAX_LENGTH, PAIRS
from tf_transformer.experiment import export_run_ctranslate2

pytestmark = pytest.mark.usefixtures("loaded_once")

# What ends a line and what does not, empty lines, blanks at the ends; more than a window of the smallest batches.
LINES = [source.encode() for source, _ in PAIRS] + [
    b"",
    b" \t",
    b"  Our dog loves a house. ",
    "The child finds\u2028the green apple.".encode(),
    b"A man\rsees a house.",
    "\ufeffA man sees a house.".encode(),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    lines = random.Random(3).choices(LINES, k=100)
    file = tmp_path_factory.mktemp("sources") / "sources.txt"
    file.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(lines))  # a mark at the beginning, no end of the last line
    return file


@pytest.mark.parametrize(
    ("words", "shard_lines"),
    [
        ([], 7),
        pytest.param(["--nbest", 2], 7, marks=pytest.mark.thorough),
        # With scores to the last digit, which are the same where the batches are: shards are multiples of windows.
        (["--json", "--nbest", 3, "--batch-size", 2], 32),
        pytest.param(["--json", "--batch-size", 1], 48, marks=pytest.mark.thorough),
        (["--paragraphs"], 7),
        pytest.param(["--temperature", 1, "--seed", 3], 7, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_it_is_what_one_command_writes(command, tiny_saved_model, sources, tmp_path, words, shard_lines):
    whole = command("translate", tiny_saved_model, sources, *words)
    assert (whole.status, whole.err) == (0, "")
    in_shards = ["translate", tiny_saved_model, sources, *words, "--shards", tmp_path / "shards"]
    in_shards += ["--shard-lines", shard_lines]
    outcome = command(*in_shards)
    assert (outcome.status, outcome.out) == (0, whole.out)
    told = re.findall(r"shard (\d+) of (\d+): ([\d,]+) lines in [\d.]+ s, [\d,]+ a second", outcome.err)
    assert [int(index) for index, *_ in told] == list(range(int(told[0][1])))
    sizes = [int(lines) for *_, lines in told]
    assert sum(sizes) == 100 and set(sizes[:-1]) == {shard_lines}
    again = command(*in_shards, "--output", tmp_path / "joined")
    assert (again.status, again.out, again.err) == (0, b"", f"translation: {tmp_path / 'joined'}\n")
    assert (tmp_path / "joined").read_bytes() == whole.out


@pytest.mark.thorough
def test_a_packed_file_is_the_same_text(command, tiny_saved_model, sources, tmp_path):
    packed = tmp_path / "sources.gz"
    packed.write_bytes(gzip.compress(sources.read_bytes()))
    words = ["--shards", tmp_path / "shards", "--shard-lines", 30, "--job"]
    assert command("translate", tiny_saved_model, packed, *words, "1/2").status == 0
    assert command("translate", tiny_saved_model, sources, *words, "0/2").status == 0
    assert (
        command("translate", tiny_saved_model, packed, *words[:-1]).out
        == command("translate", tiny_saved_model, sources).out
    )


def test_many_jobs_have_each_line_translated_once_and_the_last_joins(command, tiny_saved_model, sources, tmp_path):
    words = ["translate", tiny_saved_model, sources, "--shards", tmp_path / "shards", "--shard-lines", 10]
    words += ["--output", tmp_path / "joined"]
    left = {2: 7, 0: 3, 1: 0}
    for number in left:
        outcome = command(*words, "--job", f"{number}/3")
        assert (outcome.status, outcome.out) == (0, b"")
        own = [f"shard {index} of 10" for index in range(number, 10, 3)]
        *shards, last = outcome.err.splitlines()
        assert [line.partition(":")[0] for line in shards] == own
        if left[number]:
            assert last == f"{left[number]} of 10 shards are left to other jobs"
            assert not (tmp_path / "joined").exists()
    assert last == f"translation: {tmp_path / 'joined'}"
    assert (tmp_path / "joined").read_bytes() == command("translate", tiny_saved_model, sources).out
    idle = command(*words[:-2], "--job", "11/12")  # no shard is its own; it leaves joining to a call without
    assert idle == (0, b"", "")


def test_the_folder_tells_what_it_is(command, tiny_saved_model, sources, tmp_path):
    words = ["--shards", tmp_path / "shards", "--shard-lines", 40, "--beam-size", 2]
    assert command("translate", tiny_saved_model, sources, *words).status == 0
    names = ["00000.txt", "00001.txt", "00002.txt", "manifest.json"]
    assert sorted(contents(tmp_path / "shards")) == names
    manifest = json.loads((tmp_path / "shards" / "manifest.json").read_text())
    assert manifest["source"]["lines"] == 100
    assert (manifest["shards"], manifest["shard_lines"], manifest["engine"]) == (3, 40, "tensorflow")
    assert manifest["options"] == {"beam_size": 2}


def test_an_empty_file(command, tiny_saved_model, tmp_path):
    (tmp_path / "empty.txt").touch()
    words = ["translate", tiny_saved_model, tmp_path / "empty.txt", "--shards", tmp_path / "shards"]
    assert command(*words) == (0, b"", "")
    assert command(*words, "--output", tmp_path / "joined").status == 0
    assert (tmp_path / "joined").read_bytes() == b""


def test_a_bar_in_a_terminal(command, tiny_saved_model, sources, tmp_path, monkeypatch):
    screen = io.StringIO()
    for module in "tf_transformer.terminal.lines", "tf_transformer.shards.job":
        monkeypatch.setattr(f"{module}.notes", Console(file=screen, force_terminal=True, width=100))
    words = ["translate", tiny_saved_model, sources, "--shards", tmp_path / "shards", "--shard-lines", 9]
    assert command(*words).status == 0
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())
    assert "100/100" in shown and "a second" not in shown


def test_a_sentence_too_long_stops_it_and_with_cut_it_goes_on(command, tiny_saved_model, tmp_path):
    file = tmp_path / "long.txt"
    file.write_text("A man.\n" * 3 + "house " * 2 * MAX_LENGTH + "\nA man.\n")
    words = ["translate", tiny_saved_model, file, "--shards", tmp_path / "shards", "--shard-lines", 2]
    assert command(*words).err.splitlines()[-1].startswith(f"tf-transformer: {file}, line 4: longer than the model's")
    assert sorted(contents(tmp_path / "shards")) == ["00000.txt", "manifest.json"]
    outcome = command(*words, "--cut")
    assert outcome.status == 0 and "shard 0" not in outcome.err
    assert outcome.out == command("translate", tiny_saved_model, file, "--cut").out


def test_with_ctranslate2(command, tiny_run_directory, sources, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")
    words = ["translate", export_run_ctranslate2(tiny_run_directory, tmp_path / "model"), sources]
    words += ["--engine", "ctranslate2"]
    outcome = command(*words, "--shards", tmp_path / "shards", "--shard-lines", 30)
    assert outcome.status == 0
    assert outcome.out == command(*words).out


# What a person can do wrong


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--shards", "{}/s"], ["--shards needs FILE"]),
        (["-", "--shards", "{}/s"], ["--shards needs FILE"]),
        (["{}/pairs.en", "--shard-lines", "5"], ["--shard-lines only applies", "--shards DIR"]),
        (["{}/pairs.en", "--job", "0/5"], ["--job only applies", "--shards DIR"]),
        (["{}/pairs.en", "--output", "{}/o"], ["--output only applies", "--shards DIR"]),
        (["{}/pairs.en", "--shards", "{}/s", "--job", "5/5"], ["--job is 5/5", "0/8 to 7/8 for 8 jobs"]),
        (["{}/pairs.en", "--shards", "{}/s", "--job", "1"], ["--job is 1", "I/N"]),
        (["{}/none.en", "--shards", "{}/s"], ["{}/none.en does not exist"]),
        (["{}/latin.de", "--shards", "{}/s"], ["{}/latin.de, line 3: not valid UTF-8"]),
        (["{}/pairs.en", "--shards", "{}/s", "--output", "{}/none/o"], ["{}/none: no such folder"]),
        (["{}/pairs.en", "--shards", "{}/s", "--output", "{}/long.en"], ["{}/long.en: already exists"]),
        (
            ["{}/pairs.en", "--shards", "{}/s", "--output", "{}/s/o"],
            ["s/o: in the folder of the shards"],
        ),
        (["{}/pairs.en", "--shards", "{}/run"], ["{}/run: holds other files and no manifest.json"]),
        (["--interactive", "--shards", "{}/s"], ["--interactive translates what you type", "--shards"]),
        (["--interactive", "--output", "{}/o"], ["--output only applies", "--shards DIR"]),
    ],
    ids=str,
)
def test_a_mistake_is_told_before_the_model_is_loaded(command, mistakes, words, told, monkeypatch, tmp_path):
    before = contents(mistakes)
    words = [word.replace("{}/s", str(tmp_path / "s")).replace("{}", str(mistakes)) for word in words]
    monkeypatch.setattr("tf_transformer.translation.loading.load_translate", lambda *arguments: 1 / 0)
    outcome = command("translate", mistakes / "versions" / "3", *words)
    assert_mistake(outcome, *(text.replace("{}", str(mistakes)) for text in told))
    assert contents(mistakes) == before


@pytest.mark.thorough
def test_another_option_is_refused(command, tiny_saved_model, sources, tmp_path):
    words = ["translate", tiny_saved_model, sources, "--shards", tmp_path / "shards"]
    assert command(*words, "--beam-size", 1).status == 0
    before = contents(tmp_path)
    assert_mistake(
        command(*words), "manifest.json: these shards are from another command", "options.beam_size (1 there"
    )
    assert contents(tmp_path) == before


@pytest.mark.parametrize("words", [["--top-p", 2], ["--nbest", 5, "--beam-size", 2]], ids=str)
def test_a_mistake_in_an_option_is_not_written_down(command, tiny_saved_model, sources, tmp_path, words):
    """What is corrected then is not refused."""
    outcome = command("translate", tiny_saved_model, sources, "--shards", tmp_path / "shards", *words)
    assert_mistake(outcome, f"{words[0]} is {words[1]}")
    assert contents(tmp_path) == {}
