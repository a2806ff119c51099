"""The recipes in train/recipes: complete, commented, and the paper's."""

import math
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.models.test_presets import OTHER_RECIPES
from tests.recipe.recipes import ALL_KEYS, BASE, FOLDER, MULTI30K, RECIPES, dotted, recipe_id
from tf_transformer.models.presets import PRESETS
from tf_transformer.recipe import load_recipe

# What each row of Table 3 changes in the base model, and nothing else.
ROWS = {
    "a_h1": {"model.num_heads": 1},
    "a_h4": {"model.num_heads": 4},
    "a_h16": {"model.num_heads": 16},
    "a_h32": {"model.num_heads": 32},
    "b_dk16": {"model.key_dim": 16},
    "b_dk32": {"model.key_dim": 32},
    "c_n2": {"model.num_layers": 2},
    "c_n4": {"model.num_layers": 4},
    "c_n8": {"model.num_layers": 8},
    "c_d256": {"model.d_model": 256},
    "c_d1024": {"model.d_model": 1024},
    "c_dff1024": {"model.dff": 1024},
    "c_dff4096": {"model.dff": 4096},
    "d_dropout0": {"model.dropout_rate": 0.0},
    "d_dropout20": {"model.dropout_rate": 0.2},
    "d_smoothing0": {"training.label_smoothing": 0.0},
    "d_smoothing20": {"training.label_smoothing": 0.2},
    "e_learned_positions": {"model.position": "learned"},
}
BIG = {
    "model.d_model": 1024,
    "model.num_heads": 16,
    "model.dff": 4096,
    "training.steps": 300_000,
    "training.validate_every": 600,
    "training.keep_checkpoints": 20,
    "training.average_checkpoints": 20,
}
FRENCH = {
    "data.dataset": "wmt14_translate/fr-en",
    "data.target_language": "fr",
    "tokenizer.kind": "wordpiece",
    "tokenizer.vocab_size": 32_000,
}
# Of each recipe, the one it extends and what it changes there.
CHANGES = {
    **{f"table3/{row}": ("wmt14_en_de_base", changes) for row, changes in ROWS.items()},
    "wmt14_en_de_big": ("wmt14_en_de_base", {**BIG, "model.dropout_rate": 0.3}),
    "wmt14_en_fr_base": ("wmt14_en_de_base", FRENCH),
    "wmt14_en_fr_big": ("wmt14_en_fr_base", BIG),
    "multi30k_en_de_tok": (
        "multi30k_en_de",
        {
            "data.root": "data/multi30k/tok",
            "data.max_length": 64,
            "tokenizer.vocab_size": 10_000,
            "model.dropout_rate": 0.3,
            "model.norm_first": True,
            "training.steps": 14_000,
            "training.schedule": "cosine",
            "training.learning_rate": 0.002,
            "training.learning_rate_scale": 1.0,
            "training.warmup_steps": 1000,
            "training.r_drop": 5.0,
            "training.validate_every": 350,
            "training.keep_checkpoints": 10,
            "training.average_checkpoints": 10,
            "evaluation.tokenize": "none",
            "evaluation.beam_size": 5,
            "evaluation.alpha": 1.0,
        },
    ),
    "multi30k_from_tatoeba": (
        "tatoeba_en_de",
        {
            "init_from": "runs/tatoeba_en_de",
            "data.root": "data",
            "data.train": ("multi30k/train.en", "multi30k/train.de"),
            "data.validation": ("multi30k/val.en", "multi30k/val.de"),
            "data.test": ("multi30k/test_2016_flickr.en", "multi30k/test_2016_flickr.de"),
            "data.batch_tokens": 2048,
            "model.dropout_rate": 0.2,
            "training.steps": 3000,
            "training.schedule": "inverse_sqrt",
            "training.warmup_steps": 200,
            "training.learning_rate": 0.0003,
            "training.validate_every": 100,
            "training.average_checkpoints": 0,
            "training.early_stopping": 5,
            "evaluation.also": {"tatoeba": ("tatoeba/test.en", "tatoeba/test.de")},
        },
    ),
    "multi30k_en_de_recurrent": (
        "multi30k_en_de_tok",
        {
            "model.kind": "recurrent",
            "training.steps": 6000,
            "training.warmup_steps": 500,
            "training.r_drop": 0.0,
            "training.validate_every": 250,
        },
    ),
    "parsing_demo": (
        "demo",
        {
            "task": "parsing",
            "data.max_length": 128,
            "tokenizer.vocab_size": 600,
            "tokenizer.joint": False,
            "model.norm_first": True,
            "model.dff": 256,
            "model.share_embeddings": "target",
            "training.steps": 800,
            "training.warmup_steps": 200,
            "training.validate_every": 100,
            "tensorboard.bleu": 100,
            "evaluation.alpha": 0.3,
            "evaluation.extra_length": 60,
        },
    ),
    # The sizes and the search of the paper's section 6.3.
    "parsing_wsj": (
        "wmt14_en_de_base",
        {
            "task": "parsing",
            "data.kind": "trees",
            "data.root": "data/wsj",
            "data.dataset": None,
            "data.train": "wsj_02-21.mrg",
            "data.validation": "wsj_22.mrg",
            "data.test": "wsj_23.mrg",
            "data.max_length": 512,
            "tokenizer.vocab_size": 16_000,
            "tokenizer.joint": False,
            "model.num_layers": 4,
            "model.d_model": 1024,
            "model.attention_dropout_rate": 0.1,
            "model.max_length": 1024,
            "model.share_embeddings": "target",
            "evaluation.batch_size": 16,
            "evaluation.beam_size": 21,
            "evaluation.alpha": 0.3,
            "evaluation.extra_length": 300,
        },
    ),
    "parsing_wsj_semi": (
        "parsing_wsj",
        {"data.root": "data/wsj_semi", "data.train": "train.mrg.gz", "tokenizer.vocab_size": 32_000},
    ),
    "tatoeba_en_de_small": (
        "tatoeba_en_de",
        {"model.num_layers": 4, "model.d_model": 128, "model.num_heads": 4, "model.dff": 256},
    ),
}
# The recipe of each of the paper's models.
OF_PRESET = {name: FOLDER / "table3" / f"{name.removeprefix('table3_')}.yaml" for name in PRESETS}
OF_PRESET |= {name: FOLDER / f"wmt14_en_de_{name}.yaml" for name in ("base", "big")}

