"""The recipes in train/recipes train, with nothing but sizes replaced: each for two steps, some from data to scores."""

import gzip
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.recipe.recipes import FOLDER, RECIPES, recipe_id
from tests.tiny_run import PAIRS, write_pairs
from tf_transformer import experiment, load_model, make_batches, train_tokenizers
from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.recipe import Recipe, load_recipe

pytestmark = pytest.mark.usefixtures("eager")

# The paper's recipes work on a batch in 8 parts, here on two devices: 16 rows of 32 tokens at the least.
SIZES = {
    "data.max_length": 32,
    "data.batch_tokens": 512,
    "model.num_layers": 1,
    "model.d_model": 32,
    "model.dff": 16,
    "training.steps": 2,
    "training.warmup_steps": 1,
    "training.validate_every": 2,
    "training.sample_translations": 1,
    "tensorboard.attention": 0,
    "tensorboard.bleu": 0,
    "evaluation.beam_size": 1,
    "evaluation.extra_length": 0,
}
VOCAB_SIZES = {"bpe": 400, "wordpiece": 80}
# The slow ones differ from one of these, or from one that a whole run below has, in a number only.
MARKS = {"tatoeba_en_de": ()} | dict.fromkeys(
    ["multi30k_en_de_recurrent", "table3/a_h1", "table3/e_learned_positions"], pytest.mark.thorough
)


TREES = """
( (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .)) )
( (S (NP-SBJ-1 (NNS Dogs)) (VP (VBP want) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB bark))))) (. .)) )
( (SBARQ (WHNP-1 (WP What)) (SQ (VBZ does) (NP-SBJ (PRP it)) (VP (VB see) (NP (-NONE- *T*-1)))) (. ?)) )
"""


def shrunk(path, **replaced) -> Recipe:
    sizes = {**SIZES, "tokenizer.vocab_size": VOCAB_SIZES[load_recipe(path).tokenizer.kind], **replaced}
    return load_recipe(path, [f"{key}={value}" for key, value in sizes.items()])


# --- two steps of each ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batches():
    """One of each kind of tokens, whose rows can be shared out among 8 parts."""
    options = {"batch_tokens": 512, "max_length": 32, "row_multiple": 8, "repeat": True}
    return {
        kind: next(iter(make_batches(PAIRS, train_tokenizers(PAIRS, kind, size), **options)))
        for kind, size in VOCAB_SIZES.items()
    }


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=MARKS.get(recipe_id(path), pytest.mark.slow)) for path in RECIPES],
    ids=recipe_id,
)
def test_two_steps_move_every_weight(batches, path):
    recipe = shrunk(path)
    assert 8 % recipe.training.gradient_accumulation == 0
    keras.utils.set_random_seed(recipe.seed)
    size = recipe.tokenizer.vocab_size
    model = MODEL_KINDS[recipe.model.kind].make(**recipe.model.arguments(size, size))
    model.build(((None, None), (None, None)))
    experiment.compile_model(model, recipe)
    before = [variable.numpy() for variable in model.trainable_variables]
    twice = tf.data.Dataset.from_tensors(batches[recipe.tokenizer.kind]).repeat(2)
    history = model.fit(twice, verbose=0, shuffle=False).history
    assert math.isfinite(history["loss"][0]) and 1 < history["perplexity"][0] < 10_000
    assert int(model.optimizer.iterations) == 2
    for old, variable in zip(before, model.trainable_variables, strict=True):
        # What is added to all logits of a softmax alike has no gradient.
        if not variable.path.endswith("key/bias"):
            assert np.abs(variable.numpy() - old).max() > 0, variable.path


# --- from data to scores --------------------------------------------------------------------------


def train_and_check(recipe, folder) -> None:
    run = experiment.train(recipe, folder / "run")
    assert load_recipe(run.recipe) == recipe
    assert [path.name for path in run.step_checkpoints()] == ["step-00000002.keras"]
    scores = json.loads(run.scores.read_text())
    assert scores["sentences"] == len(PAIRS)
    assert math.isfinite(scores["loss"]) and 1 < scores["perplexity"] < 10_000
    size = recipe.tokenizer.vocab_size
    arguments, config = recipe.model.arguments(size, size), load_model(run.path).get_config()
    assert {key: config[key] for key in arguments} == arguments


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("wmt14_en_de_big", marks=pytest.mark.thorough),
        pytest.param("wmt14_en_fr_base", marks=pytest.mark.slow),
    ],
)
def test_the_paper_s_recipes_train(tmp_path, name):
    """On WMT 2014 as TensorFlow Datasets gives it, with a few other sentences in it."""
    import tensorflow_datasets as tfds

    def as_dataset(builder, *args, **kwargs):
        languages = list(builder.info.features)
        examples = [{language: pair[language != "en"] for language in languages} for pair in PAIRS]
        signature = {language: tf.TensorSpec((), tf.string) for language in languages}
        return tf.data.Dataset.from_generator(lambda: iter(examples), output_signature=signature)

    with tfds.testing.mock_data(as_dataset_fn=as_dataset):
        train_and_check(shrunk(FOLDER / f"{name}.yaml", **{"data.root": tmp_path}), tmp_path)


@pytest.mark.slow
def test_the_paper_s_recipe_trains_on_a_folder_of_one_s_own(tmp_path):
    """Through the layout of `tfds.TranslateFolder`, with nothing put in its place."""
    paths = write_pairs(tmp_path)
    for split in ("train", "validation", "test"):
        for language, path in zip(("en", "de"), paths, strict=True):
            (tmp_path / f"{language}.{split}.txt").write_bytes(path.read_bytes())
    replaced = {"data.dataset": "translate_folder", "data.root": tmp_path}
    train_and_check(shrunk(FOLDER / "wmt14_en_de_base.yaml", **replaced), tmp_path)


@pytest.mark.parametrize(
    "name",
    [pytest.param("parsing_wsj", marks=pytest.mark.thorough), pytest.param("parsing_wsj_semi", marks=pytest.mark.slow)],
)
def test_the_paper_s_parsers_train(tmp_path, name):
    """A beam of 21, with more room than the shrunk model has positions for."""
    replaced = {"data.root": tmp_path, "model.max_length": 32, "tokenizer.vocab_size": 300}
    replaced |= {"evaluation.beam_size": 21, "evaluation.extra_length": 300}
    recipe = shrunk(FOLDER / f"{name}.yaml", **replaced)
    for file in (recipe.data.train, recipe.data.validation, recipe.data.test):
        text = (TREES * 4).encode()  # as many rows as a batch is worked on in parts
        (tmp_path / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    run = experiment.train(recipe, tmp_path / "run")
    scores = json.loads(run.scores.read_text())
    assert (scores["sentences"], scores["without_parse"], scores["mended"]) == (12, 0, 0)
    assert 0 <= scores["f1"] <= 100 and 1 < scores["perplexity"] < 10_000


@pytest.mark.slow
def test_a_recipe_of_files_trains(tmp_path):
    recipe = shrunk(FOLDER / "multi30k_en_de.yaml", **{"data.root": tmp_path})
    paths = write_pairs(tmp_path)
    for names in (recipe.data.train, recipe.data.validation, recipe.data.test):
        for path, name in zip(paths, names, strict=True):
            (tmp_path / name).write_bytes(path.read_bytes())
    train_and_check(recipe, tmp_path)
