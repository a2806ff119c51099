"""What is wrong with a list of sources, or with given alignments, is told in one line."""

import pytest

from tests.recipe.recipes import refusal
from tf_transformer.errors import UserError
from tf_transformer.recipe import load_recipe

ONE_SPLIT = ["data.train=x", "data.validation=x"]
CORPUS = """
name: several
data: {kind: files, train: [a.en, a.de], validation: [a.en, a.de]}
tokenizer: {vocab_size: 300}
model: {num_layers: 1, d_model: 8, num_heads: 2, dff: 16}
training: {steps: 10, validate_every: 5}
"""


@pytest.mark.parametrize(
    ("train", "told"),
    [
        ("[{files: [a, b], wieght: 2}]", r"unknown key data\.train\.0\.wieght; did you mean data\.train\.0\.weight\?"),
        ("[{files: [a, b], tags: <bt>}]", r"unknown key data\.train\.0\.tags; did you mean data\.train\.0\.tag\?"),
        ("[{files: [a, b]}, {weight: 2}]", r"data\.train\.1\.files is missing"),
        ("[{files: [a, b], weight: 0}]", r"data\.train\.0\.weight is 0; it must be greater than 0"),
        ("[{files: [a, b], weight: -1.5}]", r"data\.train\.0\.weight is -1\.5; it must be greater than 0"),
        ("[{files: a}]", r"data\.train\.0\.files is a; for kind files it must be two paths, \[source, target\]"),
        ("[{files: [a, b, c]}]", r"data\.train\.0\.files is \[a, b, c\]; for kind files it must be two paths"),
        ("[{files: [a, b]}, x]", r"data\.train\.1 is x; it must be a section"),
        ("[{files: [a, b], tag: a b}]", r"data\.train\.0\.tag is a b; it must be one word, such as <bt>"),
        ("[{files: [a, b], tag: ''}]", r"data\.train\.0\.tag is ''; it must be one word, such as <bt>"),
        ("[{files: [a, b]}, {files: [a, b], tag: <t>}]", r"data\.train names the same files twice"),
        ("[{files: [a, b], noise: {typos: 2}}]", r"data\.train\.0\.noise\.typos is 2"),
        ("[{files: [a, b], noise: {tpyos: 0.1}}]", r"unknown key data\.train\.0\.noise\.tpyos; did you mean"),
        (
            "[{files: [a, b], noise: {lower_case: 0.5, upper_case: 0.6}}]",
            r"data\.train\.0\.noise\.lower_case is 0\.5; together with upper_case, 0\.6, it must be at most 1",
        ),
        (
            "[{files: [a, b], noise: {typos: 0.1}}, {files: [a, b], noise: {typos: 0.1}}]",
            r"data\.train names the same files twice",
        ),
        (
            "[{files: [a, b], alignments: c, noise: {swap: 2}}]",
            r"data\.train\.0\.alignments is c; with noise, which moves words, it must be null",
        ),
        ("[{files: [a, b], alignments: ''}]", r"data\.train\.0\.alignments is ''"),
        ("[]", r"data\.train is \[\]; for kind files it must be two paths"),
    ],
)
def test_a_mistake_in_one_of_several_sources_is_told(tmp_path, train, told):
    path = tmp_path / "recipe.yaml"
    path.write_text(CORPUS)
    with pytest.raises(UserError, match=r"^--set data\.train=.*: " + told) as error:
        load_recipe(path, [f"data.train={train}"])
    assert "\n" not in str(error.value)


def test_noise_of_another_seed_is_another_source(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(CORPUS)
    noisy = ", ".join(f"{{files: [a, b], noise: {{typos: 1, seed: {seed}}}}}" for seed in (20240101, 20240102))
    first, second = load_recipe(path, [f"data.train=[{noisy}]"]).data.sources()
    assert first.name == "a and b with noise (typos 1, seed 20240101)" != second.name


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            ["data.train=[{files: [a, b]}]", "data.alignments=c"],
            "data.alignments is c; if train lists sources it must be null",
        ),
        (
            ["data.alignments=c", "data.invalid_utf8=skip"],
            "data.invalid_utf8 is 'skip', but with alignments line N",
        ),
        (["data.alignments=c", "data.damaged=skip"], "data.damaged is 'skip', but with alignments"),
        (
            ["data.alignments=c", "data.kind=tfds", "data.dataset=x", *ONE_SPLIT],
            "data.alignments is c; for kind tfds it",
        ),
        (
            ["data.alignments=c", "model.kind=recurrent"],
            "data.alignments is given, which needs model.kind: transformer",
        ),
        (
            ["model.alignment_head=[1, 0]"],
            "model.alignment_head is [1, 0]; it must be [layer, head]: a decoder layer",
        ),
        (["model.alignment_head=[0, 2]"], "model.alignment_head is [0, 2]; it must be"),
        (["model.alignment_head=[0]"], "model.alignment_head is [0]; it must be"),
        (["training.alignment_weight=0"], "training.alignment_weight is 0; it must be greater than 0"),
    ],
)
def test_alignments_that_no_head_can_learn_are_told(tmp_path, overrides, told):
    path = tmp_path / "recipe.yaml"
    path.write_text(CORPUS)
    assert told in refusal(path, *overrides)


def test_with_alignments_the_first_head_of_the_last_layer_but_one_learns_them(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(CORPUS)
    of_source = "data.train=[{files: [a.en, a.de]}, {files: [b.en, b.de], alignments: b.align}]"

    def head(*overrides):
        return load_recipe(path, overrides).model.alignment_head

    assert head() is head("data.train=[{files: [a.en, a.de]}]") is None
    assert head("data.alignments=c") == (0, 0)
    assert head("data.alignments=c", "model.num_layers=6") == head(of_source, "model.num_layers=6") == (4, 0)
    assert head("data.alignments=c", "model.num_layers=6", "model.decoder_layers=2") == (0, 0)
    assert head("data.alignments=c", "model.num_layers=6", "model.alignment_head=[5, 1]") == (5, 1)
    assert head("model.alignment_head=[0, 1]") == (0, 1)


def test_a_kind_without_files_has_one_source(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(CORPUS.replace("kind: files, ", "kind: tfds, dataset: x/y, ").replace("[a.en, a.de]", "a"))
    with pytest.raises(UserError, match=r"data\.train lists sources; for kind tfds it must be the name of one split"):
        load_recipe(path, ["data.train=[{files: a}]"])


def test_only_training_has_several_sources(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(CORPUS)
    with pytest.raises(UserError, match=r"data\.validation is .*; for kind files it must be two paths"):
        load_recipe(path, ["data.validation=[{files: [a, b]}]"])
