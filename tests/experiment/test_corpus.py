"""Where the files of a recipe's pairs are looked for."""

from tests.experiment.small_recipe import recipe
from tests.tiny_run import PAIRS, write_pairs
from tf_transformer.experiment.corpus import open_source


def test_a_path_below_the_home_folder_does_not_start_from_the_root(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pairs(tmp_path)
    pairs = ["~/pairs.en", "~/pairs.de"]
    data = {"kind": "files", "root": str(tmp_path / "elsewhere"), "train": pairs, "validation": pairs}
    assert list(open_source(recipe(data=data), "train")) == list(PAIRS)
