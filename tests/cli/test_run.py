"""The commands about a run: train, evaluate, export."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
import yaml
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from tests.cli.command import assert_mistake
from tests.eager import eagerly
from tests.tiny_run import MAX_LENGTH, PAIRS, RECIPE, settings, write_pairs
from tests.translation.conftest import with_nothing_but
from tf_transformer import make_batches
from tf_transformer.evaluation.scores import evaluate_translations
from tf_transformer.experiment import exporting, scoring
from tf_transformer.model_card.files import FACTS
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model

pytestmark = pytest.mark.usefixtures("loaded_once")


def test_train(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path)
    short = {"training__steps": 2, "training__validate_every": 2, "evaluation__extra_length": 0}
    replaced = settings(".", name="short", evaluation__beam_size=1, **short)
    with eagerly():
        outcome = command("train", RECIPE, *(word for setting in replaced for word in ("--set", setting)), "--json")
    assert outcome.status == 0
    run = tmp_path / "runs" / "short"
    assert json.loads(outcome.out) == json.loads((run / "scores.json").read_text(encoding="utf-8"))
    assert yaml.safe_load((run / "recipe.yaml").read_text())["training"]["steps"] == 2
    assert (run / "checkpoints" / "step-00000002.keras").is_file()
    assert "24 of 24 pairs kept" in outcome.err
    assert str(Path("runs") / "short") in outcome.err


@pytest.fixture
def almost_right(tmp_path):
    """Source and reference files of which a model that knows `PAIRS` gets some words wrong."""
    other_words = [(source, target.replace("liebt", "mag").replace("Haus", "haus")) for source, target in PAIRS]
    return write_pairs(tmp_path, other_words)


def test_evaluate_scores_what_translate_says(command, tiny_saved_model, almost_right):
    source, reference = almost_right
    decoding = ("--beam-size", 2, "--alpha", 0.1)
    hypotheses = command("translate", tiny_saved_model, source, *decoding).lines
    references = reference.read_text(encoding="utf-8").splitlines()
    options = ("--source", source, "--reference", reference, "--lowercase", "--batch-size", 5)
    outcome = command("evaluate", tiny_saved_model, *options, *decoding, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    scores = json.loads(outcome.out)

    cased = sacrebleu.corpus_bleu(hypotheses, [references]).score
    lowercased = sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True).score
    assert scores["bleu"] == pytest.approx(cased)
    assert scores["lowercased"]["bleu"] == pytest.approx(lowercased)
    assert 20 < cased < lowercased < 100
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(hypotheses, [references]).score)
    assert scores["sentences"] == len(PAIRS)
    assert (scores["beam_size"], scores["alpha"]) == (2, 0.1)

    as_it_is = command("evaluate", tiny_saved_model, *options, *decoding, "--tokenize", "none", "--json")
    bleu = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True).score
    assert abs(bleu - cased) > 1
    assert json.loads(as_it_is.out)["bleu"] == pytest.approx(bleu)


def test_evaluate_of_a_run_is_kept_in_it(command, tiny_run_directory, almost_right, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(tiny_run_directory.path, copy)
    # Batches for training may be too small for the longest text the model takes; scoring must not mind.
    recipe = yaml.safe_load((copy / "recipe.yaml").read_text())
    recipe["data"].update(max_length=MAX_LENGTH // 2, batch_tokens=MAX_LENGTH // 2)
    recipe["evaluation"].update(tokenize="none", batch_size=5, lowercase=True)
    (copy / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    before = json.loads((copy / "scores.json").read_text(encoding="utf-8"))
    sizes = set()

    def recorded(translate, *arguments):
        return evaluate_translations(lambda texts: sizes.add(len(texts)) or translate(texts), *arguments)

    monkeypatch.setattr(scoring, "evaluate_translations", recorded)
    source, reference = almost_right
    with eagerly():
        outcome = command("evaluate", copy, "--source", source, "--reference", reference, "--beam-size", 1)
    assert sizes == {5, 4}  # as the recipe has it
    told = f"scoring 24 sentences with {copy / 'checkpoints' / 'best.keras'}\n"
    assert (outcome.status, outcome.err) == (0, told)
    scores = json.loads((copy / "scores.json").read_text(encoding="utf-8"))
    shown = outcome.out.decode()
    assert f"BLEU {scores['bleu']:.2f}   {scores['signature']}\n" in shown
    assert "|tok:none|" in scores["signature"]
    assert "case:lc" in scores["lowercased"]["signature"]
    assert f"chrF {scores['chrf']:.2f}   {scores['chrf_signature']}\n" in shown
    assert f"perplexity {scores['perplexity']:.3f} per token\n" in shown
    assert scores["earlier"] == [{key: value for key, value in before.items() if key != "earlier"}]
    assert (scores["source"], scores["reference"]) == (str(source), str(reference))
    assert scores["beam_size"] == 1 and "alpha" not in scores
    assert scores["checkpoint"] == before["checkpoint"] == "best.keras" and scores["weights"] == before["weights"]
    assert scores["bleu"] < before["bleu"]
    assert scores["perplexity"] > before["perplexity"]


def test_a_tokenizer_that_bleu_lacks_is_told_before_a_run_is_loaded(
    command, tiny_run_directory, almost_right, monkeypatch
):
    monkeypatch.setattr("tf_transformer.experiment.scoring.load_model", lambda *_: pytest.fail("it is loaded"))
    source, reference = almost_right
    options = ("--source", source, "--reference", reference, "--tokenize", "13b")
    assert_mistake(command("evaluate", tiny_run_directory.path, *options), "tokenize='13b'", "13a")


def test_evaluate_of_a_single_checkpoint_leaves_the_runs_scores(command, tiny_run_directory, almost_right):
    source, reference = almost_right
    kept = tiny_run_directory.scores.read_bytes()
    options = ("--source", source, "--reference", reference, "--beam-size", 1, "--json")
    with eagerly():
        outcome = command("evaluate", tiny_run_directory.best_checkpoint(), *options)
    assert (outcome.status, outcome.err) == (0, "")
    assert 20 < json.loads(outcome.out)["bleu"] < 100
    assert tiny_run_directory.scores.read_bytes() == kept


@pytest.fixture
def functions(monkeypatch):
    """What the exported translator has, of which the search alone is written; tests/export/ writes all."""
    write, names = exporting.export_saved_model, set()

    def with_search(translator, *arguments):
        names.update(translator.functions)
        return write(with_nothing_but(translator, *names & {"translate", "warm_up"}), *arguments)

    monkeypatch.setattr(exporting, "export_saved_model", with_search)
    return names


def test_export(command, tiny_run_directory, functions, tmp_path):
    (tmp_path / "tiny" / "7").mkdir(parents=True)
    options = ("--beam-size", 2, "--alpha", 0.1, "--float16", "--xla")
    outcome = command("export", tiny_run_directory.best_checkpoint(), tmp_path / "tiny", *options)
    exported = tmp_path / "tiny" / "8"
    assert (outcome.status, outcome.lines) == (0, [str(exported)])
    assert outcome.err == f"exporting {tiny_run_directory.best_checkpoint()}\n"
    assert sorted(os.listdir(tmp_path / "tiny")) == ["7", "8"]
    assert is_compiled(exported)
    assert {"translate", "translate_with_options", "warm_up"} <= functions
    decoding = json.loads((exported / "assets.extra" / "decoding_options.json").read_text(encoding="utf-8"))
    # What isn't told is the recipe's.
    assert (decoding["beam_size"], decoding["alpha"], decoding["extra_length"]) == (2, 0.1, 10)
    told = json.loads((exported / "assets.extra" / FACTS).read_text(encoding="utf-8"))["decoding"]
    assert (told["beam_size"], told["alpha"], told["extra_length"]) == (2, 0.1, 10)
    types = tf.train.load_checkpoint(f"{exported}/variables/variables").get_variable_to_dtype_map()
    floats = [dtype for dtype in types.values() if dtype.is_floating]
    assert len(floats) >= len(load_model(tiny_run_directory.best_checkpoint()).weights)
    assert set(floats) == {tf.float16}


def is_compiled(exported):
    """Whether XLA compiles its search."""
    (graph,) = SavedModel.FromString((exported / "saved_model.pb").read_bytes()).meta_graphs
    compiled = [each for each in graph.graph_def.library.function if each.attr["_XlaMustCompile"].b]
    assert ("warm_up" in graph.signature_def) == bool(compiled)
    assert "translate" in graph.signature_def
    return bool(compiled)


@pytest.mark.thorough
def test_an_export_may_do_without_xla(command, tiny_run_directory, tmp_path):
    """It has all signatures all the same."""
    outcome = command("export", tiny_run_directory.best_checkpoint(), tmp_path / "tiny", "--no-xla")
    (graph,) = SavedModel.FromString((Path(outcome.out.strip().decode()) / "saved_model.pb").read_bytes()).meta_graphs
    assert {"translate", "translate_with_options"} <= set(graph.signature_def)
    assert not is_compiled(Path(outcome.out.strip().decode()))


@pytest.mark.slow
def test_average_is_what_is_evaluated_and_exported(command, tmp_path):
    """The mean of the last two checkpoints of three, worked out by NumPy."""
    write_pairs(tmp_path)
    short = {"training__steps": 3, "training__validate_every": 1, "training__warmup_steps": 2}
    words = [word for setting in settings(tmp_path, **short, evaluation__beam_size=1) for word in ("--set", setting)]
    run, source, reference = tmp_path / "run", tmp_path / "pairs.en", tmp_path / "pairs.de"
    with eagerly():
        assert command("train", RECIPE, *words, "--run-dir", run).status == 0
        average = run / "checkpoints" / "average.keras"
        outcome = command("average", run, "--last", 2)
        assert outcome.lines == [str(average)]
        assert "to go back to best.keras, delete the file" in outcome.err
        told = command("evaluate", run, "--source", source, "--reference", reference).err
        assert told == f"scoring 24 sentences with {average}\n"
        outcome = command("evaluate", run, "--source", source, "--reference", reference, "--json")
    assert (outcome.status, outcome.err) == (0, "")

    models = [load_model(run / "checkpoints" / f"step-0000000{step}.keras") for step in (2, 3)]
    mean = [(one + other) / 2 for one, other in zip(*(model.get_weights() for model in models), strict=True)]
    assert max(np.abs(a - b).max() for a, b in zip(mean, models[1].get_weights(), strict=True)) > 1e-3
    models[0].set_weights(mean)
    tokenizers = RunDirectory.open(run).load_tokenizers()
    total = tokens = 0
    for inputs, labels in make_batches(PAIRS, tokenizers, batch_tokens=400, max_length=MAX_LENGTH).as_numpy_iterator():
        logits = np.asarray(models[0](inputs), "float64")
        of_label = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        total += np.sum((np.log(np.exp(logits).sum(-1)) - of_label)[labels != 0])
        tokens += np.count_nonzero(labels)
    assert json.loads(outcome.out)["perplexity"] == pytest.approx(np.exp(total / tokens), rel=1e-5)

    (exported,) = command("export", run, tmp_path / "exported").lines
    variables = tf.train.load_checkpoint(f"{exported}/variables/variables")
    shapes = variables.get_variable_to_shape_map()
    held = [variables.get_tensor(name) for name in shapes if variables.get_variable_to_dtype_map()[name] == tf.float32]
    for weight in mean:
        assert any(one.shape == weight.shape and np.allclose(one, weight, rtol=0, atol=1e-6) for one in held)
