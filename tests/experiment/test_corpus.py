"""Where the files of a recipe's pairs are looked for, and what is told of them."""

import gzip
import io
import random
from pathlib import Path

import pytest
from rich.console import Console

from tests.experiment.small_recipe import recipe
from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer.errors import UserError
from tf_transformer.experiment.corpus import check_files, open_source
from tf_transformer.experiment.preparing import prepared_folder
from tf_transformer.experiment.runner import _open_splits
from tf_transformer.recipe import load_recipe
from tf_transformer.runs.directory import RunDirectory


def test_a_path_below_the_home_folder_does_not_start_from_the_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pairs(tmp_path)
    pairs = ["~/pairs.en", "~/pairs.de"]
    data = {"kind": "files", "root": str(tmp_path / "elsewhere"), "train": pairs, "validation": pairs}
    assert list(open_source(recipe(data=data), "train")) == list(PAIRS)


def test_prepared_data_below_the_home_folder_of_nobody_is_refused(tmp_path, monkeypatch):
    """A folder with ~ in its name would be made where the command was given; it is, where that is asked for."""
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pairs(tmp_path)

    def with_prepared(folder):
        return load_recipe(RECIPE, settings(tmp_path, data__prepared=folder))

    told = (
        r"^data.prepared is ~no-such-user/x, but there is no home folder ~no-such-user; give .* \./~no-such-user/x if"
    )
    for look in check_files, lambda recipe: prepared_folder(recipe, RunDirectory(tmp_path / "run")):
        with pytest.raises(UserError, match=told):
            look(with_prepared("~no-such-user/x"))
        look(with_prepared("~/x"))
    found = {name: prepared_folder(with_prepared(name), RunDirectory(tmp_path / "run")) for name in ("~/x", "./~u/x")}
    assert found == {"~/x": tmp_path / "x", "./~u/x": Path("~u/x")}


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "files", "train": ["en.train.txt", "de.train.txt"], "validation": ["en.train.txt", "de.train.txt"]},
        {"kind": "tsv", "train": "en.train.txt", "validation": "en.train.txt"},
        {
            **{"kind": "tfds", "dataset": "translate_folder", "train": "train", "validation": "train"},
            **{"source_language": "en", "target_language": "de"},
        },
    ],
    ids=lambda data: data["kind"],
)
def test_what_is_damaged_is_left_out_of_every_kind_where_the_recipe_says_so(tmp_path, data):
    draw = random.Random(3).random
    whole = gzip.compress("".join(f"{draw()}\t{draw()}\n" for _ in range(1000)).encode())
    for name in "en.train.txt", "de.train.txt":
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    data = {**data, "root": str(tmp_path)}
    source = open_source(recipe(data={**data, "damaged": "skip"}), "train")
    assert 0 < len(list(source)) < 1000 and "is cut off after line" in source.lost[0]
    with pytest.raises(UserError, match="incomplete or damaged gzip file"):
        list(open_source(recipe(data=data), "train"))


def test_of_each_set_that_is_to_be_scored_is_told_what_was_left_out(tmp_path):
    source, _ = write_pairs(tmp_path)
    source.write_bytes(source.read_bytes().replace(b"Our", b"\xff"))
    also = "{old: [pairs.en, pairs.de], new: [pairs.en, pairs.de]}"
    told = Console(file=io.StringIO(), width=300)
    _open_splits(load_recipe(RECIPE, settings(tmp_path, data__invalid_utf8="skip", evaluation__also=also)), told)
    expected = [f"{name}: 6 pairs skipped for invalid UTF-8" for name in ("test", "old", "new")]
    assert told.file.getvalue().splitlines() == expected
