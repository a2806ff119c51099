"""What is wrong with a recipe is told in one line."""

import pytest
import yaml

from tests.recipe.recipes import ALL_KEYS, DEMO, SMALLEST, refusal
from tf_transformer.recipe import load_recipe


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", "holds [a, b]"),
        ("just text", "holds just text"),
        ("name: x\ndata: a: b\n", "line 2: "),
        ("name: x\n\tseed: 1\n", "line 2: "),
        ("name: x\nseed: [1\n", "not valid YAML"),
        ("name: x\n---\nname: y\n", "line 2: "),
        ("name: x\nseed: 1\nname: y\n", "line 3: not valid YAML: name was already given on line 1"),
        (
            "data:\n  kind: demo\n  kind: tsv\n",
            "line 3: not valid YAML: kind was already given on line 2",
        ),
        ("name: x\n? [a]\n: b\n", "line 2: "),
        ("name: 2024-13-45\n", "not valid YAML: month must be"),
        (b"name: \xff\n", "byte 7 is not UTF-8"),
        (b"name: a\x00b\n", "not valid YAML"),
        ("name: !!python/object/apply:os.getcwd []\n", "line 1: "),
        ("null: 1\n2: 3\n" + SMALLEST, "unknown key"),
        ("name: small\n", "data.kind is missing; it sets what the pairs are read from (and 7 more)"),
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
        ("extend", "did you mean extends?"),
        ("vocab_size", "did you mean tokenizer.vocab_size?"),
        (
            "xyzzy",
            "choose from name, seed, task, init_from, data, tokenizer, model, training, tensorboard, evaluation, "
            "extends",
        ),
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
        ("training=3", "training is a section; set one of steps, schedule, warmup_steps"),
        ("foo.bar=3", "unknown key foo.bar; choose from name"),
        ("extends=base.yaml", "extends can't be overridden"),
        ("training.steps=[", "line 1: not valid YAML"),
        ("training.steps={a: 1, a: 2}", "a was already given on line 1"),
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
    "text": "name init_from data.root data.dataset data.source_language data.target_language data.train "
    "data.validation data.test data.prepared",
    "whole": "seed data.max_length data.max_ratio data.batch_tokens tokenizer.vocab_size "
    "model.num_layers model.decoder_layers model.d_model model.num_heads model.dff model.key_dim model.value_dim "
    "model.window model.max_length training.steps training.warmup_steps training.learning_rate "
    "training.learning_rate_scale training.weight_decay training.clip_norm "
    "training.r_drop training.alignment_weight training.gradient_accumulation training.parallel_parts "
    "training.steps_per_execution "
    "training.validate_every training.keep_checkpoints training.average_checkpoints training.save_every_seconds "
    "training.early_stopping training.sample_translations tensorboard.attention tensorboard.bleu tensorboard.profile "
    "evaluation.batch_size evaluation.beam_size evaluation.alpha evaluation.length_offset evaluation.extra_length "
    "evaluation.no_repeat_ngram_size",
    "point": "data.placeholders model.dropout_rate model.attention_dropout_rate model.activation_dropout_rate "
    "training.learning_rate training.learning_rate_scale training.weight_decay training.clip_norm training.ema "
    "training.label_smoothing training.save_every_seconds "
    "training.r_drop training.alignment_weight evaluation.alpha evaluation.length_offset model.norm_epsilon",
    "truth": "tokenizer.joint tokenizer.keep model.norm_first training.jit_compile tensorboard.histograms "
    "tensorboard.graph tensorboard.embeddings evaluation.lowercase evaluation.grammar model.scale_embeddings "
    "model.output_bias",
    "list": "",
    "mapping": "",
}
TFDS = ["data.kind=tfds", "data.dataset=x", "data.max_length=1"]
PARSING = ["task=parsing", "tokenizer.joint=false", "model.share_embeddings=target"]
TREES = [*PARSING, "data.kind=trees", "data.train=train.mrg", "data.validation=dev.mrg", "data.test=null"]
FITTING = ["model.d_model=6", "model.num_heads=3", "model.position=learned"]
FITTING += ["training.steps=9", "training.validate_every=3"]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The demo's recipe without its comments, which most of the time to read it goes to."""
    path = tmp_path_factory.mktemp("demo") / "demo.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(DEMO.read_text(encoding="utf-8"))))
    return path


@pytest.mark.parametrize("key", sorted(ALL_KEYS))
@pytest.mark.parametrize("kind", VALUES)
def test_types_are_strict(demo, key, kind):
    overrides = [*TFDS, *FITTING, f"{key}={VALUES[kind]}"]
    if key == "training.jit_compile":
        overrides += ["training.distribution=single"]
    if key == "training.learning_rate":  # the others are told that this one is missing
        overrides += ["training.schedule=cosine", "training.warmup_steps=1", "training.learning_rate_scale=1.0"]
    if key in RIGHT[kind].split():
        section, _, leaf = key.rpartition(".")
        recipe = load_recipe(demo, overrides)
        assert getattr(getattr(recipe, section) if section else recipe, leaf) == yaml.safe_load(VALUES[kind])
    else:
        refused = refusal(demo, *overrides).removeprefix(f"--set {key}={VALUES[kind]}: {key}")
        assert refused.startswith((" is ", ".0 is "))  # the second of a list's first element


