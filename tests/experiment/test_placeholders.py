"""Data of a recipe with `data.placeholders`."""

from itertools import islice

import numpy as np
import pytest
from rich.console import Console

from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer.errors import UserError
from tf_transformer.experiment.batches import recipe_batches
from tf_transformer.experiment.corpus import open_source, settings_of
from tf_transformer.experiment.preparing import prepare_data, prepared_folder
from tf_transformer.experiment.resuming import Beginning
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.tokenizers import train_tokenizers

SHARE = 0.25


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The recipe and its prepared data."""
    folder = tmp_path_factory.mktemp("placeholders")
    write_pairs(folder)
    recipe = load_recipe(RECIPE, settings(folder, data__placeholders=SHARE, tokenizer__vocab_size=430))
    pairs = [open_source(recipe, split) for split in ("train", "validation")]
    run = RunDirectory.create(folder / "run")
    return recipe, prepare_data(recipe, run, Beginning(goes_on=False, has_state=False), *pairs, Console(quiet=True))


def test_every_pair_comes_plain_and_with_placeholders(prepared):
    _, data = prepared
    counts = [source.counts.kept for source in data.train.manifest.sources]
    assert counts == [len(PAIRS)] * 2
    assert [source.name for source in data.train.manifest.sources][1].endswith("with placeholders")
    placeholders = data.tokenizers.source.placeholder_ids
    for side in (data.train.source, data.train.target):
        has = [np.isin(side.rows(np.array([i]))[0], placeholders).any() for i in range(2 * len(PAIRS))]
        assert has == [False] * len(PAIRS) + [True] * len(PAIRS)
    assert not np.isin(data.validation.source.ids, placeholders).any()


def test_so_often_in_an_epoch(prepared):
    recipe, data = prepared
    batches, _ = recipe_batches(recipe, data, 1)
    placeholders = data.tokenizers.source.placeholder_ids
    plain = masked = 0
    for (source, _), *_ in islice(iter(batches.from_step(0)), 60):
        rows = source.numpy()[source.numpy().any(axis=1)]
        with_placeholders = np.isin(rows, placeholders).any(axis=1)
        plain, masked = plain + np.sum(~with_placeholders), masked + np.sum(with_placeholders)
    assert masked / plain == pytest.approx(SHARE, rel=0.1)


def test_a_tag_gets_none(tmp_path):
    """Even one that the target has as a word. What an earlier version prepared of tagged text counts as another."""
    write_pairs(tmp_path, [(source, f"house {target}") for source, target in PAIRS])
    plain = load_recipe(RECIPE, settings(tmp_path, data__placeholders=SHARE))
    source = "[{files: [pairs.en, pairs.de], tag: <house>}]"
    tagged = load_recipe(RECIPE, settings(tmp_path, data__placeholders=SHARE, data__train=source))
    expected = [(f"<house> {source}", target) for source, target in open_source(plain, "train")]
    assert list(open_source(tagged, "train")) == expected
    assert settings_of(plain, "train")["placeholders"] is True
    assert settings_of(tagged, "train")["placeholders"] == "not in tags"


@pytest.mark.parametrize("kept", [True, False], ids=["init_from", "resume"])
def test_a_tokenizer_of_another_run_must_have_them(prepared, tmp_path, kept):
    recipe, _ = prepared
    pairs = [open_source(recipe, split) for split in ("train", "validation")]
    other, run = (RunDirectory.create(tmp_path / name) for name in ("other", "run"))
    without = train_tokenizers(PAIRS, vocab_size=420)
    without.save(other.tokenizer)
    origin = None if kept else other.training_state / "step-00000003"
    beginning = Beginning(goes_on=False, has_state=False, origin=origin)
    with pytest.raises(UserError, match=r"^data\.placeholders is 0\.25; it must be 0 with .* of the run") as told:
        prepare_data(recipe, run, beginning, *pairs, Console(quiet=True), without if kept else None)
    assert "\n" not in str(told.value)
    assert not any(prepared_folder(recipe, run).iterdir())
