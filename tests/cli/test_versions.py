"""A folder of a SavedModel's versions, given for a model: the highest is taken."""

import pytest

from tests.cli.command import assert_mistake
from tests.tiny_run import PAIRS, write_pairs
from tf_transformer.terminal.interactive import Conversation

pytestmark = pytest.mark.usefixtures("loaded_once")


@pytest.fixture(scope="module")
def versions(tiny_saved_model, tmp_path_factory):
    """Of which the highest alone can be loaded, and is not the last by name."""
    folder = tmp_path_factory.mktemp("versions")
    for name in ("9", "11-broken", "notes"):
        (folder / name).mkdir()
        (folder / name / "saved_model.pb").touch()
    (folder / "12").mkdir()  # holds none
    (folder / "10").symlink_to(tiny_saved_model)
    return folder


@pytest.mark.parametrize("name", ["translate", "backtranslate", "evaluate", "inspect", "card"])
def test_the_highest_version_is_taken(command, versions, tmp_path, name):
    source, target = write_pairs(tmp_path, PAIRS[:2])
    words = {
        "translate": [source],
        "backtranslate": [source, tmp_path / "out", "--json"],
        "evaluate": ["--source", source, "--reference", target],
        "inspect": [PAIRS[0][0], "--html", tmp_path / "page.html"],
        "card": [],
    }[name]
    outcome = command(name, versions, *words)
    assert outcome.status == 0, outcome.err
    if name == "translate":
        assert outcome.lines == [target for _, target in PAIRS[:2]]
    if name == "card":
        assert outcome.out == command("card", versions / "10").out


def test_the_prompt_takes_it_too(tiny_saved_model, versions):
    conversation = Conversation([tiny_saved_model], {}, "tensorflow")
    list(conversation.answer(f":model {versions}"))
    assert (conversation.models, list(conversation.answer(PAIRS[0][0]))) == ([versions / "10"], [PAIRS[0][1]])


def test_a_folder_without_versions_is_none(command, versions):
    (versions / "12" / "empty").mkdir(exist_ok=True)
    assert_mistake(command("translate", versions / "12"), f"{versions / '12'}: neither a run nor a SavedModel; give")
