"""A run's folder, and its models in other processes."""

import json
import math
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

from tests.bounded import SECONDS, begun
from tests.eager import eagerly
from tests.mistakes import refused
from tests.tiny_run import PAIRS, tiny_run
from tf_transformer import Ensemble, load_translator
from tf_transformer.errors import OutOfMemory, UserError, WorkerLost
from tf_transformer.experiment import evaluate
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model

IDS = np.array([[5, 6, 3], [300, 3, 0]], "int32"), np.array([[2, 7], [2, 0]], "int32")

LOADER = """
import json, sys
import numpy as np
import tf_transformer
assert "keras" not in sys.modules, "the package is no longer lazy: this test has lost its point"
source_ids, target_ids, *paths = json.load(sys.stdin)
ids = np.array(source_ids, "int32"), np.array(target_ids, "int32")
models = [tf_transformer.load_model(path) for path in paths]
assert {type(model).__name__ for model in models} == {"Transformer"}
print(json.dumps([model(ids).numpy().tolist() for model in models]))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.getbasetemp())


@pytest.fixture
def empty_run(tmp_path):
    """A run without checkpoints."""
    run = RunDirectory.create(tmp_path / "run")
    run.recipe.write_text("name: empty\n")
    run.end_training()
    return run


def test_what_a_training_leaves(run):
    assert load_recipe(run.recipe).name == "tiny"
    assert {path.name for path in run.checkpoints.iterdir()} == {
        "best.keras",
        "step-00000050.keras",
        "step-00000100.keras",
    }
    assert run.load_tokenizers().source.vocab_size == 440
    assert list(run.logs.rglob("events.*"))
    scores = json.loads(run.scores.read_text())
    assert scores["set"] == "test"
    assert {"bleu", "chrf", "perplexity", "signature"} <= set(scores)


def test_another_process_loads_a_run_and_a_checkpoint(run):
    process = subprocess.run(
        [sys.executable, "-c", LOADER],
        input=json.dumps([*(ids.tolist() for ids in IDS), str(run.path), str(run.checkpoints / "step-00000050.keras")]),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    best, first = json.loads(process.stdout)
    np.testing.assert_allclose(best, load_model(run.path)(IDS), atol=1e-5)
    first_here = keras.saving.load_model(run.checkpoints / "step-00000050.keras", compile=False)
    np.testing.assert_allclose(first, first_here(IDS), atol=1e-5)
    assert np.abs(np.subtract(best, first)).max() > 0.01


def test_create_takes_a_new_folder_or_an_empty_one(tmp_path):
    assert RunDirectory.create(tmp_path / "a" / "b").checkpoints.is_dir()
    (tmp_path / "empty").mkdir()
    assert RunDirectory.create(tmp_path / "empty").checkpoints.is_dir()


def test_create_leaves_alone_what_is_there(tmp_path, empty_run):
    assert "run: contains a finished training run; to train longer" in refused(RunDirectory.create, empty_run.path)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "letter").write_text("dear")
    assert "files: is not empty" in refused(RunDirectory.create, tmp_path / "files")
    assert "letter: is not empty" in refused(RunDirectory.create, tmp_path / "files" / "letter")
    assert "letter is not a folder you can write to" in refused(
        RunDirectory.create, tmp_path / "files" / "letter" / "run"
    )
    assert "File name too long" in refused(RunDirectory.create, tmp_path / ("x" * 300))
    assert r"r\udcfcn: not UTF-8" in refused(RunDirectory.create, tmp_path / "r\udcfcn")
    assert (tmp_path / "files" / "letter").read_text() == "dear"
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["letter"]


def test_only_a_mistake_takes_what_was_prepared_away(tmp_path):
    """After a lost worker or too little memory the same command goes on with it."""
    failures = UserError("a mistake"), WorkerLost("worker 1 is gone"), OutOfMemory("out of memory"), MemoryError()
    for number, failure in enumerate(failures):
        run = RunDirectory.create(tmp_path / str(number))
        (run.prepared / "tokenizer").mkdir(parents=True)
        with pytest.raises(type(failure)), run.removed_on_failure():
            raise failure
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


def test_open_wants_a_run(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        assert refused(RunDirectory.open, path).startswith(f"{path}: not a run")


def test_best_checkpoint_is_the_best_or_else_the_newest(empty_run):
    assert "no checkpoint yet" in refused(empty_run.best_checkpoint)
    for name in ("step-00000900.keras", "step-00001000.keras", ".partial-step-00002000.keras"):
        (empty_run.checkpoints / name).touch()
    assert empty_run.best_checkpoint().name == "step-00001000.keras"
    (empty_run.checkpoints / "best.keras").touch()
    assert empty_run.best_checkpoint().name == "best.keras"


def test_a_checkpoint_is_a_model_of_its_run(empty_run, monkeypatch):
    for name in ("best.keras", "step-00000900.keras"):
        (empty_run.checkpoints / name).touch()
    assert RunDirectory.of_model(empty_run.path).best_checkpoint().name == "best.keras"
    chosen = RunDirectory.of_model(empty_run.checkpoints / "step-00000900.keras")
    assert chosen.path == empty_run.path
    assert chosen.best_checkpoint() == empty_run.checkpoints / "step-00000900.keras"
    monkeypatch.chdir(empty_run.checkpoints)
    here = RunDirectory.of_model("best.keras")
    assert (here.path, here.best_checkpoint().name) == (empty_run.path, "best.keras")


def test_a_checkpoint_without_its_run_is_told(empty_run, tmp_path):
    (tmp_path / "alone.keras").touch()
    assert "a checkpoint outside its run" in refused(RunDirectory.of_model, tmp_path / "alone.keras")
    assert "no such checkpoint" in refused(RunDirectory.of_model, empty_run.checkpoints / "step-00000007.keras")
    assert "not a run" in refused(RunDirectory.of_model, tmp_path)


def test_a_checkpoint_in_the_root_folder_is_told(monkeypatch):
    monkeypatch.setattr("pathlib.Path.is_file", lambda path: path == Path("/alone.keras"))
    assert "/alone.keras: a checkpoint outside its run" in refused(RunDirectory.of_model, "/alone.keras")


def test_scores_keep_the_earlier_ones(empty_run):
    for bleu in (1.5, 20.25, 30.0):
        empty_run.write_scores({"bleu": bleu, "source": "Prüfung.en"})
    assert json.loads(empty_run.scores.read_text(encoding="utf-8")) == {
        "bleu": 30.0,
        "source": "Prüfung.en",
        "earlier": [{"bleu": 1.5, "source": "Prüfung.en"}, {"bleu": 20.25, "source": "Prüfung.en"}],
    }
    assert {path.name for path in empty_run.path.iterdir()} == {"recipe.yaml", "checkpoints", "scores.json"}


def test_a_figure_that_is_not_finite_is_null(empty_run):
    """Also one that an earlier version wrote, in a way that Python alone reads."""
    empty_run.scores.write_text('{"bleu": 1.5, "perplexity": Infinity}')
    empty_run.write_scores({"bleu": 2.5, "perplexity": math.inf, "also": {"old": {"loss": math.nan}}})
    empty_run.write_training({"fine_tuned_from": {"scores": {"test": {"perplexity": math.inf}}}})
    constants = []
    written = json.loads(empty_run.scores.read_bytes(), parse_constant=constants.append)
    began = json.loads(empty_run.training.read_bytes(), parse_constant=constants.append)
    assert not constants
    earlier = [{"bleu": 1.5, "perplexity": None}]
    assert written == {"bleu": 2.5, "perplexity": None, "also": {"old": {"loss": None}}, "earlier": earlier}
    assert began == {"fine_tuned_from": {"scores": {"test": {"perplexity": None}}}}


def test_a_path_that_is_not_utf_8_is_kept(empty_run):
    empty_run.write_training({"root": "/T\udcfcr"})
    assert empty_run.read_training() == {"root": "/T\udcfcr"}
    for bleu in 1.5, 20.25:
        empty_run.write_scores({"bleu": bleu, "source": "Pr\udcfcfung.en"})
    assert [scores["source"] for scores in empty_run.read_scores()] == ["Pr\udcfcfung.en"] * 2


def test_of_many_that_score_at_once_each_adds_its_own(empty_run):
    def score(who):
        for number in range(20):
            empty_run.write_scores({"who": who, "number": number, "more": "x" * 20_000})

    for scoring in [begun(lambda who=who: score(who)) for who in range(4)]:
        scoring.result(SECONDS)
    latest = json.loads(empty_run.scores.read_bytes())
    written = [(each["who"], each["number"]) for each in [*latest.pop("earlier"), latest]]
    assert sorted(written) == [(who, number) for who in range(4) for number in range(20)]
    assert {path.name for path in empty_run.path.iterdir()} == {"recipe.yaml", "checkpoints", "scores.json"}


@pytest.mark.parametrize("content", [b"", b'{"bleu": 1', b"\xff", b"[]", b'{"earlier": 3}', b"null"])
def test_damaged_scores_are_set_aside(empty_run, caplog, content):
    for number in (1, 2):
        empty_run.scores.write_bytes(content)
        empty_run.write_scores({"bleu": 20.25})
        assert json.loads(empty_run.scores.read_text(encoding="utf-8")) == {"bleu": 20.25, "earlier": []}
        assert (empty_run.path / f"scores-damaged-{number}.json").read_bytes() == content
        assert caplog.messages[-1] == f"{empty_run.scores}: damaged, kept as scores-damaged-{number}.json"


def damage(whole: bytes, how: str, path) -> None:
    if how == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "scrambled":
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes(byte ^ 0xFF for byte in whole[middle : middle + 5000]) + whole[middle:])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("not\na model\n")
    elif how == "another archive":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("letter.txt", "dear")
    elif how == "another model":
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(path)


HOW = ["truncated", "scrambled", "empty", "text", "another archive", "another model"]


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_model_is_told_in_a_line(run, tmp_path, how):
    path = tmp_path / "damaged.keras"
    damage(run.best_checkpoint().read_bytes(), how, path)
    assert refused(load_model, path).startswith(f"{path}: ")


def test_no_model(tmp_path, empty_run):
    assert "no such model" in refused(load_model, tmp_path / "none.keras")
    assert "not a run" in refused(load_model, tmp_path / "none")
    assert "no checkpoint yet" in refused(load_model, empty_run.path)


@pytest.fixture(scope="module")
def half_precision_run(run, tmp_path_factory):
    """The run as if it had been trained in bfloat16."""
    copy = RunDirectory(tmp_path_factory.mktemp("half") / "tiny")
    shutil.copytree(run.path, copy.path)
    load_model(run.path, "mixed_bfloat16").save(copy.best)
    return copy


def test_a_model_works_in_the_precision_asked_for(run, half_precision_run):
    logits = load_model(run.path)(IDS)
    half = load_model(half_precision_run.path)(IDS)
    assert half.dtype == "bfloat16"
    np.testing.assert_array_equal(load_model(half_precision_run.path, "float32")(IDS), logits)


def test_what_was_trained_in_half_precision_translates_in_float32(run, half_precision_run):
    """So that a training's end, `evaluate`, exports and other processors give the same translations."""
    sentences = ["A man sees a house.", "Our green woman loves the apple."]
    with eagerly():
        expected = load_translator(run.path, beam_size=1).translate(sentences)
        for key, value in load_translator(half_precision_run.path, beam_size=1).translate(sentences).items():
            np.testing.assert_array_equal(value, expected[key])
        scores, expected = (evaluate(each, PAIRS[:4], changes={"beam_size": 1}) for each in (half_precision_run, run))
    own = {key: scores[key] for key in ("translation_seconds", "weights")}  # the checksum is of another file
    assert scores == {**expected, **own}


def test_an_ensemble_is_loaded_in_any_precision(run, tmp_path):
    file = tmp_path / "ensemble.keras"
    ensemble = Ensemble([load_model(run.path), load_model(run.step_checkpoints()[0])])
    expected = ensemble(IDS)
    ensemble.save(file)
    np.testing.assert_array_equal(load_model(file)(IDS), expected)
    half = load_model(file, "mixed_bfloat16")
    assert {each.dtype_policy.name for each in half.models} == {"mixed_bfloat16"}
    np.testing.assert_allclose(half(IDS), expected, atol=0.5)
