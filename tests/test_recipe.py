import math
import re
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.errors import UserError
from tf_transformer.presets import PRESETS, count_parameters
from tf_transformer.recipe import Recipe, load_recipe, save_recipe

RECIPES = sorted((Path(__file__).resolve().parents[1] / "train" / "recipes").glob("*.yaml"))
DEMO = next(path for path in RECIPES if path.name == "demo.yaml")
MULTI30K = next(path for path in RECIPES if path.name == "multi30k_en_de.yaml")

SMALLEST = """
name: small
data: {kind: demo}
tokenizer: {vocab_size: 300}
model: {num_layers: 1, d_model: 8, num_heads: 2, dff: 16}
training: {steps: 10, validate_every: 5}
"""

# Every key with its default, as the recipe's design lists them.
DEFAULTS = yaml.safe_load("""
name: small
seed: 1
data: {kind: demo, root: null, dataset: null, source_language: en, target_language: de, train: train,
  validation: validation, test: test, invalid_utf8: error, max_length: 128, max_ratio: null,
  batch_tokens: 4096, shuffle_buffer: 100000}
tokenizer: {kind: bpe, vocab_size: 300, joint: true}
model: {preset: null, num_layers: 1, d_model: 8, num_heads: 2, dff: 16, dropout_rate: 0.1, key_dim: null,
  value_dim: null, norm_first: false, position: sinusoidal, max_length: 512, share_embeddings: all}
training: {steps: 10, warmup_steps: 4000, learning_rate_scale: 1.0, label_smoothing: 0.1, validate_every: 5,
  keep_checkpoints: 5, early_stopping: null, distribution: mirrored, sample_translations: 3}
evaluation: {lowercase: false, batch_size: 64, extra_length: 50}
""")


def dotted(mapping, prefix=""):
    """Lists the keys that hold values, with their sections before a dot."""
    for key, value in mapping.items():
        if isinstance(value, dict):
            yield from dotted(value, f"{key}.")
        else:
            yield prefix + key


ALL_KEYS = set(dotted(DEFAULTS))


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "x.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refusal(path, *overrides):
    with pytest.raises(UserError) as caught:
        load_recipe(path, overrides)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


# --- the project's recipes ------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_project_recipe_loads_under_its_files_name(path):
    assert load_recipe(path).name == path.stem


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_project_recipe_has_every_key_with_a_comment(path):
    text = path.read_text(encoding="utf-8")
    assert set(dotted(yaml.safe_load(text))) == ALL_KEYS
    lines = ["", *text.splitlines()]
    bare = [
        line
        for above, line in pairwise(lines)
        if re.match(r" *\w+:", line) and " # " not in line and not above.lstrip().startswith("#")
    ]
    assert bare == []


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_peak_learning_rate_that_a_comment_tells_is_right(path):
    told = float(re.search(r"the peak here is ([0-9.]+[0-9])", path.read_text(encoding="utf-8")).group(1))
    recipe = load_recipe(path)
    training = recipe.training
    peak = training.learning_rate_scale / math.sqrt(recipe.model.d_model * training.warmup_steps)
    assert peak == pytest.approx(told, rel=0.01)


def test_multi30k_model_is_small():
    assert count_parameters(**load_recipe(MULTI30K).model.arguments(6000, 6000)) <= 6_000_000


def test_multi30k_names_the_files_there_are(shared_data):
    data = load_recipe(MULTI30K, [f"data.root={shared_data / 'multi30k'}"]).data
    names = [name for pair in (data.train, data.validation, data.test) for name in pair]
    assert len(names) == 6
    assert all((Path(data.root) / name).is_file() for name in names)


# --- defaults, presets, overrides -----------------------------------------------------------------


def test_defaults(write):
    assert load_recipe(write(SMALLEST)).model_dump() == DEFAULTS


def test_a_recipe_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        load_recipe(DEMO).training.steps = 1


