"""Settings of a recipe that decide how it is prepared, trained and scored: each does what it says."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
from rich.console import Console

from tests.eager import eagerly
from tests.experiment.small_recipe import on, recipe
from tests.tiny_run import PAIRS
from tf_transformer import experiment, load_model
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.tensorboard.training import tensorboard_callbacks
from tf_transformer.tokenizers import TokenizerPair
from tf_transformer.training import ValidationBleu


def changed(made, section, **values):
    return made.model_copy(update={section: getattr(made, section).model_copy(update=values)})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training of four steps, each of which makes the model better."""
    folder = tmp_path_factory.mktemp("arrive")
    steps = {
        "steps": 4,
        "validate_every": 1,
        "early_stopping": 1,
        "learning_rate_scale": 0.04,
        "save_every_seconds": 3600,
    }
    made = on(folder, PAIRS, 512, **steps, keep_checkpoints=3, average_checkpoints=2)
    with eagerly():
        return experiment.train(changed(made, "evaluation", tokenize="char", lowercase=True), folder / "run")


def test_a_training_that_improves_does_not_stop_early_and_keeps_the_last_checkpoints(run):
    assert [path.stem for path in run.step_checkpoints()] == [f"step-{step:08d}" for step in (2, 3, 4)]


def test_so_many_of_the_last_checkpoints_are_averaged(run):
    average, *last = (load_model(path).get_weights() for path in (run.average, *run.step_checkpoints()[1:]))
    for mean, *weights in zip(average, *last, strict=True):
        np.testing.assert_allclose(mean, np.mean(weights, axis=0), atol=1e-6)


def test_the_scores_at_the_end_are_of_the_words_and_the_case_that_it_names(run):
    scores = json.loads(run.scores.read_text())
    assert "|tok:char|" in scores["signature"] and "|case:mixed|" in scores["signature"]
    of_any_case = scores["lowercased"]["signature"]
    assert "|tok:char|" in of_any_case and "|case:lc|" in of_any_case


def test_bleu_of_validations_is_of_the_words_that_it_names(tmp_path):
    def translate(texts):
        rows = len(texts)
        return {
            "translation": np.array([b"Ein Mann sieht das."] * rows),
            "score": np.zeros(rows),
            "truncated": np.zeros(rows, bool),
        }

    made = changed(recipe(sample_translations=0, tensorboard={"bleu": 2}), "evaluation", tokenize="char")
    callbacks = tensorboard_callbacks(made, RunDirectory(tmp_path), SimpleNamespace(translate=translate), PAIRS)
    (bleu,) = (callback for callback in callbacks if isinstance(callback, ValidationBleu))
    logs = {}
    bleu.on_epoch_end(0, logs)
    references = [[target for _, target in PAIRS[:2]]]
    expected = sacrebleu.corpus_bleu(["Ein Mann sieht das."] * 2, references, tokenize="char").score
    assert logs["val_bleu"] == pytest.approx(expected)


def test_pairs_of_too_unlike_lengths_are_dropped_and_each_side_gets_its_vocabulary(tmp_path):
    unlike = ("A man.", "Ein Mann sieht ein Haus und liebt den grünen Apfel.")
    made = on(tmp_path, [*PAIRS, unlike], 64)
    made = changed(changed(made, "data", max_ratio=3.0), "tokenizer", joint=False, vocab_size=295)
    told = Console(file=io.StringIO(), width=200)
    prepared = experiment.prepare(made, tmp_path / "run", told)
    assert "train: 24 of 25 pairs kept" in told.file.getvalue()
    tokenizers = TokenizerPair.load(prepared / "tokenizer")
    assert not tokenizers.joint and tokenizers.source is not tokenizers.target
