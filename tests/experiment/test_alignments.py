"""A recipe whose pairs are aligned: from its file to the model's alignments."""

import io
import shutil

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from tests.experiment.looked_at import figures
from tests.experiment.small_recipe import ctrl_c_after, on
from tests.tiny_run import PAIRS
from tf_transformer import experiment
from tf_transformer.decoding import align
from tf_transformer.errors import UserError
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model
from tf_transformer.tokenizers.base import END_ID
from tf_transformer.translation.translator import Translator

pytestmark = pytest.mark.usefixtures("eager")


@pytest.fixture(scope="module")
def stopped_run(eager, tmp_path_factory):
    """A recipe, and a run by it that was stopped after its fourth step."""
    folder = tmp_path_factory.mktemp("aligned")
    recipe = on(folder, PAIRS, 64, max_length=32, steps=6, validate_every=3, save_every_seconds=60)
    # Word by word, but for each fifth pair, of which nothing is known.
    lines = [" ".join(f"{n}-{n}" for n in range(len(source.split()))) for source, _ in PAIRS]
    (folder / "pairs.align").write_text("".join(f"{line if i % 5 else ''}\n" for i, line in enumerate(lines)))
    recipe = recipe.model_copy(
        update={
            "data": recipe.data.model_copy(update={"alignments": "pairs.align"}),
            "model": recipe.model.model_copy(update={"alignment_head": (0, 1)}),
            "training": recipe.training.model_copy(update={"alignment_weight": 2.0}),
        }
    )
    with ctrl_c_after(4):
        experiment.train(recipe, folder / "run")
    return recipe, RunDirectory(folder / "run")


@pytest.mark.thorough
def test_a_training_goes_on_as_if_never_stopped(stopped_run, tmp_path):
    recipe, stopped = stopped_run
    shutil.copytree(stopped.path, tmp_path / "resumed")
    resumed = experiment.train(recipe, tmp_path / "resumed")
    told = io.StringIO()
    whole = experiment.train(recipe, tmp_path / "run", Console(file=told, width=300))
    assert "train: 19 pairs with an alignment" in told.getvalue()
    assert told.getvalue().count("alignment loss ") == 2
    ours, theirs = (load_model(run.checkpoints / "step-00000006.keras") for run in (whole, resumed))
    assert ours.alignment_head == theirs.alignment_head == (0, 1)
    for one, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    logs = [figures(run.logs / "train")["training/alignment_loss"] for run in (whole, resumed)]
    assert [step for step, _ in logs[0]] == [3, 6] and all(value > 0 for _, value in logs[0])
    np.testing.assert_allclose(*logs, rtol=1e-5)
    assert not any("alignment" in name for name in figures(whole.logs / "validation"))


def test_other_alignments_are_told(stopped_run):
    recipe, stopped = stopped_run
    with (stopped.path.parent / "pairs.align").open("r+") as file:
        first = file.read()
        file.seek(0)
        file.write(first.replace("1-1", "1-0", 1))
    with pytest.raises(UserError, match=r"had other pairs in data\.train \(24 pairs, CRC-32 .*; now 24 pairs, CRC"):
        experiment.train(recipe, stopped.path)


def test_the_head_alone_tells_which_words_belong_together(stopped_run):
    """In what is translated, and in the signature that a SavedModel has."""
    _, run = stopped_run
    model = load_model(run.best_checkpoint())
    translator = Translator(model, run.load_tokenizers())
    source, target = PAIRS[0]
    seen = translator.functions["attention"](tf.constant([source]), tf.constant([target]))
    source_ids = translator.tokenizers.source.tokenize([source]).to_tensor().numpy()
    source_ids = np.concatenate([source_ids, [[END_ID]]], axis=1)
    of_heads = [
        align(seen["cross_attention"][:, :1, head : head + 1], source_ids, seen["target_ids"], END_ID).numpy().tolist()
        for head in range(2)
    ]
    assert of_heads[0] != of_heads[1]
    assert seen["alignment"].numpy().tolist() == of_heads[1]