def test_model_arguments_are_those_that_count_parameters_takes():
    arguments = load_recipe(DEMO).model.arguments(1000, 900)
    assert (arguments.pop("input_vocab_size"), arguments.pop("target_vocab_size")) == (1000, 900)
    assert set(arguments) == set(DEFAULTS["model"]) - {"preset"}


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


# --- round trip -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
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


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", "holds [a, b]"),
        ("just text", "holds just text"),
        ("name: x\ndata: a: b\n", "line 2: "),
        ("name: x\n\tseed: 1\n", "line 2: "),
        ("name: x\nseed: [1\n", "not a recipe's YAML"),
        ("name: x\n---\nname: y\n", "line 2: "),
        ("name: x\nseed: 1\nname: y\n", "line 3: not a recipe's YAML: name was given on line 1 already"),
        (
            "data:\n  kind: demo\n  kind: tsv\n",
            "line 3: not a recipe's YAML: kind was given on line 2 already",
        ),
        ("name: x\n? [a]\n: b\n", "line 2: "),
        ("name: 2024-13-45\n", "not a recipe's YAML: month must be"),
        (b"name: \xff\n", "byte 7 is not UTF-8"),
        (b"name: a\x00b\n", "not a recipe's YAML"),
        ("name: !!python/object/apply:os.getcwd []\n", "line 1: "),
        ("null: 1\n2: 3\n" + SMALLEST, "unknown key"),
        ("name: small\n", "data.kind is missing; it tells what the pairs are read from (and 7 more)"),
        (SMALLEST.replace("data: {kind: demo}", "data: demo"), "data is demo; it must be a section"),
        (SMALLEST.replace("data: {kind: demo}", "data: &a [*a]"), "it must be a section"),
        (SMALLEST.replace("{kind: demo}", "{kind: files, train: &a [*a], validation: b}"), "data.train is"),
    ],
)
def test_what_is_no_recipe_is_told_in_one_line(write, content, told):
    path = write(content)
    message = refusal(path)
    assert message.startswith(f"{path}: ")
    assert told in message


def test_missing_file_and_folder(tmp_path):
    assert refusal(tmp_path / "no.yaml").startswith(f"{tmp_path / 'no.yaml'}: there is no such recipe")
    assert refusal(tmp_path) == f"{tmp_path}: the recipe can't be read: Is a directory"


def test_a_byte_order_mark_does_no_harm(write):
    assert load_recipe(write(b"\xef\xbb\xbf" + SMALLEST.encode())).name == "small"


@pytest.mark.parametrize(
    ("section", "given", "nearest"),
    [
        ("training", "warmpu", "training.warmup_steps"),
        ("training", "step", "training.steps"),
        ("training", "Label_Smoothing", "training.label_smoothing"),
        ("training", "dropout_rate", "model.dropout_rate"),
        ("training", "max_ratio", "data.max_ratio"),
        ("data", "batch_size", "evaluation.batch_size"),
        ("model", "heads", "model.num_heads"),
        ("model", "layers", "model.num_layers"),
        ("evaluation", "lower_case", "evaluation.lowercase"),
        ("tokenizer", "vocabulary_size", "tokenizer.vocab_size"),
    ],
)
def test_unknown_key_names_the_nearest(write, section, given, nearest):
    raw = yaml.safe_load(SMALLEST)
    raw.setdefault(section, {})[given] = 1
    path = write(yaml.safe_dump(raw))
    assert refusal(path) == f"{path}: unknown key {section}.{given}; did you mean {nearest}?"
    override = f"{section}.{given}=1"
    assert refusal(DEMO, override) == (f"--set {override}: unknown key {section}.{given}; did you mean {nearest}?")


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("trainning", "did you mean training?"),
        ("seeds", "did you mean seed?"),
        ("vocab_size", "did you mean tokenizer.vocab_size?"),
        ("xyzzy", "choose from name, seed, data, tokenizer, model, training, evaluation"),
    ],
)
def test_unknown_key_at_the_top(write, given, advice):
    path = write(f"{SMALLEST}{given}: 1\n")
    assert refusal(path) == f"{path}: unknown key {given}; {advice}"


