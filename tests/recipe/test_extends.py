"""Recipes that extend others: what replaces what, and where a mistake is said to be."""

import pytest
import yaml

from tests.recipe.recipes import DEMO, SMALLEST, refusal
from tf_transformer.errors import UserError
from tf_transformer.models.presets import PRESETS
from tf_transformer.recipe import load_recipe, save_recipe


@pytest.fixture
def family(tmp_path):
    """Writes recipes by their names, beside `base.yaml`, a small one; gives the path of the last."""

    def write(**texts):
        (tmp_path / "base.yaml").write_text(SMALLEST)
        for name, text in texts.items():
            path = tmp_path / f"{name}.yaml"
            path.write_text(text)
        return path

    return write


# --- what replaces what ---------------------------------------------------------------------------


def test_it_differs_by_its_own_keys_only(family):
    path = family(child="extends: base.yaml\nseed: 7\nmodel: {num_heads: 4}\nevaluation: {alpha: 0.0}\n")
    own = [load_recipe(path).model_dump(), load_recipe(path.with_name("base.yaml")).model_dump()]
    assert own[0] != own[1]
    own[1]["seed"], own[1]["model"]["num_heads"], own[1]["evaluation"]["alpha"] = 7, 4, 0.0
    assert own[0] == own[1]


def test_an_empty_section_and_an_empty_extends_change_nothing(family):
    path = family(child="extends: base.yaml\nmodel:\ntraining:\nevaluation:\n")
    assert load_recipe(path) == load_recipe(path.with_name("base.yaml"))
    assert load_recipe(family(alone="extends:\n" + SMALLEST)) == load_recipe(path)


def test_null_takes_a_value_back(family):
    path = family(middle="extends: base.yaml\nmodel: {key_dim: 3}\n", child="extends: middle.yaml\nmodel: {key_dim:}\n")
    assert load_recipe(path.with_name("middle.yaml")).model.key_dim == 3
    assert load_recipe(path).model.key_dim is None


def test_the_nearest_of_a_chain_counts_and_overrides_before_all(family):
    path = family(
        one="extends: base.yaml\nseed: 1\nname: one\ntraining: {steps: 11, warmup_steps: 21, keep_checkpoints: 31}\n",
        two="extends: ./one.yaml\nseed: 2\ntraining: {steps: 12, warmup_steps: 22}\n",
        three="extends: two.yaml\nseed: 3\ntraining: {steps: 13}\n",
    )
    recipe = load_recipe(path, ["seed=4"])
    assert (recipe.name, recipe.seed) == ("one", 4)
    assert (recipe.training.steps, recipe.training.warmup_steps, recipe.training.keep_checkpoints) == (13, 22, 31)


def test_the_path_is_relative_to_the_file_that_has_it(family, tmp_path, monkeypatch):
    family(base="")  # the folder that is worked in has a recipe of that name too
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "base.yaml").write_text(SMALLEST.replace("name: small", "name: other"))
    child = tmp_path / "elsewhere" / "deep" / "child.yaml"
    child.write_text("extends: ../base.yaml\n")
    monkeypatch.chdir(tmp_path)
    assert load_recipe("elsewhere/deep/child.yaml").name == "other"
    child.write_text(f"extends: {tmp_path / 'elsewhere' / 'base.yaml'}\n")
    assert load_recipe(child).name == "other"


