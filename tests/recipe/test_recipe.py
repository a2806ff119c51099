"""Recipes: what they leave out, what replaces their settings, and that saving keeps all of it."""

import re
import subprocess
import sys
from dataclasses import fields

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recipe.recipes import DEFAULTS, DEMO, MULTI30K, RECIPES, SMALLEST, dotted, recipe_id, refusal
from tf_transformer.decoding.options import DecodingOptions
from tf_transformer.errors import UserError
from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.models.presets import PRESETS
from tf_transformer.recipe import ModelSettings, Recipe, load_recipe, save_recipe
from tf_transformer.recipe.settings import EvaluationSettings

# --- defaults, presets, overrides -----------------------------------------------------------------


def test_defaults(write):
    assert load_recipe(write(SMALLEST)).model_dump(mode="json") == DEFAULTS


@pytest.mark.parametrize(
    ("beside", "key"), [("steps: 10", "training.cpu_devices"), ("kind: demo", "data.shuffle_buffer")]
)
def test_a_key_that_only_older_recipes_have_is_left_out_but_can_not_be_set(write, beside, key):
    leaf = key.rpartition(".")[2]
    path = write(SMALLEST.replace(beside, f"{beside}, {leaf}: 2"))
    assert f"{leaf}: 2" in path.read_text()
    assert load_recipe(path).model_dump(mode="json") == DEFAULTS
    assert f"unknown key {key}" in refusal(path, f"{key}=2")


def test_a_recipe_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        load_recipe(DEMO).training.steps = 1


def test_reading_a_recipe_imports_neither_tensorflow_nor_keras():
    code = "import sys, tf_transformer.recipe; sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("kind", MODEL_KINDS)
def test_what_a_model_has_no_use_for_are_keys_of_a_recipe(kind):
    without = set(MODEL_KINDS[kind].without)
    assert without <= set(ModelSettings.model_fields) - {"kind", "preset"}
    given_to_it = load_recipe(DEMO, [f"model.kind={kind}"]).model.arguments(1000, 1000)
    assert not without & set(given_to_it)


def test_model_arguments_are_the_keys_of_its_section():
    arguments = load_recipe(DEMO).model.arguments(1000, 900)
    assert (arguments.pop("input_vocab_size"), arguments.pop("target_vocab_size")) == (1000, 900)
    assert set(arguments) == set(DEFAULTS["model"]) - {"kind", "preset", "next_word", "tree_state", "tree_loss"}


@pytest.mark.parametrize("name", PRESETS)
def test_preset_fills_in_what_is_not_given(write, name):
    sizes = re.compile(r"model: .*")
    recipe = load_recipe(write(sizes.sub(f"model: {{preset: {name}}}", SMALLEST)))
    model = recipe.model.model_dump()
    assert {key: model[key] for key in PRESETS[name].model} == PRESETS[name].model
    assert recipe.training.label_smoothing == PRESETS[name].label_smoothing


def test_what_is_given_beats_the_preset(write):
    text = SMALLEST.replace("num_layers: 1,", "preset: big, num_layers: 1, dropout_rate: null,")
    model = load_recipe(write(text)).model
    assert (model.num_layers, model.d_model, model.num_heads, model.dropout_rate) == (1, 8, 2, 0.3)


def test_a_preset_as_override_beats_the_file_but_no_other_override():
    recipe = load_recipe(DEMO, ["model.num_layers=3", "model.preset=table3_d_smoothing0", "model.key_dim=32"])
    assert recipe.model.num_layers == 3
    assert recipe.model.key_dim == 32
    assert recipe.model.d_model == 512
    assert recipe.training.label_smoothing == 0.0


def test_overrides_are_yaml_and_the_last_one_counts():
    recipe = load_recipe(
        MULTI30K,
        [
            "training.steps=500",
            "training.steps=600",
            "data.train=[a.en, b = c.de]",
            "data.root=../some where",
            "data.test=",
            "evaluation.lowercase=true",
            "model.dropout_rate=0",
            "name='2024'",
        ],
    )
    assert recipe.training.steps == 600
    assert recipe.data.train == ("a.en", "b = c.de")
    assert recipe.data.root == "../some where"
    assert recipe.data.test is None
    assert recipe.evaluation.lowercase is True
    assert recipe.model.dropout_rate == 0.0
    assert recipe.name == "2024"