def test_an_unknown_key_is_told_before_the_one_it_leaves_missing(write):
    path = write(SMALLEST.replace("steps:", "stpes:"))
    assert refusal(path) == f"{path}: unknown key training.stpes; did you mean training.steps? (and 1 more)"


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("training.steps", "must be key=value"),
        ("", "must be key=value"),
        ("=3", "must be key=value"),
        ("training=3", "training is a section; set one of steps, warmup_steps"),
        ("foo.bar=3", "unknown key foo.bar; choose from name"),
        ("training.steps=[", "line 1: not a recipe's YAML"),
        ("training.steps={a: 1, a: 2}", "a was given on line 1 already"),
    ],
)
def test_malformed_override(override, told):
    message = refusal(DEMO, override)
    assert message.startswith(f"--set {override}: ")
    assert told in message


def test_a_line_break_in_an_override_does_not_break_the_line():
    assert "name is" in refusal(DEMO, "name=a\u2028b") and "name" in refusal(DEMO, 'name="a\\nb\\x1b"')


# One right value of each type is held against every key's: what is not listed as right must be refused.
VALUES = {"text": "'3'", "whole": "3", "point": "0.5", "truth": "true", "list": "[3]", "mapping": "{a: 3}"}
RIGHT = {
    "text": "name data.root data.dataset data.source_language data.target_language data.train "
    "data.validation data.test",
    "whole": "seed data.max_length data.max_ratio data.batch_tokens data.shuffle_buffer tokenizer.vocab_size "
    "model.num_layers model.d_model model.num_heads model.dff model.key_dim model.value_dim model.max_length "
    "training.steps training.warmup_steps training.learning_rate_scale training.validate_every "
    "training.keep_checkpoints training.early_stopping training.sample_translations evaluation.batch_size "
    "evaluation.extra_length",
    "point": "model.dropout_rate training.learning_rate_scale training.label_smoothing",
    "truth": "tokenizer.joint model.norm_first evaluation.lowercase",
    "list": "",
    "mapping": "",
}
TFDS = ["data.kind=tfds", "data.dataset=x", "data.max_length=1", "training.validate_every=1"]
FITTING = ["model.d_model=6", "model.num_heads=3", "model.position=learned"]


@pytest.mark.parametrize("key", sorted(ALL_KEYS))
@pytest.mark.parametrize("kind", VALUES)
def test_types_are_strict(key, kind):
    overrides = [*TFDS, *FITTING, f"{key}={VALUES[kind]}"]
    if key in RIGHT[kind].split():
        section, _, leaf = key.rpartition(".")
        recipe = load_recipe(DEMO, overrides)
        assert getattr(getattr(recipe, section) if section else recipe, leaf) == yaml.safe_load(VALUES[kind])
    else:
        assert refusal(DEMO, *overrides).startswith(f"--set {key}={VALUES[kind]}: {key} is ")


