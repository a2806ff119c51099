"""What the file of a sweep may hold."""

import pytest

from tests.recipe.recipes import FOLDER
from tests.sweep.small_sweep import write
from tests.tiny_run import RECIPE
from tf_transformer.errors import UserError
from tf_transformer.sweep import load_sweep

SWEEPS = sorted((FOLDER.parent / "sweeps").glob("*.yaml"))


def test_rows_change_the_recipe_over_what_is_set_for_all(tmp_path):
    rows = {"base": {}, "wide": {"model.dff": 64, "data.test": None}, "long": {"training.steps": 280}}
    path = write(tmp_path, set={"training.steps": 140, "data.test": "validation"}, rows=rows, seeds=[3, 4])
    sweep, runs = load_sweep(path)
    assert list(sweep.rows) == ["base", "wide", "long"]
    names = "base-seed3 wide-seed3 long-seed3 base-seed4 wide-seed4 long-seed4"
    assert [run.name for run in runs] == names.split()
    recipes = {run.name: run.load() for run in runs}
    assert {name: recipe.training.steps for name, recipe in recipes.items() if "4" in name} == {
        "base-seed4": 140,
        "wide-seed4": 140,
        "long-seed4": 280,
    }
    assert (recipes["wide-seed3"].model.dff, recipes["base-seed3"].model.dff) == (64, 512)
    assert (recipes["wide-seed3"].data.test, recipes["base-seed3"].data.test) == ("test", "validation")
    assert [recipe.seed for recipe in recipes.values()] == [3, 3, 3, 4, 4, 4]


def test_what_is_set_from_outside_replaces_the_file_s_but_no_row_s(tmp_path):
    rows = {"base": {}, "wide": {"model.dff": 64}}
    path = write(tmp_path, set={"training.steps": 140}, rows=rows)
    _, runs = load_sweep(path, ["training.steps=70", "model.dff=32"])
    base, wide = (run.load() for run in runs)
    assert (base.training.steps, base.model.dff) == (70, 32)
    assert (wide.training.steps, wide.model.dff) == (70, 64)


def test_a_recipe_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "own.yaml").write_text(f"extends: {RECIPE}\ntraining: {{steps: 70}}\n")
    _, (run,) = load_sweep(write(tmp_path, recipe="~/own.yaml"))
    assert run.load().training.steps == 70


def test_a_row_that_is_there_twice_is_told(tmp_path):
    path = write(tmp_path)
    path.write_text("rows:\n  base: {}\n  base: {}\n")
    with pytest.raises(UserError, match="line 3: not valid YAML: base was already given on line 2"):
        load_sweep(path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"recipe": "none.yaml"}, "row base: "),
        ({"rows": {}}, "rows: "),
        ({"rows": {"a/b": {}}}, "rows.a/b"),
        ({"rows": {"base": {"model.dff": "wide"}}}, "row base: --set model.dff=wide: model.dff is wide"),
        ({"rows": {"base": {}, "more": {"modle.dff": 3}}}, "row more: --set modle.dff=3: unknown key modle.dff"),
        ({"seeds": [1, 1]}, "a seed occurs twice"),
        ({"seeds": []}, "seeds: "),
        ({"set": {"seed": 9}}, "set has a seed; list the seeds of a sweep under its key seeds"),
        ({"rows": {"base": {}, "other": {"seed": 9}}}, "row other has a seed; list the seeds"),
        ({"seeds": ["a"]}, "seeds.0: "),
        ({"vary": {}}, "a sweep has the keys name, recipe, set, rows, seeds"),
    ],
)
def test_mistakes(tmp_path, changes, told):
    path = write(tmp_path, **changes)
    with pytest.raises(UserError) as error:
        load_sweep(path)
    assert str(error.value).startswith(str(path)) and told in str(error.value) and "\n" not in str(error.value)


def test_a_seed_from_outside_is_told(tmp_path):
    with pytest.raises(UserError, match="--set has a seed; list the seeds of a sweep under its key seeds"):
        load_sweep(write(tmp_path), ["training.steps=70", "seed=9"])


@pytest.mark.parametrize("text", [None, "", "rows: [", "- a"])
def test_a_file_that_is_none(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match="sweep"):
        load_sweep(path)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_the_project_s_sweeps_load_under_their_names(path):
    assert load_sweep(path)[0].name == path.stem
