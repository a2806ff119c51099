"""A flipped bit or a cut, anywhere in any file that is loaded: told by the file's name, and never another answer."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.eager import eagerly
from tests.tiny_run import PAIRS, tiny_export, tiny_run
from tf_transformer.errors import UserError
from tf_transformer.export.ctranslate2 import export_ctranslate2
from tf_transformer.files.checksums import CHECKSUMS
from tf_transformer.inspection.sentence import load_attend
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model
from tf_transformer.session.signature import load_in_session
from tf_transformer.tokenizers import TokenizerPair, train_tokenizers
from tf_transformer.translation.loading import load_translate

# What its user may write again, or add to.
SAVED_MODEL_S_USER = [
    f"assets.extra/{name}" for name in ("tf_serving_warmup_requests", "model_card.md", "model_card.json")
]
CTRANSLATE2_S_USER = ["model_card.md", "model_card.json"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunDirectory:
    return tiny_run(tmp_path_factory.getbasetemp())


def damages(whole: bytes, number: int, seed: int) -> Iterator[bytes]:
    """So many flips of one bit, spread over the content and dense at both its ends; and as many cuts."""
    rng = random.Random(seed)
    for _ in range(number):
        near = rng.choice([len(whole), min(len(whole), 400)])
        place = rng.choice([rng.randrange(near), len(whole) - 1 - rng.randrange(near)])
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.randrange(8)
        yield bytes(flipped)
        yield whole[:place]


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def taken_away(folder: Path, names: list[str]) -> dict[str, bytes]:
    """Removes files, and gives what they held."""
    contents = {name: (folder / name).read_bytes() for name in names}
    for name in names:
        (folder / name).unlink()
    return contents


def assert_damage_is_told(folder: Path, load, number: int) -> None:
    """Damages each file of a folder in turn. Of a damaged list of checksums, a file in it may be what is told."""
    for name in files_of(folder):
        whole = (folder / name).read_bytes()
        for seed, content in enumerate(damages(whole, number, seed=len(name))):
            (folder / name).write_bytes(content)
            if name == CHECKSUMS and content and whole.startswith(content) and content.endswith(b"\n"):
                continue  # cut between its lines, which hides no damage of the files themselves
            with pytest.raises(UserError) as caught:
                load(folder)
            message = str(caught.value)
            assert "\n" not in message
            assert message.startswith(f"{folder}/"), (name, seed)
            assert name == CHECKSUMS or message.startswith(f"{folder / name}: damaged"), (name, seed)
        (folder / name).write_bytes(whole)
    load(folder)


@pytest.mark.parametrize("kind, size", [("bpe", 340), ("wordpiece", 60)])
def test_a_tokenizer(kind, size, tmp_path):
    train_tokenizers(PAIRS, kind, size, joint=False).save(tmp_path)
    assert len(files_of(tmp_path)) == 4
    assert_damage_is_told(tmp_path, TokenizerPair.load, number=50)


def test_a_tokenizer_of_an_earlier_version_loads(run, tmp_path):
    shutil.copytree(run.tokenizer, tmp_path / "old")
    (tmp_path / "old" / CHECKSUMS).unlink()
    assert TokenizerPair.load(tmp_path / "old").source.to_bytes() == run.load_tokenizers().source.to_bytes()


def translations(translate) -> list[bytes]:
    return translate(tf.constant([source for source, _ in PAIRS]))["translation"].numpy().tolist()


def test_a_saved_model(run, tmp_path_factory, tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(tiny_export(tmp_path_factory.getbasetemp()), folder)
    of_its_user = taken_away(folder, SAVED_MODEL_S_USER)
    assert len(files_of(folder)) == 7

    def load(path):
        for function in (load_translate, load_attend):
            try:
                loaded = function(path, load=load_in_session)  # as the commands do
            except UserError as error:
                told = str(error)
            else:
                return loaded
        raise UserError(told)

    assert_damage_is_told(folder, load, number=5)
    # Neither these nor a folder of an earlier version are in its way.
    for name, content in of_its_user.items():
        (folder / name).write_bytes(content[:-1])
    (folder / CHECKSUMS).unlink()
    assert translations(load_translate(folder)) == [target.encode() for _, target in PAIRS]


def test_a_model_of_ctranslate2(run, tmp_path):
    pytest.importorskip("ctranslate2")
    folder = export_ctranslate2(load_model(run.path), run.load_tokenizers(), tmp_path / "model")
    of_its_user = taken_away(folder, CTRANSLATE2_S_USER)
    assert len(files_of(folder)) == 7

    def load(path):
        return load_translate(path, engine="ctranslate2")

    assert_damage_is_told(folder, load, number=5)
    for name, content in of_its_user.items():
        (folder / name).write_bytes(content[:-1])
    load(folder)


def same_model(path: Path, expected: list[np.ndarray]) -> bool:
    """Whether it holds these weights; the process's own translation would tell the same, and take longer."""
    return all(np.array_equal(*weights) for weights in zip(load_model(path).get_weights(), expected, strict=True))


@pytest.mark.parametrize("memory", ["enough", "short"])
def test_a_checkpoint(run, tmp_path, monkeypatch, memory):
    """Keras reads a model's weights in place, past the archive's own check, where they fill much of the memory."""
    if memory == "short":
        monkeypatch.setattr("keras.src.saving.saving_lib.is_memory_sufficient", lambda model: False)
        monkeypatch.setattr("tempfile.TemporaryDirectory", no_room)
    path = tmp_path / "damaged.keras"
    whole = run.best_checkpoint().read_bytes()
    path.write_bytes(whole)
    expected = load_model(path).get_weights()
    harmless = 0
    for number, content in enumerate(damages(whole, 60, seed=1)):
        path.write_bytes(content)
        try:
            same = same_model(path, expected)
        except UserError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
        else:  # a date, for example
            assert same, number
            harmless += 1
    assert harmless < 20
    weights = bytearray(whole)
    weights[len(whole) // 2] ^= 1
    path.write_bytes(weights)
    with pytest.raises(UserError, match="model.weights.h5 does not match its checksum"):
        load_model(path)


def no_room(*arguments, **options):
    raise OSError("no room")


def test_of_a_runs_damaged_checkpoint_it_is_told_which_one_to_take(run, tmp_path):
    copy = RunDirectory(shutil.copytree(run.path, tmp_path / "copy"))
    best = copy.best_checkpoint()
    newest, older = reversed(copy.step_checkpoints())

    def told() -> str:
        with pytest.raises(UserError) as caught:
            load_translate(copy.path)
        return str(caught.value)

    def damage(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    damage(best)
    assert told().startswith(f"{best}: ") and told().endswith(f"; move it away, {newest.name} is intact")
    damage(newest)
    assert told().endswith(f"; move it away, {older.name} is intact")
    older.write_bytes(b"")
    assert told().endswith("; no other checkpoint of the run is intact, so train it again")
    # What it says is what helps.
    shutil.copy(run.step_checkpoints()[-1], newest)
    best.rename(tmp_path / "best.keras")
    with eagerly():
        said = translations(load_translate(copy.path, {"beam_size": 1}))
    assert said == [target.encode() for _, target in PAIRS]
