"""A folder of shards: of one command alone, whole files, joined in order, whoever else writes there."""

import io
import itertools
import json
import shutil

import pytest

from tests.bounded import SECONDS, begun
from tests.cli.command import contents
from tests.tiny_run import write_pairs
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_once
from tf_transformer.shards.folder import ShardFolder
from tf_transformer.shards.manifest import begin, check_folder, make_manifest, model_checksum
from tf_transformer.shards.source import Source


@pytest.fixture
def source(tmp_path):
    return Source(write_pairs(tmp_path)[0], 5)


@pytest.fixture
def shards(source, tmp_path):
    """All shards of the source, as they are there: 24 lines in five."""
    (tmp_path / "shards").mkdir()
    folder = ShardFolder(tmp_path / "shards", source, line_for_line=True)
    assert folder.missing() == [0, 1, 2, 3, 4]
    for index in 3, 0, 4, 1, 2:
        folder.write(index, [line.encode() + b"\n" for _, line in source.shard(index)])
    return folder


def test_each_job_has_its_own(source, tmp_path):
    folder = ShardFolder(tmp_path, source, line_for_line=True)
    for jobs in range(1, 8):
        shares = [folder.missing(job, jobs) for job in range(jobs)]
        assert sorted(sum(shares, [])) == folder.missing()
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_joined_they_are_the_file_and_nothing_is_written_over(shards, source, tmp_path):
    (shards.path / ".partial-00001.txt-elsewhere-1").touch()  # of a job that was killed
    shards.join(tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == source.path.read_bytes()
    assert not list(shards.path.glob(".*"))
    shards.join(tmp_path / "joined")  # again, as by another job
    for other in b"a", source.path.read_bytes()[:-1], source.path.read_bytes() + b"a":
        (tmp_path / "other").write_bytes(other)
        with pytest.raises(UserError, match="other: already exists, is another file and was not changed"):
            shards.join(tmp_path / "other")
        assert (tmp_path / "other").read_bytes() == other
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda text: text + b"more\n"])
def test_a_damaged_shard_is_told(shards, damage, tmp_path):
    shards.file(2).write_bytes(damage(shards.file(2).read_bytes()))
    with pytest.raises(UserError, match=r"00002\.txt: damaged, it has \d lines, not 5; remove it"):
        shards.join(tmp_path / "joined")
    assert not (tmp_path / "joined").exists()
    shards.file(2).unlink()
    assert shards.missing() == [2]


def test_what_another_process_has_written_stays(tmp_path):
    file = tmp_path / "file"
    with written_once(file, "it") as partial:
        partial.write_text("slow")
        file.write_text("quick")
    assert contents(tmp_path) == {"file": b"quick"}
    with pytest.raises(UserError, match="it can't be written: No such file"), written_once(tmp_path / "no" / "f", "it"):
        pass


def test_of_many_that_write_at_once_one_is_whole(tmp_path, monkeypatch):
    """Each as a process of its own would, whose number is in its file's name."""
    texts = [str(number) * 100_000 for number in range(8)]
    for attempt in range(20):
        file = tmp_path / f"{attempt}"

        def write(number, file=file):
            with written_once(file.with_name(file.name), "it") as partial:
                partial.write_text(texts[number])

        pids = itertools.count(1)
        monkeypatch.setattr("tf_transformer.files.whole.os.getpid", lambda pids=pids: next(pids))
        for writing in [begun(lambda number=number: write(number)) for number in range(8)]:
            writing.result(SECONDS)
        assert file.read_text() in texts
    assert len(contents(tmp_path)) == 20


# The manifest


@pytest.fixture
def command(source, tiny_saved_model):
    """What tells one command from another."""
    return {"source": source, "models": [tiny_saved_model], "engine": "tensorflow", "options": {"beam_size": 2}}


def test_the_same_command_goes_on(command, tiny_saved_model, tmp_path):
    check_folder(tmp_path / "shards", make_manifest(**command))
    assert not (tmp_path / "shards").exists()
    begin(tmp_path / "shards", make_manifest(**command))
    before = contents(tmp_path / "shards")
    shutil.copy(command["source"].path, tmp_path / "copy.en")
    shutil.copytree(tiny_saved_model, tmp_path / "model")
    (tmp_path / "model" / "model_card.md").write_text("with a note")
    moved = {**command, "source": Source(tmp_path / "copy.en", 5), "models": [tmp_path / "model"]}
    for same in command, moved:
        begin(tmp_path / "shards", make_manifest(**same))
    assert contents(tmp_path / "shards") == before


