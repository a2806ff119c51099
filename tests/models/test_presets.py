import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tf_transformer.errors import UserError
from tf_transformer.models.presets import PAPER_VOCAB_SIZE, PRESETS, get_preset
from tf_transformer.recipe import load_recipe

RECIPES = Path(__file__).parents[2] / "train" / "recipes"

EXACT_COUNTS = {
    "base": 63_082_496,
    "big": 214_245_376,
    "table3_b_dk16": 55_990_784,
    "table3_b_dk32": 58_354_688,
    "table3_c_n2": 33_656_832,
    "table3_c_n4": 48_369_664,
    "table3_c_n8": 77_795_328,
    "table3_c_d256": 26_834_944,
    "table3_c_d1024": 163_889_152,
    "table3_c_dff1024": 50_487_296,
    "table3_c_dff4096": 88_272_896,
}

# The paper's Table 3 as printed: N, d_model, d_ff, h, d_k, d_v, P_drop, eps_ls, steps, PPL, BLEU, millions.
# A dash is an empty cell: the base's value, or no count given.
TABLE_3 = """
base                        6  512 2048  8  64  64 0.1 0.1 100 4.92 25.8  65
table3_a_h1                 -    -    -  1 512 512   -   -   - 5.29 24.9   -
table3_a_h4                 -    -    -  4 128 128   -   -   - 5.00 25.5   -
table3_a_h16                -    -    - 16  32  32   -   -   - 4.91 25.8   -
table3_a_h32                -    -    - 32  16  16   -   -   - 5.01 25.4   -
table3_b_dk16               -    -    -  -  16   -   -   -   - 5.16 25.1  58
table3_b_dk32               -    -    -  -  32   -   -   -   - 5.01 25.4  60
table3_c_n2                 2    -    -  -   -   -   -   -   - 6.11 23.7  36
table3_c_n4                 4    -    -  -   -   -   -   -   - 5.19 25.3  50
table3_c_n8                 8    -    -  -   -   -   -   -   - 4.88 25.5  80
table3_c_d256               -  256    -  -  32  32   -   -   - 5.75 24.5  28
table3_c_d1024              - 1024    -  - 128 128   -   -   - 4.66 26.0 168
table3_c_dff1024            -    - 1024  -   -   -   -   -   - 5.12 25.4  53
table3_c_dff4096            -    - 4096  -   -   -   -   -   - 4.75 26.2  90
table3_d_dropout0           -    -    -  -   -   - 0.0   -   - 5.77 24.6   -
table3_d_dropout20          -    -    -  -   -   - 0.2   -   - 4.95 25.5   -
table3_d_smoothing0         -    -    -  -   -   -   - 0.0   - 4.67 25.3   -
table3_d_smoothing20        -    -    -  -   -   -   - 0.2   - 5.47 25.7   -
table3_e_learned_positions  -    -    -  -   -   -   -   -   - 4.92 25.7   -
big                         6 1024 4096 16   -   - 0.3   - 300 4.33 26.4 213
"""
TABLE_3_ROWS = [line.split() for line in TABLE_3.strip().splitlines()]


def exact_count(name):
    """A row without a count has the base's, but for the learned positions' two tables of 1,024."""
    learned = 2 * 1024 * 512 if name == "table3_e_learned_positions" else 0
    return EXACT_COUNTS.get(name, EXACT_COUNTS["base"]) + learned


def test_every_row_of_table_3_has_a_preset_and_no_other():
    assert {row[0] for row in TABLE_3_ROWS} == set(PRESETS)


@pytest.mark.parametrize("row", TABLE_3_ROWS, ids=lambda row: row[0])
def test_preset_agrees_with_table_3(row):
    base = TABLE_3_ROWS[0]
    # An empty cell is the base's, all but the last: where the paper gives no count, the base's is not meant.
    name, *cells = [base[i] if cell == "-" and i < 12 else cell for i, cell in enumerate(row)]
    preset = PRESETS[name]
    model = preset.model
    width = model["d_model"] // model["num_heads"]
    assert [model["num_layers"], model["d_model"], model["dff"], model["num_heads"]] == [int(c) for c in cells[:4]]
    assert [model["key_dim"] or width, model["value_dim"] or width] == [int(c) for c in cells[4:6]]
    assert [model["dropout_rate"], preset.label_smoothing] == [float(c) for c in cells[6:8]]
    assert preset.steps == int(cells[8]) * 1000
    assert [preset.perplexity, preset.bleu] == [float(c) for c in cells[9:11]]
    assert preset.paper_millions == (None if cells[11] == "-" else int(cells[11]))
    assert model["position"] == ("learned" if name == "table3_e_learned_positions" else "sinusoidal")
    assert model["share_embeddings"] == "all"