COMPLETE = [path for path in RECIPES if "extends" not in yaml.safe_load(path.read_text(encoding="utf-8"))]


def flat(path):
    """A recipe's settings, all of them, by dotted key."""
    settings = {}
    for key, value in load_recipe(path).model_dump().items():
        settings |= {f"{key}.{leaf}": v for leaf, v in value.items()} if isinstance(value, dict) else {key: value}
    return settings


def bare_lines(path):
    """The lines of keys with no comment, neither on them nor above."""
    lines = ["", *path.read_text(encoding="utf-8").splitlines()]
    return [
        line
        for above, line in pairwise(lines)
        if re.match(r" *\w+:", line) and " # " not in line and not above.lstrip().startswith("#")
    ]


# --- as files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECIPES, ids=recipe_id)
def test_it_loads_under_its_files_name(path):
    assert load_recipe(path).name == recipe_id(path).replace("/", "_")


@pytest.mark.parametrize("path", COMPLETE, ids=recipe_id)
def test_one_that_extends_no_other_has_every_key_with_a_comment(path):
    assert bare_lines(path) == []
    assert set(dotted(yaml.safe_load(path.read_text(encoding="utf-8")))) == ALL_KEYS


@pytest.mark.parametrize("path", COMPLETE, ids=recipe_id)
def test_the_peak_learning_rate_that_a_comment_tells_is_right(path):
    told = re.search(r"the peak here is ([0-9.]+[0-9])", path.read_text(encoding="utf-8"))
    recipe = load_recipe(path)
    training = recipe.training
    peak = training.learning_rate_scale / math.sqrt(recipe.model.d_model * training.warmup_steps)
    assert (told is not None) == (training.schedule == "transformer")
    assert told is None or peak == pytest.approx(float(told[1]), rel=0.03)