def test_override_fills_a_section_the_file_leaves_out(write):
    assert load_recipe(write(SMALLEST), ["evaluation.batch_size=7"]).evaluation.batch_size == 7
    assert load_recipe(write(SMALLEST + "evaluation:\n"), ["evaluation.batch_size=7"]).evaluation.batch_size == 7


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="="), max_size=30))
@settings(max_examples=40, deadline=None)
def test_any_quoted_text_is_a_value_and_any_other_is_refused_in_one_line(text):
    quoted = yaml.safe_dump("x" + text, default_style='"', width=float("inf"))
    assert load_recipe(MULTI30K, [f"data.root={quoted}"]).data.root == "x" + text
    refusal(DEMO, text)
    refusal(DEMO, f"training.{text}x=1")


def test_the_model_translates_as_the_recipe_says():
    recipe = load_recipe(DEMO, ["evaluation.beam_size=7", "evaluation.alpha=0", "evaluation.extra_length=3"])
    assert recipe.evaluation.decoding_options() == DecodingOptions(beam_size=7, alpha=0.0, extra_length=3)
    assert load_recipe(DEMO).evaluation.decoding_options() == DecodingOptions()  # the paper's


def test_every_option_of_the_search_is_the_recipes():
    chosen = {"beam_size": 2, "alpha": 1.5, "length_offset": 3.0, "extra_length": 7, "no_repeat_ngram_size": 4}
    assert chosen.keys() == {field.name for field in fields(DecodingOptions)} & EvaluationSettings.model_fields.keys()
    assert EvaluationSettings(**chosen).decoding_options() == DecodingOptions(**chosen)


# --- round trip -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECIPES, ids=recipe_id)
def test_saved_recipe_is_equal_and_complete(path, tmp_path):
    recipe = load_recipe(path)
    saved = tmp_path / "recipe.yaml"
    save_recipe(recipe, saved)
    assert load_recipe(saved) == recipe
    assert list(dotted(yaml.safe_load(saved.read_text()))) == list(dotted(DEFAULTS))
    assert [p.name for p in tmp_path.iterdir()] == ["recipe.yaml"]


def test_saved_preset_is_resolved(tmp_path):
    recipe = load_recipe(DEMO, ["model.preset=table3_b_dk16", "model.value_dim=3"])
    save_recipe(recipe, tmp_path / "recipe.yaml")
    written = yaml.safe_load((tmp_path / "recipe.yaml").read_text())["model"]
    assert (written["d_model"], written["key_dim"], written["value_dim"]) == (512, 16, 3)
    assert load_recipe(tmp_path / "recipe.yaml") == recipe


text = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=20)
positive = st.floats(min_value=1e-30, max_value=1e30)


@given(name=st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,5}(\.[A-Za-z0-9_-]{1,5}){0,2}", fullmatch=True),
       root=st.none() | text, language=text, train=st.lists(text, min_size=2, max_size=2), scale=positive,
       ratio=st.none() | st.floats(min_value=1, max_value=1e6), seed=st.integers(0, 2**32 - 1))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_whatever_a_recipe_holds_comes_back(tmp_path_factory, name, root, language, train, scale, ratio, seed):
    raw = yaml.safe_load(SMALLEST)
    raw.update(name=name, seed=seed)
    raw["data"] = {"kind": "files", "root": root, "target_language": language, "train": train}
    raw["data"] |= {"validation": train, "max_ratio": ratio}
    raw["training"]["learning_rate_scale"] = scale
    recipe = Recipe.model_validate(raw)
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    save_recipe(recipe, path)
    assert load_recipe(path) == recipe


def test_save_replaces_the_file_whole(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("x" * 100_000)
    save_recipe(load_recipe(DEMO), path)
    assert load_recipe(path) == load_recipe(DEMO)


def test_save_into_no_folder_is_told_in_one_line(tmp_path):
    with pytest.raises(UserError, match="no-such.recipe.yaml: the recipe can't be written: No such file"):
        save_recipe(load_recipe(DEMO), tmp_path / "no-such" / "recipe.yaml")
