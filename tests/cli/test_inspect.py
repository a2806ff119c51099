"""Looking into a model: for TensorBoard, as a page, as a picture."""

import os

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.cli.command import assert_mistake, contents
from tests.eager import eagerly
from tests.tiny_run import PAIRS
from tf_transformer.tensorboard.events import Index

pytestmark = pytest.mark.usefixtures("loaded_once")

SENTENCES = [source for source, _ in PAIRS[:2]]
TRANSLATIONS = [target for _, target in PAIRS[:2]]


def test_it_translates_and_writes_all_that_is_asked_for(command, tiny_saved_model, tmp_path, monkeypatch):
    logs, page, picture = tmp_path / "logs", tmp_path / "a [new] page.html", tmp_path / "picture.png"
    outcome = command("inspect", tiny_saved_model, *SENTENCES, "--logdir", logs, "--html", page)
    assert (outcome.status, outcome.lines) == (0, TRANSLATIONS)
    assert f"tensorboard --logdir {logs}" in outcome.err and str(page) in outcome.err
    index = Index(logs)
    ((run, tags),) = index.refresh().items()
    assert run.endswith("savedmodels-tiny-1")
    assert list(tags) == [f"{number} {source}" for number, source in enumerate(SENTENCES, start=1)]
    header = index.header(run, f"1 {SENTENCES[0]}", 0)
    weights = index.layer(run, f"1 {SENTENCES[0]}", 0, "cross", 0)
    assert weights.shape == (2, len(header.target), len(header.source))
    assert weights.sum(axis=-1) == pytest.approx(1, abs=0.01)
    assert all(f"{number} {source}" in page.read_text() for number, source in enumerate(SENTENCES, start=1))

    drawn, save = [], Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *how, **more: (drawn.append(figure), save(figure, *how, **more))
    )
    assert command("inspect", tiny_saved_model, SENTENCES[0], "--png", picture).lines == TRANSLATIONS[:1]
    assert picture.read_bytes().startswith(b"\x89PNG")
    texts = {text.get_text() for text in drawn[0].findobj(Text)}
    assert any(SENTENCES[0] in text for text in texts) and any(TRANSLATIONS[0] in text for text in texts)


def test_a_run_gives_what_its_export_gives(command, tiny_run_directory, tiny_saved_model, tmp_path):
    with eagerly():
        for model in (tiny_run_directory.path, tiny_saved_model):
            assert command("inspect", model, SENTENCES[0], "--logdir", tmp_path).lines == TRANSLATIONS[:1]
    index = Index(tmp_path)
    runs = list(index.refresh())
    assert len(runs) == 2  # side by side
    for kind in ("encoder", "decoder", "cross"):
        one, other = (index.layer(run, f"1 {SENTENCES[0]}", 0, kind, 0) for run in runs)
        assert one == pytest.approx(other, abs=1e-3)


def test_a_sentence_that_is_too_long_is_cut_and_told(command, tiny_saved_model, tmp_path):
    outcome = command("inspect", tiny_saved_model, "A man sees a house. " * 20, "--html", tmp_path / "page.html")
    assert outcome.status == 0
    assert "cut to the model's maximum length: A man sees" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["A dog."], "give --logdir DIR for TensorBoard, --html FILE or --png FILE"),
        (["A dog.", " ", "--html", "{}/new.html"], "sentence 2 is empty"),
        (["A dog.", "\u2581", "--html", "{}/new.html"], "sentence 2 is empty"),  # what SentencePiece has for a blank
        (["A dog.", "A cat.", "--png", "{}/new.png"], "--png can show only one sentence"),
        (["A dog.", "--html", "{}/there.html"], "there.html: already exists"),
        (["A dog.", "--png", "{}/there.html"], "there.html: already exists"),
        (["A dog.", "--html", "{}/new", "--png", "{}/new"], "{}/new: given for both --html and --png"),
        (["A dog.", "--html", "{}/new", "--png", "{}/none/../new"], "{}/new: given for both --html and --png"),
        (["A dog.", "--logdir", "{}/there.html"], "{}/there.html: a file; --logdir must be a folder"),
        (["A \udcff dog.", "--html", "{}/new.html"], "sentence 1 is not valid UTF-8"),
        (["{}/there.html", "--html", "{}/new.html"], "{}/there.html: a file, but a sentence is expected"),
        (["A dog.", "--html", "{}/none/page.html"], "{}/none: no such folder"),
        (["A dog.", "--png", "{}/none/picture.png"], "{}/none: no such folder"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(command, tiny_saved_model, tmp_path, arguments, told):
    (tmp_path / "there.html").write_text("precious")
    before = contents(tmp_path)
    outcome = command("inspect", tiny_saved_model, *(each.replace("{}", str(tmp_path)) for each in arguments))
    assert_mistake(outcome, told.replace("{}", str(tmp_path)))
    assert contents(tmp_path) == before


def test_a_folder_that_can_not_be_written_to_is_told_before_the_model_is_loaded(command, tmp_path, monkeypatch):
    """Here by what the system says of it: root may write anywhere."""
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    for option, name in (("--html", "page.html"), ("--png", "picture.png"), ("--logdir", "logs")):
        outcome = command("inspect", tmp_path / "no model", "A dog.", option, tmp_path / name)
        assert_mistake(outcome, f"{tmp_path / name}", f"{tmp_path} is not a folder you can write to")
    assert contents(tmp_path) == {}


def test_what_is_no_model_is_told(command, tmp_path):
    outcome = command("inspect", tmp_path / "none", "A dog.", "--html", tmp_path / "page.html")
    assert_mistake(outcome, "neither a run nor a SavedModel (no such folder)")