def test_multi30k_names_the_files_there_are(shared_data):
    names_the_files_there_are(MULTI30K, shared_data / "multi30k")


def test_tatoeba_names_the_files_there_are(shared_data):
    names_the_files_there_are(FOLDER / "tatoeba_en_de.yaml", shared_data / "tatoeba")


def names_the_files_there_are(path, root):
    data = load_recipe(path, [f"data.root={root}"]).data
    names = [name for pair in (data.train, data.validation, data.test) for name in pair]
    assert len(names) == 6
    assert all((Path(data.root) / name).is_file() for name in names)


@pytest.mark.parametrize(
    ("name", "vocab_size", "millions"),
    [
        ("multi30k_en_de", 6000, 5.5),
        ("multi30k_en_de_tok", 10_000, 6.5),
        ("tatoeba_en_de", 8000, 6.0),
        ("tatoeba_en_de_small", 8000, 2.3),
    ],
)
def test_the_small_models_have_the_sizes_their_comments_tell(name, vocab_size, millions):
    path = FOLDER / f"{name}.yaml"
    recipe = load_recipe(path)
    assert recipe.tokenizer.vocab_size == vocab_size
    (count,) = (parameters for other, _, parameters in OTHER_RECIPES if other == name)  # the built model's
    assert round(count / 1e6, 1) == millions
    assert f"model of {millions} M parameters" in path.read_text(encoding="utf-8")


# --- the paper's ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHANGES)
def test_one_that_extends_another_differs_by_the_keys_of_its_row_only(name):
    extended, changes = CHANGES[name]
    path = FOLDER / f"{name}.yaml"
    assert flat(path) == flat(FOLDER / f"{extended}.yaml") | changes | {"name": name.replace("/", "_")}
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(dotted(written)) == set(changes) | {"name", "extends"}
    assert (path.parent / written["extends"]).resolve() == FOLDER / f"{extended}.yaml"


def test_table_3_has_a_recipe_for_each_row_and_no_other():
    assert {path.stem for path in (FOLDER / "table3").iterdir()} == set(ROWS)
    assert {f"table3_{row}" for row in ROWS} | {"base", "big"} == set(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_recipe_agrees_with_the_preset_of_its_name(name):
    recipe, preset = load_recipe(OF_PRESET[name]), PRESETS[name]
    arguments = recipe.model.arguments(37_000, 37_000)
    assert {key: arguments[key] for key in preset.model} == preset.model
    assert recipe.training.label_smoothing == preset.label_smoothing
    assert recipe.training.steps == preset.steps
    assert recipe.tokenizer.vocab_size == 37_000


def test_base_is_trained_as_the_paper_says():
    recipe = load_recipe(BASE)
    data, training, evaluation = recipe.data, recipe.training, recipe.evaluation
    assert (data.kind, data.dataset, data.source_language, data.target_language) == (
        "tfds",
        "wmt14_translate/de-en",
        "en",
        "de",
    )
    assert (recipe.tokenizer.kind, recipe.tokenizer.joint, data.batch_tokens) == ("bpe", True, 25_000)
    assert (training.schedule, training.warmup_steps, training.learning_rate_scale) == ("transformer", 4000, 1.0)
    assert (training.label_smoothing, training.average_checkpoints) == (0.1, 5)
    # Checkpoints 10 minutes apart, at 0.4 s an update (big: 1.0 s).
    assert training.validate_every * 0.4 == load_recipe(OF_PRESET["big"]).training.validate_every == 600
    assert (evaluation.beam_size, evaluation.alpha, evaluation.extra_length) == (4, 0.6, 50)


@pytest.mark.parametrize("row", ROWS)
def test_the_papers_figures_in_a_comment_are_right(row):
    preset = PRESETS[f"table3_{row}"]
    first = (FOLDER / "table3" / f"{row}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert f"row {row[0].upper()}: " in first
    assert f"perplexity {preset.perplexity:.2f}, BLEU {preset.bleu:.1f} (newstest2013)" in first