def test_the_path_may_begin_at_the_home_folder(family, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_recipe(family(child="extends: ~/base.yaml\n")).name == "small"


def test_two_may_extend_the_same(family):
    path = family(a="extends: base.yaml\nname: a\n", b="extends: base.yaml\nname: b\n")
    assert [load_recipe(path.with_name(f"{name}.yaml")).name for name in "ab"] == ["a", "b"]


def test_what_is_saved_extends_nothing(family, tmp_path):
    recipe = load_recipe(family(child="extends: base.yaml\nmodel: {num_heads: 4}\n"))
    save_recipe(recipe, tmp_path / "elsewhere.yaml")
    (tmp_path / "base.yaml").unlink()
    assert "extends" not in yaml.safe_load((tmp_path / "elsewhere.yaml").read_text())
    assert load_recipe(tmp_path / "elsewhere.yaml") == recipe


# --- presets --------------------------------------------------------------------------------------


def test_a_preset_replaces_what_the_other_recipe_gives_for_it(family):
    recipe = load_recipe(family(child="extends: base.yaml\nmodel: {preset: table3_d_smoothing0, num_layers: 3}\n"))
    for key, value in PRESETS["table3_d_smoothing0"].model.items():
        assert getattr(recipe.model, key) == (3 if key == "num_layers" else value)
    assert recipe.training.label_smoothing == 0.0


def test_it_does_what_the_same_overrides_do(family):
    path = family(child="extends: base.yaml\nmodel: {dff: 32, preset: big, key_dim: null}\ntraining: {steps: 20}\n")
    overrides = ["model.dff=32", "model.preset=big", "model.key_dim=null", "training.steps=20"]
    assert load_recipe(path) == load_recipe(path.with_name("base.yaml"), overrides)


def test_what_is_given_over_the_other_recipes_preset_counts(family):
    path = family(
        middle="extends: base.yaml\nmodel: {preset: big}\n", child="extends: middle.yaml\nmodel: {num_heads: 4}\n"
    )
    model = load_recipe(path).model
    assert (model.preset, model.d_model, model.num_heads) == ("big", 1024, 4)
    model = load_recipe(family(last="extends: child.yaml\nmodel: {preset: table3_c_n2}\n")).model
    assert (model.preset, model.num_layers, model.d_model, model.num_heads) == ("table3_c_n2", 2, 512, 8)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "child", "culprit", "told"),
    [
        ("seed: -1", "name: x", "base", "seed is -1"),
        ("seed: 1", "seed: -1", "child", "seed is -1"),
        ("seed: -1", "seed: -2", "child", "seed is -2"),
        ("training: {warmpu: 3}", "training: {steps: 3}", "base", "unknown key training.warmpu; did you mean"),
        ("seed: 1", "trainning: {steps: 3}", "child", "unknown key trainning; did you mean training?"),
        ("seed: 1", "training.steps: 3", "child", "unknown key training.steps"),
        ("seed: 1", "data: {extends: base.yaml}", "child", "unknown key data.extends"),
        ("model: 3", "model: {num_heads: 2}", "base", "model is 3; it must be a section"),
        ("model: {num_heads: 2}", "model: 3", "child", "model is 3; it must be a section"),
        ("tokenizer: {vocab_size: 300}", "name: x", "child", "data.kind is missing"),
    ],
)
def test_a_mistake_is_told_of_the_file_that_has_it(family, tmp_path, base, child, culprit, told):
    lines = [line for line in SMALLEST.splitlines() if line.partition(":")[0] not in (base.partition(":")[0], "data")]
    data = [] if "tokenizer" in base else ["data: {kind: demo}"]
    path = family(base="\n".join([*lines, *data, base]), child=f"extends: base.yaml\n{child}\n")
    assert refusal(path).startswith(f"{tmp_path / culprit}.yaml: {told}")


def test_a_mistake_in_what_a_preset_brings_is_told_of_the_file_that_has_the_preset(family):
    path = family(child="extends: base.yaml\ntokenizer: {joint: false}\nmodel: {preset: big}\n")
    assert refusal(path).startswith(f"{path}: model.share_embeddings is all, which needs tokenizer.joint: true")
    override = "model.preset=table3_a_h32"
    assert refusal(path, override).startswith(f"--set {override}: model.share_embeddings is all")


@pytest.mark.parametrize(
    ("extends", "told"),
    [
        ("3", "extends is 3; it must be the path of another recipe, relative to this one"),
        ("[base.yaml]", "extends is [base.yaml]; it must be the path"),
        ("none.yaml", "extends is none.yaml; there is no file "),
        ("''", "extends is ''; there is no file "),
        (".", "extends is .; there is no file "),
        ("x" * 300, "there is no file "),
        (r'"a\0b"', "there is no file "),
    ],
)
def test_an_extends_that_leads_nowhere(family, extends, told):
    path = family(child=f"extends: {extends}\n")
    message = refusal(path)
    assert message.startswith(f"{path}: ") and told in message


@pytest.mark.parametrize(("text", "told"), [("", "is empty"), ("- a\n", "holds [a]"), ("a: [\n", "not valid YAML")])
def test_an_extended_file_that_is_no_recipe(family, tmp_path, text, told):
    message = refusal(family(bad=text, child="extends: bad.yaml\n"))
    assert message.startswith(f"{tmp_path / 'bad.yaml'}: ") and told in message


def test_circles_are_told_by_their_files(family, tmp_path):
    path = family(own="extends: own.yaml\n")
    assert f"{path}: extends is own.yaml, which is circular ({path} extends {path})" in refusal(path)
    path = family(a="extends: c.yaml\n", c="extends: b.yaml\n", b=f"extends: ../{tmp_path.name}/c.yaml\n")
    message = refusal(path.with_name("a.yaml"))
    assert message.startswith(f"{path}: extends is ../{tmp_path.name}/c.yaml, which is circular")
    assert [message.count(f"{name}.yaml extends") for name in "abc"] == [1, 1, 1]


def test_it_cannot_be_set_on_the_command_line(family):
    message = refusal(DEMO, "extends=base.yaml")
    assert message.startswith("--set extends=base.yaml: extends can't be overridden")


def test_a_recipe_from_a_dictionary_extends_nothing():
    from tf_transformer.recipe import Recipe

    with pytest.raises(ValueError, match="extends") as caught:
        Recipe.model_validate({**yaml.safe_load(SMALLEST), "extends": str(DEMO)})
    assert not isinstance(caught.value, UserError)
