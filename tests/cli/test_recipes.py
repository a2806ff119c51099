"""The command `recipes`: the project's recipes for those who have no checkout."""

import errno

from tests.cli.command import assert_mistake, contents
from tests.recipe.recipes import FOLDER
from tf_transformer.recipe import load_recipe


def test_writes_all_recipes_and_sweeps(command, tmp_path):
    outcome = command("recipes", str(tmp_path / "train"))
    assert (outcome.status, outcome.err) == (0, "")
    written = contents(tmp_path / "train")
    own = {name: data for name, data in contents(FOLDER.parent).items() if data is None or name.endswith(".yaml")}
    assert written == own
    assert sorted(outcome.lines) == sorted(str(tmp_path / "train" / name) for name, data in own.items() if data)
    # One that extends a file that extends another.
    recipe = load_recipe(tmp_path / "train" / "recipes" / "table3" / "a_h1.yaml")
    assert recipe == load_recipe(FOLDER / "table3" / "a_h1.yaml")


def test_leaves_what_is_there(command, tmp_path):
    changed = tmp_path / "recipes" / "demo.yaml"
    changed.parent.mkdir()
    changed.write_text("mine")
    outcome = command("recipes", str(tmp_path))
    assert outcome.status == 0 and outcome.err == f"{changed}: exists with other content, kept as it is\n"
    assert changed.read_text() == "mine" and str(changed) not in outcome.lines
    again = command("recipes", str(tmp_path))
    assert (again.status, again.out) == (0, b"")
    assert f"{tmp_path}: already contains all recipes and sweeps\n" in again.err


def test_a_file_in_the_way(command, tmp_path):
    (tmp_path / "train").write_text("a file")
    assert_mistake(command("recipes", str(tmp_path / "train")), "train", "give another folder")
    (tmp_path / "other" / "recipes" / "demo.yaml").mkdir(parents=True)
    assert_mistake(command("recipes", str(tmp_path / "other")), "demo.yaml", "not a file")


def test_a_full_disk_leaves_no_half_of_a_recipe(command, tmp_path, monkeypatch):
    def fills_up(path, data):
        with path.open("wb") as file:
            file.write(data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.write_bytes", fills_up)
        assert_mistake(command("recipes", str(tmp_path / "train")), "can't be written: No space left on device")
    assert not any(contents(tmp_path / "train").values())  # folders alone
    assert command("recipes", str(tmp_path / "train")).err == ""