# A cosine that fits the demo's recipe.
COSINE = ["training.schedule=cosine", "training.learning_rate=0.001", "training.learning_rate_scale=1.0"]


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
        ("task=tagging", "task is tagging; it must be 'translation' or 'parsing'"),
        ("evaluation.grammar=false", "it must be true, since task translation has no grammar"),
        ("data.kind=csv", "data.kind is csv; it must be 'demo', 'files', 'tsv', 'tfds', 'trees' or 'none'"),
        ("data.target_language=no", "data.target_language is false; it must be text; put it in quotes"),
        ("data.source_language=''", "data.source_language is ''; it must not be empty"),
        ("data.max_ratio=0.5", "greater than or equal to 1"),
        ("data.placeholders=1.5", "less than or equal to 1"),
        ("data.root=x", "data.root is x; for kind demo, which reads no files, it must be null"),
        ("data.dataset=x", "data.dataset is x; for kind demo it must be null"),
        ("data.train=training", "data.train is training; for kind demo it must be one of train"),
        ("tokenizer.kind=char", "'bpe', 'unigram', 'wordpiece' or 'marian'"),
        ("model.num_heads=7", "model.num_heads is 7; it must divide d_model, 128"),
        ("model.dropout_rate=1.0", "less than 1"),
        ("model.dropout_rate=-0.1", "greater than or equal to 0"),
        ("model.dropout_rate=.nan", "finite number"),
        ("model.d_model=0", "greater than or equal to 1"),
        ("model.preset=bsae", "model.preset is bsae; did you mean base?"),
        ("training.learning_rate_scale=0", "greater than 0"),
        ("training.learning_rate_scale=1e-4", "with a point before any exponent (1.0e-4)"),
        ("training.steps=3.0", "training.steps is 3.0; it must be a whole number"),
        ("model.attention_dropout_rate=1.0", "less than 1"),
        ("model.activation_dropout_rate=-0.5", "greater than or equal to 0"),
        ("training.schedule=linear", "'transformer', 'inverse_sqrt' or 'cosine'"),
        ("training.learning_rate=0.001", "schedule transformer has its own: set learning_rate_scale, or use"),
        ("training.learning_rate=0", "greater than 0"),
        ("training.weight_decay=-0.01", "greater than or equal to 0"),
        ("training.clip_norm=0", "greater than 0"),
        ("training.ema=0.0", "greater than 0"),
        ("training.ema=1.0", "less than 1"),
        ("training.r_drop=-1.0", "greater than or equal to 0"),
        ("training.gradient_accumulation=0", "greater than or equal to 1"),
        ("training.gradient_accumulation=33", "at most 32: each part needs a row, and data.batch_tokens, 2048, has"),
        ("training.parallel_parts=0", "greater than or equal to 1"),
        ("training.parallel_parts=33", "training.parallel_parts is 33; it must be at most 32: each part needs a row"),
        ("training.precision=float16", "'float32', 'mixed_bfloat16' or 'mixed_float16'"),
        ("training.jit_compile=true", "which needs distribution: single"),
        ("training.steps_per_execution=0", "greater than or equal to 1"),
        ("training.steps_per_execution=3", "it must divide steps, 700"),
        ("training.steps_per_execution=700", "it must divide validate_every, 140"),
        ("training.average_checkpoints=-1", "greater than or equal to 0"),
        ("training.average_checkpoints=6", "it must be at most keep_checkpoints, 5"),
        ("training.early_stopping=0", "greater than or equal to 1"),
        ("training.distribution=tpu", "'mirrored' or 'single'"),
        ("evaluation.beam_size=0", "greater than or equal to 1"),
        ("evaluation.alpha=-0.1", "greater than or equal to 0"),
        ("evaluation.alpha=.nan", "finite number"),
        ("evaluation.alpha=1000.0", "less than or equal to 10"),
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
        (
            [*TFDS, "data.invalid_utf8=skip"],
            "data.invalid_utf8 is 'skip', which kind tfds does not support; set it to 'error'",
        ),
        (["data.kind=tfds", "data.train=3"], "data.train is 3; for kind tfds it must be the name"),
        ([*TREES, "task=translation"], "data.kind is trees, which needs task: parsing"),
        ([*TREES, "data.train=[a, b]"], "data.train is [a, b]; for kind trees it must be the path of one treebank"),
        ([*TREES, "data.damaged=skip"], "data.damaged is 'skip', but with kind trees a tree may take several"),
        ([*PARSING, "data.placeholders=0.5"], "data.placeholders is 0.5; for task parsing it must be 0"),
        (
            ["tokenizer.kind=wordpiece", "data.placeholders=0.5"],
            "it must be 0 with tokenizer.kind: wordpiece; or use bpe",
        ),
        ([*PARSING, *TFDS], "data.kind is tfds; for task parsing it must be trees, or demo"),
        ([*PARSING, "tokenizer.joint=true"], "tokenizer.joint is true; for task parsing it must be false: trees"),
        ([*PARSING, "model.share_embeddings=all"], "model.share_embeddings is all; for task parsing it must be target"),
        ([*PARSING, "evaluation.lowercase=true"], "evaluation.lowercase is true; for task parsing it must be false"),
        (
            [*PARSING, "evaluation.no_repeat_ngram_size=3"],
            "evaluation.no_repeat_ngram_size is 3; for task parsing it must be 0",
        ),
        ([*PARSING, "evaluation.tokenize=none"], "evaluation.tokenize is none; for task parsing it must be left out"),
        (["data.kind=csv", "training.steps=x", "seed=x"], "seed is x; it must be a whole number"),
        (["training.schedule=cosine"], "training.learning_rate is missing; schedule cosine needs it: the peak rate"),
        (["training.schedule=inverse_sqrt"], "training.learning_rate is missing; schedule inverse_sqrt needs it"),
        (
            ["training.schedule=cosine", "training.learning_rate=0.001"],
            "training.learning_rate_scale is 0.5; for schedule cosine it must be 1.0, since learning_rate gives",
        ),
        (
            [*COSINE, "training.warmup_steps=700"],
            "training.warmup_steps is 700; for schedule cosine it must be less than steps, 700",
        ),
        (["training.keep_checkpoints=2", "training.average_checkpoints=3"], "at most keep_checkpoints, 2"),
        (
            ["data.batch_tokens=640", "training.gradient_accumulation=11"],
            "training.gradient_accumulation is 11; it must be at most 10: each part needs a row, and "
            "data.batch_tokens, 640, has room for 10 of data.max_length",
        ),
        (
            ["training.gradient_accumulation=3", "training.parallel_parts=11"],
            "training.gradient_accumulation times training.parallel_parts is 33; it must be at most 32: each part",
        ),
        (
            ["training.jit_compile=true", "training.distribution=single", "training.parallel_parts=2"],
            "training.parallel_parts is 2; with jit_compile it must be 1, since XLA divides the work "
            "among the cores itself",
        ),
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
        [*COSINE, "training.warmup_steps=699"],
        ["training.schedule=inverse_sqrt", *COSINE[1:], "training.warmup_steps=1000"],
        ["data.batch_tokens=640", "training.gradient_accumulation=10"],
        ["training.gradient_accumulation=4", "training.parallel_parts=8"],
        ["training.jit_compile=true", "training.distribution=single"],
        ["training.steps_per_execution=140"],
        ["training.average_checkpoints=5"],
        ["data.kind=tsv", "data.train=a", "data.validation=b", "data.test=null", "data.root=x"],
        ["data.kind=tfds", "data.dataset=wmt14_translate/de-en", "data.train='train[:9%]'"],
        TREES,
        [*PARSING, "evaluation.grammar=false", "model.share_embeddings=none"],
    ],
)
def test_values_that_go_together(overrides):
    load_recipe(DEMO, overrides)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("tokenizer.keep=false", "tokenizer.keep is false, which needs init_from"),
        (
            "evaluation.also={news: a.en}",
            r"evaluation.also is {news: a.en}; it must be a mapping of names to sets, each",
        ),
        ("evaluation.also={news: [a, b, c]}", "two paths, [source, reference]"),
        ("evaluation.also={test: [a, b]}", "evaluation.also has a set named test, which is the name of data.test"),
        ("evaluation.also={news: [a, 1]}", "evaluation.also is {news: [a, 1]}; it must be a mapping of names to sets"),
        ("training.freeze=encoder", "training.freeze is encoder; it must be a list, in brackets: [one, two]"),
    ],
)
def test_what_goes_with_fine_tuning(override, told):
    assert told in refusal(DEMO, override)


def test_a_parser_s_other_sets_are_treebanks():
    given = [*TREES, *PARSING]
    assert load_recipe(DEMO, [*given, "evaluation.also={news: news.mrg}"]).evaluation.also == {"news": "news.mrg"}
    assert "the path of one treebank" in refusal(DEMO, *given, "evaluation.also={news: [a, b]}")
    told = refusal(DEMO, *given, "init_from=runs/x", "tokenizer.keep=false")
    assert "tokenizer.keep is false; for task parsing it must be true" in told
