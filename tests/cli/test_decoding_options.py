"""Options of the search: each that is given to a command arrives there. What they do is tested in tests/decoding/."""

import pytest
import tensorflow as tf  # noqa: F401  so that tests/conftest.py sets its threads, also for this file alone

from tests.cli.command import typed
from tests.tiny_run import write_pairs
from tf_transformer.errors import UserError

# None of these is the default.
SEARCH = {"beam_size": 3, "alpha": 0.9, "no_repeat_ngram_size": 2}
OF_TRANSLATE = {
    **SEARCH,
    "min_length": 2,
    "max_length": 9,
    "temperature": 0.5,
    "top_k": 7,
    "top_p": 0.8,
    "seed": 5,
    "replace_unknown": True,
    "protect": True,
}


@pytest.fixture
def arrived(monkeypatch):
    """Puts what remembers its arguments in the place of a function; no command goes on behind it."""
    arrived = []

    def in_place_of(name):
        def remember(*arguments, **by_name):
            arrived.append((arguments, by_name))
            raise UserError("this is enough")

        monkeypatch.setattr(name, remember)
        return arrived

    return in_place_of


def test_of_translate(command, tiny_saved_model, arrived):
    given = arrived("tf_transformer.commands.translate.load_translations")
    assert "this is enough" in command("translate", tiny_saved_model, "--nbest", 3, *typed(OF_TRANSLATE)).err
    (((_, changes, *_), _),) = given
    assert changes == {**OF_TRANSLATE, "num_hypotheses": 3}


@pytest.mark.parametrize(
    ("kind", "function"),
    [("run", "experiment.scoring.evaluate"), ("export", "translation.loading.load_translate")],
)
def test_of_evaluate(command, tiny_run_directory, tiny_saved_model, tmp_path, arrived, kind, function):
    model = {"run": tiny_run_directory.path, "export": tiny_saved_model}[kind]
    given = arrived(f"tf_transformer.{function}")
    files = zip(("--source", "--reference"), write_pairs(tmp_path), strict=True)
    outcome = command("evaluate", model, *(word for each in files for word in each), *typed(SEARCH))
    assert "this is enough" in outcome.err
    ((arguments, _),) = given
    assert SEARCH in arguments


def test_of_export(command, tiny_run_directory, tmp_path, arrived):
    given = arrived("tf_transformer.experiment.exporting.export_run")
    outcome = command("export", tiny_run_directory.path, tmp_path / "1", *typed(SEARCH), "--float16", "--no-xla")
    assert "this is enough" in outcome.err
    (((_, *others), _),) = given
    assert others == [tmp_path / "1", SEARCH, True, False]
