"""Where a reader of the documents works."""

import os
import shutil

import pytest
import yaml

from tests.documents.reading import ROOT
from tests.tiny_run import PAIRS, RECIPE, settings, write_pairs
from tf_transformer.recipe import load_recipe


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a reader works: the repository's folders are there."""
    for name in ("train", "serving", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return tmp_path


@pytest.fixture
def models(folder, tiny_run_directory, tiny_saved_model):
    """The models that the documents name."""
    shutil.copytree(tiny_saved_model, folder / "savedmodels" / "demo" / "1")
    (folder / "MODEL").symlink_to(tiny_run_directory.path)
    return folder


def write_recipe(path, root, name):
    """A recipe of the reader's own, which is tiny."""
    small = {
        "training__steps": 5,
        "training__validate_every": 1,
        "training__average_checkpoints": 0,
        "evaluation__extra_length": 2,
        "data__train": "[train.en, train.de]",
        "data__validation": "[test.en, test.de]",
        "data__test": "[test.en, test.de]",
    }
    recipe = load_recipe(RECIPE, settings(root, name=name, **small))
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(recipe.model_dump()), encoding="utf-8")


@pytest.fixture
def own(folder):
    """What is the reader's own: a corpus, sentences, a recipe and a program."""
    for data in (folder / "my_data", folder):
        data.mkdir(exist_ok=True)
        for name, pairs in (("train", PAIRS), ("test", PAIRS[:2])):
            for path, side in zip(write_pairs(data, pairs), ("en", "de"), strict=True):
                path.rename(data / f"{name}.{side}")
    write_recipe(folder / "my_recipe.yaml", folder / "my_data", "NAME")
    write_recipe(folder / "shared" / "my_recipe.yaml", folder / "nowhere", "NAME")  # the commands give its data.root
    (folder / "letter.txt").write_text("A man sees a house. Our dog loves a house.\n\nA woman.\n")
    (folder / "my_training.py").touch()
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").touch()
    return folder