@pytest.mark.parametrize("change", ["text", "lines", "model", "engine", "option", "another option"])
def test_another_command_is_refused(command, tiny_saved_model, tmp_path, change):
    begin(tmp_path / "shards", make_manifest(**command))
    before = contents(tmp_path / "shards")
    text = command["source"].path.read_text()
    if change == "text":
        (tmp_path / "other.en").write_text(text.replace("man", "mam", 1))
        command["source"], told = Source(tmp_path / "other.en", 5), r"source\.sha256 \(.* there, .* here\)"
    elif change == "lines":
        command["source"], told = Source(command["source"].path, 4), r"shard_lines \(5 there, 4 here\)"
    elif change == "model":
        shutil.copytree(tiny_saved_model, tmp_path / "model")
        sums = tmp_path / "model" / "SHA256SUMS"
        sums.write_text(sums.read_text().replace("a", "b", 1))
        command["models"], told = [tmp_path / "model"], r"model\.sha256"
    elif change == "engine":
        command["engine"], told = "ctranslate2", r"engine \(tensorflow there, ctranslate2 here\)"
    elif change == "option":
        command["options"], told = {"beam_size": 1}, r"options\.beam_size \(2 there, 1 here\)"
    else:
        command["options"], told = {"beam_size": 2, "json": True}, r"options\.json \(None there, True here\)"
    for refuse in check_folder, begin:
        with pytest.raises(UserError, match=f"differs in .*{told}"):
            refuse(tmp_path / "shards", make_manifest(**command))
    assert contents(tmp_path / "shards") == before


def test_a_folder_of_other_things_is_left_alone(command, tmp_path):
    manifest = make_manifest(**command)
    (tmp_path / "thesis.txt").write_text("all of it")
    before = contents(tmp_path)
    with pytest.raises(UserError, match="holds other files and no manifest"):
        check_folder(tmp_path, manifest)
    for damaged in b"", b"[]", b'{"source": ':
        folder = tmp_path / f"damaged {len(damaged)}"
        folder.mkdir()
        (folder / "manifest.json").write_bytes(damaged)
        with pytest.raises(UserError, match="manifest.json: .*give another folder"):
            check_folder(folder, manifest)
        shutil.rmtree(folder)
    with pytest.raises(UserError, match="can't be the folder of the shards: Not a directory"):
        check_folder(tmp_path / "thesis.txt", manifest)
    with pytest.raises(UserError, match="shards: can't be created: Not a directory"):
        begin(tmp_path / "thesis.txt" / "shards", manifest)
    assert contents(tmp_path) == before


def test_a_half_written_manifest_is_in_nobodys_way(command, tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / ".partial-manifest.json-elsewhere-1").write_text('{"source')
    for _ in range(2):
        begin(tmp_path / "shards", make_manifest(**command))


def test_a_model_s_checksum_is_of_what_it_translates_with(tiny_run_directory, tiny_saved_model, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(tiny_run_directory.path, run)
    whole = model_checksum(run)
    assert whole == model_checksum(run / "checkpoints" / "best.keras") == model_checksum(tiny_run_directory.path)
    assert whole != model_checksum(run / "checkpoints" / "step-00000050.keras")
    for name in "recipe.yaml", "checkpoints/best.keras", "tokenizer/tokenizer.json":
        before = (run / name).read_bytes()
        (run / name).write_bytes(before + b"\n")
        assert model_checksum(run) != whole
        (run / name).write_bytes(before)
    assert model_checksum(run) == whole
    old = tmp_path / "old"  # an export of a version that wrote no checksums
    shutil.copytree(tiny_saved_model, old)
    (old / "SHA256SUMS").unlink()
    first = model_checksum(old)
    (old / "assets.extra" / "decoding.json").write_text("{}")
    assert model_checksum(old) != first
    with pytest.raises(UserError, match="none: no such model"):
        model_checksum(tmp_path / "none")


def test_of_names_that_are_not_utf_8_shards_are_made_too(source, tmp_path):
    model = tmp_path / "m\udcf6del"
    model.mkdir()
    (model / "w\udcf6rter.txt").write_text("a")
    described = make_manifest(source, models=[model], engine="tensorflow", options={"glossary": "w\udcf6rter.tsv"})
    for _ in range(2):  # the second time they are found to be those of the same command
        begin(tmp_path / "shards", described)
    assert json.loads((tmp_path / "shards" / "manifest.json").read_text(encoding="utf-8")) == described


def test_copied_to_standard_output_they_are_the_file(shards, source):
    copied = io.BytesIO()
    shards.copy(copied)
    assert copied.getvalue() == source.path.read_bytes()
