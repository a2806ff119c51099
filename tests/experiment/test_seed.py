"""Trainings that Ctrl-C ends: their models can be used, and the seed decides what they are."""

import math

import keras
import numpy as np
import pytest

from tests.eager import eagerly
from tests.experiment.small_recipe import ctrl_c_after, on
from tests.tiny_run import PAIRS
from tf_transformer import experiment, load_model
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.translation.loading import load_translate
from tf_transformer.translation.texts import translate_texts


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """Trainings with the seeds 1, 1 and 2, on one device, that Ctrl-C ends after the first step."""

    def train(seed):
        path = tmp_path_factory.mktemp("interrupted") / "run"
        with ctrl_c_after(1), eagerly():
            experiment.train(on(path.parent, PAIRS, 64, seed=seed), path)
        return RunDirectory.open(path)

    return [train(seed) for seed in (1, 1, 2)]


def test_an_interrupted_run_can_be_used(interrupted):
    run = interrupted[0]
    assert [path.name for path in run.checkpoints.iterdir()] == ["interrupted.keras"]
    assert not run.scores.exists()
    model = keras.saving.load_model(run.best_checkpoint())
    assert int(model.optimizer.iterations) == 1
    with eagerly():
        sentence, nothing = translate_texts(load_translate(run.path), ["The dog sleeps.", ""])
    assert math.isfinite(sentence.score) and nothing.text == ""


def test_the_seed_decides(interrupted):
    first, again, other = (load_model(run.path).get_weights() for run in interrupted)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert max(np.abs(a - b).max() for a, b in zip(first, other, strict=True)) > 0.1
