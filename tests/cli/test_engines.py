"""CTranslate2 by the command: exporting for it, translating and scoring with it."""

import json
import shutil
import threading

import pytest

from tests.bounded import SECONDS
from tests.cli.command import assert_mistake, contents
from tests.tiny_run import MAX_LENGTH, PAIRS, write_pairs
from tf_transformer.experiment import export_run_ctranslate2
from tf_transformer.translation import ctranslate2_engine
from tf_transformer.translation.ctranslate2_format import SETTINGS

pytest.importorskip("ctranslate2", reason="needs CTranslate2: pip install -e '.[ctranslate2]'")
pytestmark = pytest.mark.usefixtures("loaded_once")


@pytest.fixture(scope="module")
def ctranslate2_model(tiny_run_directory, tmp_path_factory):
    return export_run_ctranslate2(tiny_run_directory, tmp_path_factory.mktemp("ctranslate2") / "tiny")


def test_export_for_ctranslate2(command, tiny_run_directory, ctranslate2_model, tmp_path):
    words = ["export", tiny_run_directory.path, tmp_path / "int8", "--format", "ctranslate2", "--quantization", "int8"]
    outcome = command(*words)
    assert (outcome.status, outcome.lines) == (0, [str(tmp_path / "int8")])
    assert sorted(contents(tmp_path / "int8")) == sorted(contents(ctranslate2_model))
    sizes = [(folder / "model.bin").stat().st_size for folder in (tmp_path / "int8", ctranslate2_model)]
    assert sizes[0] < sizes[1] / 2
    assert_mistake(command(*words), f"{tmp_path / 'int8'}: the folder is not empty")


def test_an_unknown_quantization_writes_nothing(command, tiny_run_directory, tmp_path):
    words = ["export", tiny_run_directory.path, tmp_path / "out", "--format", "ctranslate2", "--quantization", "int7"]
    assert_mistake(command(*words), "int7", "int8, ")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("words", [[], ["--alpha", 0], ["--beam-size", 1, "--max-length", 4]])
def test_both_engines_translate_alike(command, ctranslate2_model, tiny_saved_model, words):
    sources = [source for source, _ in PAIRS[::4]] + ["", PAIRS[1][0], "house " * 2 * MAX_LENGTH]
    stdin = "".join(source + "\n" for source in sources).encode()
    words = [*words, "--cut", "--json"]
    outcome = command("translate", ctranslate2_model, "--engine", "ctranslate2", *words, stdin=stdin)
    assert (outcome.status, outcome.err) == (0, "")
    rows, expected = (
        [json.loads(line) for line in lines]
        for lines in (outcome.lines, command("translate", tiny_saved_model, *words, stdin=stdin).lines)
    )
    # The last is not to be relied on: the model has never seen the like, and says nothing with certainty.
    known = slice(0, -1)
    assert [row["translation"] for row in rows[known]] == [row["translation"] for row in expected[known]]
    assert [row["score"] for row in rows[known]] == pytest.approx([row["score"] for row in expected[known]], abs=0.01)
    assert [row["truncated"] for row in rows] == [row["truncated"] for row in expected] == [False] * 8 + [True]


def test_evaluate_with_ctranslate2(command, ctranslate2_model, tmp_path):
    source, reference = write_pairs(tmp_path)
    words = ["evaluate", ctranslate2_model, "--source", source, "--reference", reference, "--engine", "ctranslate2"]
    outcome = command(*words, "--alpha", 0.5, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    scores = json.loads(outcome.out)
    assert scores["bleu"] == pytest.approx(100)
    assert (scores["alpha"], scores["sentences"]) == (0.5, len(PAIRS))


def test_alpha_for_an_export_of_greedy_search(command, ctranslate2_model, tmp_path):
    """Its own beam size says so, as that of a run does."""
    source, reference = write_pairs(tmp_path)
    greedy = shutil.copytree(ctranslate2_model, tmp_path / "greedy")
    config = json.loads((greedy / "config.json").read_text(encoding="utf-8"))
    config[SETTINGS]["decoding"]["beam_size"] = 1
    (greedy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    words = [greedy, "--engine", "ctranslate2", "--alpha", 2]
    for outcome in (
        command("translate", *words, stdin=b"A man.\n"),
        command("evaluate", *words, "--source", source, "--reference", reference),
    ):
        assert_mistake(outcome, "--alpha has no effect", "beam size of 1")


def test_ctranslate2_searches_a_batch_on_each_core(command, ctranslate2_model, tmp_path, monkeypatch):
    """Each of two waits here until the other has begun."""
    both, engine = threading.Barrier(2), ctranslate2_engine.CTranslate2Engine
    search = engine.__call__

    def together(self, texts):
        both.wait(SECONDS)
        return search(self, texts)

    monkeypatch.setattr(ctranslate2_engine, "cores", lambda: 2)
    monkeypatch.setattr(engine, "__call__", together)
    source, reference = write_pairs(tmp_path)
    words = ["--engine", "ctranslate2", "--batch-size", (len(PAIRS) + 1) // 2]
    translated = command("translate", ctranslate2_model, source, *words)
    assert translated.lines == [target for _, target in PAIRS]
    words += ["--source", source, "--reference", reference, "--json"]
    assert json.loads(command("evaluate", ctranslate2_model, *words).out)["bleu"] == pytest.approx(100)


def test_what_ctranslate2_can_not_do(command, ctranslate2_model, tiny_run_directory, tiny_saved_model):
    for folder in (tiny_run_directory.path, tiny_saved_model):
        outcome = command("translate", folder, "--engine", "ctranslate2", stdin=b"A man.\n")
        assert_mistake(outcome, f"{folder / 'model.bin'}: no such file", "`export --format ctranslate2`")
    words = ["translate", ctranslate2_model, "--engine", "ctranslate2"]
    assert_mistake(command(*words, "--nbest", 2, stdin=b"A man.\n"), "--nbest is 2", "SavedModel")
    assert_mistake(command(*words, "--replace-unknown", stdin=b"A man.\n"), "--replace-unknown", "SavedModel")
