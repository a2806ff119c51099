"""Where the files of a recipe's pairs are looked for, and what is told of them."""

import io

from rich.console import Console

from tests.experiment.small_recipe import recipe
from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer.experiment.corpus import open_source
from tf_transformer.experiment.runner import _open_splits
from tf_transformer.recipe import load_recipe


def test_a_path_below_the_home_folder_does_not_start_from_the_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pairs(tmp_path)
    pairs = ["~/pairs.en", "~/pairs.de"]
    data = {"kind": "files", "root": str(tmp_path / "elsewhere"), "train": pairs, "validation": pairs}
    assert list(open_source(recipe(data=data), "train")) == list(PAIRS)


def test_of_each_set_that_is_to_be_scored_is_told_what_was_left_out(tmp_path):
    source, _ = write_pairs(tmp_path)
    source.write_bytes(source.read_bytes().replace(b"Our", b"\xff"))
    also = "{old: [pairs.en, pairs.de], new: [pairs.en, pairs.de]}"
    told = Console(file=io.StringIO(), width=300)
    _open_splits(load_recipe(RECIPE, settings(tmp_path, data__invalid_utf8="skip", evaluation__also=also)), told)
    expected = [f"{name}: 6 pairs skipped for invalid UTF-8" for name in ("test", "old", "new")]
    assert told.file.getvalue().splitlines() == expected
