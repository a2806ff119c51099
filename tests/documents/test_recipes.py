"""The recipes and sweeps of every page can be loaded, and set what the page says."""

import shutil

import pytest

from tests.documents.reading import ROOT, blocks_of
from tests.tiny_run import MAX_LENGTH
from tf_transformer.experiment.compiling import check_freeze
from tf_transformer.recipe import load_recipe
from tf_transformer.sweep import load_sweep


def test_the_recipe_that_extends_another_is_that_of_table_3(tmp_path):
    (block,) = blocks_of("train/README.md", "yaml")
    shutil.copytree(ROOT / "train" / "recipes", tmp_path / "recipes")
    (tmp_path / "recipes" / "table3" / "mine.yaml").write_text(block.text, encoding="utf-8")
    recipe = load_recipe(tmp_path / "recipes" / "table3" / "mine.yaml")
    assert recipe.model.num_heads == 4
    assert recipe.training == load_recipe(ROOT / "train" / "recipes" / "wmt14_en_de_base.yaml").training


@pytest.mark.parametrize(
    ("page", "before"),
    [
        ("docs/small_corpus.md", ""),
        ("docs/large_corpus.md", "extends: train/recipes/multi30k_en_de.yaml\nname: mine\n"),
    ],
)
def test_the_recipe_of_one_s_own_corpus_is_one(page, before, folder):
    block, *_ = blocks_of(page, "yaml")
    (folder / "my_recipe.yaml").write_text(before + block.text, encoding="utf-8")
    recipe = load_recipe(folder / "my_recipe.yaml")
    assert (recipe.name, recipe.data.root) == ("mine", "my_data")


def test_the_recipe_of_several_sources_is_one(folder):
    _, block = blocks_of("docs/large_corpus.md", "yaml")
    before = "extends: train/recipes/multi30k_en_de.yaml\nname: mine\n"
    (folder / "my_recipe.yaml").write_text(before + block.text, encoding="utf-8")
    sources = load_recipe(folder / "my_recipe.yaml").data.sources()
    assert [(source.weight, source.tag) for source in sources] == [(1, None), (0.5, None), (2, "<bt>")]


@pytest.mark.parametrize("number", [0, 1])
def test_the_recipes_of_more_text_are_some(number, folder):
    block = blocks_of("docs/more_text.md", "yaml")[number]
    before = "extends: train/recipes/multi30k_en_de.yaml\nname: mine\n"
    (folder / "my_recipe.yaml").write_text(before + block.text, encoding="utf-8")
    first, second = load_recipe(folder / "my_recipe.yaml").data.sources()
    assert (first.weight, second.tag) == [(3, "<bt>"), (1, None)][number]
    assert second.noise is None or second.noise.typos == 0.1


def test_the_recipes_of_a_fine_tuning_are_some(folder, tiny_run_directory):
    """Each block is one, over the first."""
    first, *blocks = blocks_of("docs/fine_tuning.md", "yaml")
    (folder / "runs").mkdir()
    (folder / "runs" / "tatoeba_en_de").symlink_to(tiny_run_directory.path)
    (folder / "my_recipe.yaml").write_text(first.text, encoding="utf-8")
    short = [f"data.max_length={MAX_LENGTH}"]  # all that the model takes
    recipes = [load_recipe(folder / "my_recipe.yaml", short)]
    for block in blocks:
        (folder / "more.yaml").write_text(f"extends: my_recipe.yaml\n{block.text}", encoding="utf-8")
        recipes.append(load_recipe(folder / "more.yaml", short))
    plain, new, frozen, mixed = recipes
    assert plain.model == load_recipe(tiny_run_directory.recipe).model and plain.tokenizer.keep
    assert not new.tokenizer.keep and frozen.training.freeze == ("encoder/embedding", "encoder/layer_0")
    check_freeze(frozen)  # the origin's model has these layers
    assert [source.weight for source in mixed.data.sources()] == [1, 0.0061]


def test_the_recipe_of_one_s_own_treebank_is_one(tmp_path):
    (block,) = blocks_of("docs/parsing.md", "yaml")
    shutil.copytree(ROOT / "train" / "recipes", tmp_path / "train" / "recipes")
    (tmp_path / "my_parser.yaml").write_text(block.text, encoding="utf-8")
    recipe = load_recipe(tmp_path / "my_parser.yaml")
    assert (recipe.task, recipe.data.kind, recipe.data.validation) == ("parsing", "trees", "dev.mrg")


def test_the_sweep_is_one(tmp_path):
    (block,) = blocks_of("docs/sweeps.md", "yaml")
    shutil.copytree(ROOT / "train", tmp_path / "train")
    path = tmp_path / "train" / "sweeps" / "mine.yaml"
    path.write_text(block.text, encoding="utf-8")
    sweep, runs = load_sweep(path)
    assert (next(iter(sweep.rows)), len(runs)) == ("dropout10", 6)
