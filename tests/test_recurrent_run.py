"""A recurrent model by recipe: trained, exported, looked into and refused where it can't go."""

import io

import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

from tests.eager import eagerly
from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer import UserError, export_ctranslate2, load_model
from tf_transformer.experiment import export_run, train
from tf_transformer.inspection.sentence import inspect, load_attend
from tf_transformer.models.recurrent import RecurrentModel
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.tensorboard.events import Index
from tf_transformer.translation.loading import load_translate
from tf_transformer.translation.texts import translate_texts


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[RunDirectory, str]:
    """A run that knows `PAIRS` by heart, and what was told while it trained."""
    folder = tmp_path_factory.mktemp("recurrent")
    write_pairs(folder)
    console = Console(file=io.StringIO(), width=500)
    changes = {"model__kind": "recurrent", "model__d_model": 64, "evaluation__beam_size": 1}
    changes |= {"training__steps": 75, "training__validate_every": 75, "tensorboard__attention": 1}
    changes |= {"training__warmup_steps": 20, "training__learning_rate_scale": 1.5}
    recipe = load_recipe(RECIPE, settings(folder, **changes))
    return train(recipe, folder / "run", console), console.file.getvalue()


def test_it_learns_by_its_recipe(run):
    run, told = run
    assert isinstance(load_model(run.path), RecurrentModel)
    assert "model: recurrent, " in told
    assert "model: the recurrent model ignores decoder_layers, alignment_head, num_heads, " in told
    translate = load_translate(run.path)
    with eagerly():
        translations = [found.text for found in translate_texts(translate, [source for source, _ in PAIRS])]
    assert translations == [target for _, target in PAIRS]


@pytest.mark.thorough
def test_its_export_translates_alike(run, tmp_path):
    folder = export_run(run[0], tmp_path / "1")
    loaded = tf.saved_model.load(folder)
    output = loaded.signatures["translate"](text=tf.constant([source for source, _ in PAIRS]))
    assert [text.decode() for text in output["translation"].numpy()] == [target for _, target in PAIRS]
    source, target = (tf.constant([text]) for text in PAIRS[0])

    # What looks into a translation works with this model's step as well.
    options = {"beam_size": 3, "num_hypotheses": 1, "min_length": 1, "max_length": 0}
    tensors = {name: tf.constant(value) for name, value in options.items()}
    search = loaded.signatures["translate_with_search"]
    found = search(text=source, prefix=tf.constant([""]), alpha=tf.constant(0.6), **tensors)
    tokens = np.where(found["wins"][0], found["token"][0], b"").sum(axis=1)
    seen = loaded.signatures["attention"](source=source, target=target)
    assert tokens[tokens != b""].tolist() == seen["target_tokens"][0].numpy().tolist()
    ids = seen["target_ids"].numpy()
    following = loaded.signatures["next_tokens"](text=source, prefix_ids=tf.constant(ids[:, :2]), count=tf.constant(2))
    assert following["id"][0, 0] == ids[0, 2] and following["probability"][0, 0] > 0.5
    assert following["translation"][0, 0] == target[0]


def test_its_one_attention_is_shown(run):
    with eagerly():
        (found,) = inspect(load_attend(run[0].path), [PAIRS[0][0]])
    assert list(found.attention) == ["cross"]
    layers, heads, rows, columns = found.attention["cross"].shape
    assert (layers, heads) == (1, 1)
    assert (rows, columns) == (len(found.target_tokens), len(found.source_tokens))
    np.testing.assert_allclose(found.attention["cross"].sum(axis=-1), 1, rtol=0, atol=1e-5)
    index = Index(run[0].logs)
    ((name, tags),) = index.refresh().items()
    ((tag, steps),) = tags.items()
    assert index.header(name, tag, steps[-1]).sizes == {"cross": [1, 1]}


def test_ctranslate2_has_no_such_model(run, tmp_path):
    model = load_model(run[0].path)
    tokenizers = run[0].load_tokenizers()
    with pytest.raises(
        UserError, match="CTranslate2 supports Transformers, not a RecurrentModel; export this as a SavedM"
    ):
        export_ctranslate2(model, tokenizers, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_an_odd_width_is_refused_by_its_key():
    with pytest.raises(UserError, match="model.d_model is 63; for kind recurrent it must be even"):
        load_recipe(RECIPE, ["model.kind=recurrent", "model.d_model=63"])