def test_an_int_is_taken_for_a_float_and_becomes_one():
    assert type(load_recipe(DEMO, ["training.learning_rate_scale=2"]).training.learning_rate_scale) is float


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("seed=-1", "seed is -1; it must be greater than or equal to 0"),
        ("seed=4294967296", "less than 4294967296"),
        ("name=a/b", "name is a/b; it must be letters, digits"),
        ("name=..", "name is ..; it must be letters, digits"),
        ("name=a..b", "single dots"),
        ("name=-rf", "letters, digits"),
        ("name=", "name is null; it must be text"),
        ("name=2024-01-01", "name is 2024-01-01; it must be text; put it in quotes"),
        ("name=größe", "letters, digits"),
        ("data.kind=csv", "data.kind is csv; it must be 'demo', 'files', 'tsv' or 'tfds'"),
        ("data.target_language=no", "data.target_language is false; it must be text; put it in quotes"),
        ("data.source_language=''", "data.source_language is ''; it must not be empty"),
        ("data.max_ratio=0.5", "greater than or equal to 1"),
        ("data.root=x", "data.root is x; for kind demo, which reads no files, it must be null"),
        ("data.dataset=x", "data.dataset is x; for kind demo it must be null"),
        ("data.train=training", "data.train is training; for kind demo it must be one of train"),
        ("tokenizer.kind=char", "'bpe', 'unigram' or 'wordpiece'"),
        ("model.num_heads=7", "model.num_heads is 7; it must divide d_model, 128"),
        ("model.dropout_rate=1.0", "less than 1"),
        ("model.dropout_rate=-0.1", "greater than or equal to 0"),
        ("model.dropout_rate=.nan", "finite number"),
        ("model.d_model=0", "greater than or equal to 1"),
        ("model.preset=bsae", "model.preset is bsae; did you mean base?"),
        ("training.learning_rate_scale=0", "greater than 0"),
        ("training.learning_rate_scale=1e-4", "with a point before any exponent (1.0e-4)"),
        ("training.steps=3.0", "training.steps is 3.0; it must be a whole number"),
        ("training.early_stopping=0", "greater than or equal to 1"),
        ("training.distribution=tpu", "'mirrored' or 'single'"),
    ],
)  # fmt: skip
def test_wrong_value(override, told):
    message = refusal(DEMO, override)
    assert message.startswith(f"--set {override}: {override.partition('=')[0]} is ")
    assert told in message


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["tokenizer.joint=false"], "model.share_embeddings is all, which needs tokenizer.joint: true"),
        (["data.batch_tokens=63"], "data.max_length is 64; it must be at most data.batch_tokens, 63"),
        (["data.max_length=513"], "data.max_length is 513; it must be at most model.max_length, 512"),
        (["model.max_length=63"], "data.max_length is 64; it must be at most model.max_length, 63"),
        (["model.d_model=129", "model.num_heads=3"], "model.d_model is 129; for sinusoidal positions"),
        (["model.num_heads=7", "model.key_dim=8"], "model.num_heads is 7; it must divide d_model"),
        (["data.kind=files"], "data.train is train; for kind files it must be two paths, [source, target]"),
        (["data.kind=files", "data.train=[a, b, c]"], "data.train is [a, b, c]; for kind files"),
        (["data.kind=files", "data.train=[a, 3]"], "data.train is [a, 3]; for kind files"),
        (["data.kind=files", "data.train=[a, b]"], "data.validation is validation; for kind files"),
        (["data.kind=files", "data.train=null"], "data.train is missing; for kind files it must"),
        (["data.kind=tsv", "data.train=[a, b]"], "data.train is [a, b]; for kind tsv it must be one path"),
        (["data.kind=tsv", "data.validation="], "data.validation is missing; for kind tsv it must"),
        (["data.kind=tsv", "data.dataset=x"], "data.dataset is x; for kind tsv it must be null"),
        (["data.kind=tfds"], "data.dataset is missing; for kind tfds it is a name such"),
        (["data.kind=tfds", "data.train=3"], "data.train is 3; for kind tfds it must be the name"),
        (["data.kind=csv", "training.steps=x", "seed=x"], "seed is x; it must be a whole number"),
    ],
)  # fmt: skip
def test_values_that_do_not_go_together(overrides, told):
    assert told in refusal(DEMO, *overrides)


def test_several_mistakes_are_counted():
    assert refusal(DEMO, "data.kind=csv", "training.steps=x", "seed=x").endswith("(and 2 more)")


@pytest.mark.parametrize(
    "overrides",
    [
        ["tokenizer.joint=false", "model.share_embeddings=target"],
        ["data.max_length=512"],
        ["model.d_model=129", "model.num_heads=3", "model.position=learned"],
        ["model.num_heads=7", "model.key_dim=8", "model.value_dim=8"],
        ["training.validate_every=1200"],
        ["data.kind=tsv", "data.train=a", "data.validation=b", "data.test=null", "data.root=x"],
        ["data.kind=tfds", "data.dataset=wmt14_translate/de-en", "data.train='train[:9%]'"],
    ],
)
def test_values_that_go_together(overrides):
    load_recipe(DEMO, overrides)
