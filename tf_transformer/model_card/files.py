"""Model cards in the folders of runs and exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tf_transformer.errors import UserError
from tf_transformer.files.as_json import as_json, read_json
from tf_transformer.files.model_formats import is_ctranslate2, is_saved_model
from tf_transformer.files.whole import written_whole
from tf_transformer.model_card.facts import Facts, facts_of_run, language_tags_of
from tf_transformer.model_card.page import as_markdown, is_generated
from tf_transformer.runs.directory import CARD, RunDirectory, is_run

FACTS = "model_card.json"  # beside the page of an export


def write_card(folder: Path, facts: Facts, use: str | None = None) -> None:
    """Writes a card's page and its facts into a folder; `use` is as `as_markdown` takes it."""
    (folder / CARD).write_text(as_markdown(facts, use), encoding="utf-8")
    (folder / FACTS).write_text(as_json(facts) + "\n", encoding="utf-8")


@contextmanager
def renewed(run: RunDirectory) -> Iterator[None]:
    """A context in which a run's model or scores change; updates the card at the end, unless it was edited by hand."""
    yield
    # Else, of two that score a run at the same time, one may write what it read before the other's scores.
    with run.held():
        if not run.card.exists() or is_generated(run.card.read_text(encoding="utf-8", errors="replace")):
            with written_whole(run.card, "the model card") as partial:
                partial.write_text(as_markdown(facts_of_run(run)), encoding="utf-8")


def read_card(path: Path) -> tuple[str, Facts]:
    """The card of a run, generated from its current files, or of an export, as it is stored.

    Args:
        path: a run's folder or one of its checkpoints, a SavedModel's folder, or a CTranslate2 model's.

    Returns:
        The page, in Markdown, and the facts.

    Raises:
        UserError: there is no model, or an export without a card.
    """
    if is_run(path):
        facts = facts_of_run(RunDirectory.of_model(path))
        return as_markdown(facts), facts
    if is_saved_model(path):
        folder = path / "assets.extra"
    elif is_ctranslate2(path):
        folder = path
    else:
        raise UserError(f"{path}: not a model; give the folder of a run, of a SavedModel or of a CTranslate2 model")
    try:
        return (folder / CARD).read_text(encoding="utf-8"), read_json((folder / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: has no model card, like all exports of earlier versions; export it again") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: the model card can't be read ({error}); export the model again") from None


def source_language(path: Path) -> str | None:
    """The code of the language that a model translates from; None where its card, if it has one, does not say so.

    Args:
        path: as `read_card` takes it.
    """
    return _facts(path).get("source_language")


def language_tags(path: Path) -> list[str]:
    """The tags that a multilingual model knows, such as `>>deu<<`; none where its card, if it has one, names none.

    Args:
        path: as `read_card` takes it.
    """
    return language_tags_of(_facts(path))


def task(path: Path) -> str | None:
    """What a model does, "translation" or "parsing"; None where its card, if it has one, does not say so.

    Args:
        path: as `read_card` takes it.
    """
    return _facts(path).get("task")


def _facts(path: Path) -> Facts:
    try:
        return read_card(path)[1]
    except UserError:
        return {}
