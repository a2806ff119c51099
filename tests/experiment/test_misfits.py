"""What a fine-tuning may have otherwise than the model that it begins with, and what is told where it may not."""

from contextlib import nullcontext

import numpy as np
import pytest

from tests.experiment.fine_tuned import weights, written
from tests.tiny_parser import parsing_settings
from tests.tiny_run import RECIPE
from tf_transformer import UserError, experiment, load_recipe
from tf_transformer.experiment.compiling import check_freeze
from tf_transformer.experiment.fine_tuning import open_origin, take_weights
from tf_transformer.recipe import save_recipe
from tf_transformer.runs.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("eager")


def test_a_parsers_tags_are_the_origins(tmp_path):
    tagged = RunDirectory(tmp_path / "tagged")
    tagged.path.mkdir()
    save_recipe(load_recipe(RECIPE, parsing_settings(tmp_path, data__tags="true")), tagged.recipe)
    trees = {"kind": "trees", "train": "trees.mrg", "validation": "trees.mrg", "test": None}
    data = {f"data__{key}": value for key, value in trees.items()}
    path = written(tmp_path / "r.yaml", tmp_path, tagged, task="parsing", **data, evaluation__also=None)
    assert load_recipe(path).data.tags
    with pytest.raises(UserError, match=r"recipe: data.tags is false here and true there \(leave it out\);"):
        open_origin(load_recipe(path, ["data.tags=false"]))


def test_sizes_that_do_not_fit_are_told_all_at_once_before_data_is_read(origin, tmp_path):
    changes = {"model__num_layers": 3, "model__d_model": 64, "model__share_embeddings": "none"}
    path = written(tmp_path / "r.yaml", tmp_path / "nowhere", origin, **changes, tokenizer__vocab_size=300)
    with pytest.raises(UserError) as error:
        experiment.train(load_recipe(path), tmp_path / "run")
    told = str(error.value)
    for misfit in (
        "model.num_layers is 3 here and 1 there",
        "model.d_model is 64 here and 32 there",
        "model.share_embeddings is none here and all there",
        "tokenizer.vocab_size is 300 here and 440 there",
    ):
        assert misfit in told
    assert "key_dim" not in told and "\n" not in told  # it follows from the width
    assert not (tmp_path / "run").exists()


def test_sizes_of_a_preset_are_given_wherever_it_stands(origin, tmp_path):
    path = written(tmp_path / "preset.yaml", tmp_path, origin, model__preset="base", model__num_layers=1)
    recipes = [load_recipe(path)]
    path = written(tmp_path / "none.yaml", tmp_path, origin)
    recipes += [load_recipe(path, ["model.preset=base", "model.num_layers=1"])]
    assert recipes[0].model == recipes[1].model
    with pytest.raises(UserError, match="model.d_model is 512 here and 32 there") as error:
        open_origin(recipes[0])
    assert "num_layers" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"model__position": "learned", "model__max_length": 50},
            "model.position is learned here and sinusoidal there",
        ),
        (
            {"tokenizer__kind": "unigram"},
            r"tokenizer.kind is unigram here and .* there \(tokenizer.keep: false learns a new one\)",
        ),
        ({"training__freeze": ["encoder/layer_7"]}, "no encoder/layer_7; choose from encoder/embedding"),
    ],
    ids=["position", "tokenizer", "freeze"],
)
def test_one_mistake_is_told_before_data_is_read(origin, tmp_path, changes, told):
    path = written(tmp_path / "r.yaml", tmp_path / "nowhere", origin, **changes)
    with pytest.raises(UserError, match=told):
        experiment.train(load_recipe(path), tmp_path / "run")


@pytest.mark.parametrize(
    ("frozen", "told"),
    [
        ("[tree_state]", None),
        ("[encoder, decoder]", None),  # so that it alone learns
        ("[tree_state, tree]", "no tree; choose from"),
        ("[tree_state/lost]", "no tree_state/lost; choose from tree_state/last"),
        ("[encoder, decoder, tree_state]", "leaves nothing to train"),
    ],
)
def test_the_state_of_the_tree_may_be_frozen_or_learn_alone(frozen, told):
    """A layer that takes tokens, which are not known before data is read."""
    settings = ["model.num_layers=1", "model.tree_state=true", "model.share_embeddings=target"]
    settings += [f"training.freeze={frozen}"]
    recipe = load_recipe("train/recipes/parsing_demo.yaml", settings)
    with pytest.raises(UserError, match=told) if told else nullcontext():
        check_freeze(recipe)


def test_what_changes_no_weight_may_differ(folder, origin, tmp_path):
    changes = {"model__dropout_rate": 0.3, "model__max_length": 99, "model__window": 5}
    recipe = load_recipe(written(tmp_path / "r.yaml", folder, origin, **changes))
    model, opened = experiment.make_model(recipe, 440, 440), open_origin(recipe)
    assert take_weights(model, opened.tokenizers, opened) == {}
    config, theirs = model.get_config(), weights(origin.best)
    assert (config["dropout_rate"], config["max_length"], config["window"]) == (0.3, 99, 5)
    assert all(np.array_equal(weight.numpy(), theirs[weight.path]) for weight in model.weights)


def test_a_model_that_is_not_there_is_told(origin, tmp_path):
    path = written(tmp_path / "r.yaml", tmp_path, origin, init_from=str(tmp_path / "no-run"))
    with pytest.raises(UserError, match=r"r\.yaml: init_from is .*no-run; .* not a run"):
        load_recipe(path)
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "saved_model.pb").touch()
    path = written(tmp_path / "r.yaml", tmp_path, origin, init_from=str(tmp_path / "export"))
    with pytest.raises(UserError, match="an exported model, which can't be trained further; give the run"):
        load_recipe(path)