@pytest.mark.parametrize("name", PRESETS)
def test_exact_count(name):
    assert PRESETS[name].parameters == exact_count(name)


def test_exact_counts_lie_near_the_papers_rounded_ones():
    rounded = {name: p.paper_millions for name, p in PRESETS.items() if p.paper_millions is not None}
    assert set(rounded) == set(EXACT_COUNTS)
    for name, millions in rounded.items():
        assert -2e6 < millions * 1e6 - PRESETS[name].parameters < 4.2e6, name


@contextmanager
def no_weights():
    """Lets a model be built at any size without the memory for its weights: they are left without values."""
    import keras

    try:
        with keras.StatelessScope(initialize_variables=False):
            yield
    finally:
        keras.utils.clear_session(free_memory=False)  # or the next scope would give them values after all


def check_built(recipe, vocab_sizes, parameters):
    """Builds a recipe's model at full size; gives the shapes of its weights by path."""
    from tf_transformer.models.kinds import MODEL_KINDS

    settings = recipe.model
    with no_weights():
        model = MODEL_KINDS[settings.kind].make(**settings.arguments(*vocab_sizes))
        model.build(((None, None), (None, None)))
    assert model.count_params() == parameters
    return {weight.path.partition("/")[2]: tuple(weight.shape) for weight in model.weights}


def load_recipe_of(name):
    """The recipe of one of Table 3's rows."""
    folder, file = ("table3", name.removeprefix("table3_")) if "_" in name else (".", f"wmt14_en_de_{name}")
    return load_recipe(RECIPES / folder / f"{file}.yaml")


@pytest.mark.parametrize("row", TABLE_3_ROWS, ids=lambda row: row[0])
def test_the_papers_recipe_is_its_preset(row):
    """What no preset says is as in the recipe of the base model, which the next test builds."""
    recipe, preset = load_recipe_of(row[0]), PRESETS[row[0]]
    usual = load_recipe_of("base").model.arguments(37_000, 37_000)
    assert recipe.model.arguments(37_000, 37_000) == {**usual, **preset.model}
    assert (recipe.training.label_smoothing, recipe.training.steps) == (preset.label_smoothing, preset.steps)


# One for each kind of size that the rows change.
BUILT = {"base", "table3_b_dk16", "table3_c_n2", "table3_c_d1024", "table3_e_learned_positions"}


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=() if row[0] in BUILT else pytest.mark.thorough, id=row[0]) for row in TABLE_3_ROWS],
)
def test_the_papers_recipe_builds_at_full_size(row):
    name, *cells = row
    layers, d_model, dff, heads, d_k, d_v = (
        int(TABLE_3_ROWS[0][i]) if c == "-" else int(c) for i, c in enumerate(cells[:6], 1)
    )
    shapes = check_built(load_recipe_of(name), (37_000, 37_000), exact_count(name))
    assert [shape for path, shape in shapes.items() if path.endswith("embeddings")] == [(37_000, d_model)]
    for stack, attentions in ("encoder", ["self"]), ("decoder", ["self", "cross"]):
        assert (
            sum(path.startswith(stack) and path.endswith("/self_attention/query/kernel") for path in shapes) == layers
        )
        for layer in (f"{stack}/layer_0", f"{stack}/layer_{layers - 1}"):
            for attention in attentions:
                kernels = [
                    shapes[f"{layer}/{attention}_attention/{part}/kernel"]
                    for part in ("query", "key", "value", "output")
                ]
                assert kernels == [(d_model, heads * d_k)] * 2 + [(d_model, heads * d_v), (heads * d_v, d_model)]
            inner = [
                shape
                for path, shape in shapes.items()
                if path.startswith(f"{layer}/feed_forward/") and path.endswith("kernel")
            ]
            assert inner == [(d_model, dff), (dff, d_model)]


def _lstm(read, units):
    """Parameters of an LSTM: four gates, each with weights for what it reads and for its last output, and a bias."""
    return 4 * units * (read + units + 1)


OTHER_RECIPES = [
    # The paper's models with 5,000 rows fewer.
    ("wmt14_en_fr_base", 32_000, EXACT_COUNTS["base"] - 5000 * 512),
    ("wmt14_en_fr_big", 32_000, EXACT_COUNTS["big"] - 5000 * 1024),
    ("multi30k_en_de", 6000, 5_489_664),
    ("multi30k_en_de_tok", 10_000, 5_489_664 + 4000 * 256 + 2 * 2 * 256),  # pre-norm ends each stack with a norm
    # Half as wide in both directions; bottom ones; above them one that reads twice the width; attention; what ends it.
    (
        "multi30k_en_de_recurrent",
        10_000,
        10_000 * 256
        + 2 * _lstm(256, 128)
        + 3 * _lstm(256, 256)
        + 2 * _lstm(512, 256)
        + 4 * (256 + 1) * 256
        + (512 + 1) * 256,
    ),
    ("tatoeba_en_de", 8000, 6_001_664),
    ("multi30k_from_tatoeba", 8000, 6_001_664),
    ("tatoeba_en_de_small", 8000, 2_349_056),
    ("demo", 1000, 1_053_696),
]


# Their source has a vocabulary of its own; that of trees has 70 tokens here. A layer of d_model 1024 and d_ff 2048 has
# 4 (d^2 + d) + 2 d f + f + d + 4 d parameters in the encoder, 4 (d^2 + d) + 2 d more in the decoder.
PARSERS = [
    ("parsing_wsj", 16_000, 4 * (8_399_872 + 12_600_320) + (16_000 + 70) * 1024),
    ("parsing_wsj_semi", 32_000, 4 * (8_399_872 + 12_600_320) + (32_000 + 70) * 1024),
    ("parsing_craft", 6000, None),
    ("parsing_demo", 600, None),
]


@pytest.mark.parametrize(("name", "vocab_size", "parameters"), [row for row in PARSERS if row[2]])
def test_the_papers_parsers_have_these_sizes(name, vocab_size, parameters):
    recipe = load_recipe(RECIPES / f"{name}.yaml")
    assert recipe.tokenizer.vocab_size == vocab_size
    check_built(recipe, (vocab_size, 70), parameters)


def test_no_recipe_is_left_out():
    files = {path.relative_to(RECIPES).with_suffix("").as_posix() for path in RECIPES.rglob("*.yaml")}
    of_table_3 = {name.replace("table3_", "table3/") for name in PRESETS if name.startswith("table3_")}
    of_the_paper = {"wmt14_en_de_base", "wmt14_en_de_big", *of_table_3}
    assert files == of_the_paper | {name for name, *_ in OTHER_RECIPES + PARSERS}


@pytest.mark.parametrize(("name", "vocab_size", "parameters"), OTHER_RECIPES)
def test_the_other_recipes_build_at_full_size(name, vocab_size, parameters):
    recipe = load_recipe(RECIPES / f"{name}.yaml")
    assert recipe.tokenizer.vocab_size == vocab_size
    check_built(recipe, (vocab_size, vocab_size), parameters)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("bse", "base"), ("Big", "big"), ("table3_c_n3", "table3_c_n"), ("table3_learned", "table3_e_learned")],
)
def test_unknown_preset_names_the_nearest(given, nearest):
    with pytest.raises(UserError, match=f"{given}.*did you mean {re.escape(nearest)}") as caught:
        get_preset(given)
    assert "\n" not in str(caught.value)


def test_a_preset_like_none_lists_them_all():
    with pytest.raises(UserError) as caught:
        get_preset("zzzz")
    assert all(name in str(caught.value) for name in PRESETS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 7}, "num_heads must divide d_model, got num_heads=7 and d_model=512"),
        ({"num_heads": 7, "key_dim": 64}, "num_heads must divide"),
        ({"input_vocab_size": 10}, "input_vocab_size=10 and target_vocab_size=37000"),
        ({"share_embeddings": "some"}, "'some'"),
        ({"num_heads": 0}, "num_heads must be a positive integer, got 0"),
        ({"key_dim": 0}, "key_dim must be a positive integer, got 0"),
        ({"num_layers": -1}, "num_layers must be a positive integer, got -1"),
        ({"dff": 0}, "dff must be a positive integer, got 0"),
        ({"target_vocab_size": 0}, "target_vocab_size must be a positive integer, got 0"),
    ],
)
def test_arguments_that_make_no_model_are_refused(changes, message):
    arguments = {
        **PRESETS["base"].model,
        "input_vocab_size": PAPER_VOCAB_SIZE,
        "target_vocab_size": PAPER_VOCAB_SIZE,
    }
    from tf_transformer.models.transformer import Transformer

    with pytest.raises(ValueError, match=re.escape(message)):
        Transformer(**{**arguments, **changes})


def test_heads_of_their_own_width_need_not_divide():
    from tf_transformer.models.transformer import Transformer

    arguments = {**PRESETS["base"].model, "num_heads": 7, "key_dim": 64, "value_dim": 64}
    with no_weights():
        model = Transformer(**arguments, input_vocab_size=100, target_vocab_size=100)
        model.build(((None, None), (None, None)))
    assert model.count_params() > 0


@pytest.mark.parametrize("module", ["models.presets", "recipe"])
def test_loads_nothing_heavy(module):
    code = (
        f"import tf_transformer.{module}, sys; "
        "print([m for m in ('tensorflow', 'keras', 'numpy', 'tensorflow_datasets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
