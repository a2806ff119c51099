"""A model card: what a model is, what it was trained on, what it scores, and what it must not be used for.

It is one dictionary of facts, kept as JSON, and a page that is written from it (Mitchell et al., 2019, have the idea).
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer import __version__
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_whole

if TYPE_CHECKING:
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.runs.directory import RunDirectory

CARD, FACTS = "model_card.md", "model_card.json"
# Of scores.json, what a card tells; in this order.
SCORES = ("bleu", "chrf", "f1", "recall", "precision", "complete_match", "perplexity", "sentences")
SIGNATURES = ("signature", "chrf_signature")

Facts = dict[str, Any]

LIMITS = {
    "translation": """\
- It knows the words, the sentences and the mistakes of its training text, and nothing else. Text of another kind,
  another language or another time comes out wrong, and often fluent all the same.
- It leaves things out, adds things and turns them round without a sign. Names, numbers and negations are the first to
  go wrong.
- It repeats what its training text says of people and groups.
- It must not decide, or be the only source of, anything that can harm someone: medicine, law, safety, asylum, work.
  There, a person who knows both languages has to check each sentence.""",
    "parsing": """\
- It knows the kind of text that its treebank is of, and that treebank's labels and conventions. Other text is parsed
  worse.
- Every sentence gets a tree, a sentence without grammar as well: a tree is no sign that a sentence is right.
- It must not be the only ground for a decision about a person, such as a mark or a diagnosis.""",
}
TOY = "- Its corpus comes from a grammar of a few dozen words: it is a demonstration, and of no use for any other text."


def versions() -> dict[str, str]:
    """What trains and exports here, with its version."""
    return {
        "tf_transformer": __version__,
        **{name: importlib.metadata.version(name) for name in ("tensorflow", "keras")},
    }


def facts_of_run(run: RunDirectory) -> Facts:
    """What is known of a run's model, from the files in its folder.

    Raises:
        UserError: the recipe can't be read.
    """
    from tf_transformer.recipe import DEMO_SPLITS, load_recipe

    recipe = load_recipe(run.recipe)
    began, scores = _read(run.training), _read(run.scores)
    files = [run.chosen] if run.chosen else run.by_preference()
    checkpoint = next((file.name for file in files if file.is_file()), None)
    data = recipe.data
    return {
        "name": recipe.name,
        "task": recipe.task,
        "source_language": data.source_language,
        "target_language": data.target_language if recipe.task == "translation" else None,
        "model": {"parameters": began.get("parameters"), **_set(recipe.model)},
        "tokenizer": _set(recipe.tokenizer),
        "corpus": {
            **{key: value for key, value in _set(data).items() if key in ("kind", "dataset", *DEMO_SPLITS)},
            "checksums": began.get("corpus"),
        },
        "training": {
            "seed": recipe.seed,
            **{key: data.model_dump()[key] for key in ("batch_tokens", "max_length")},
            **_set(recipe.training),
            "devices": began.get("devices"),
        },
        "checkpoint": checkpoint,
        "scores": {key: scores[key] for key in ("set", "source", "trees", *SCORES, *SIGNATURES) if key in scores}
        or None,
        "decoding": recipe.evaluation.model_dump(),
        "versions": began.get("versions"),
    }


def facts_of_model(model: SequenceModel, options: DecodingOptions, task: str = "translation") -> Facts:
    """What is known of a model that was trained by a program, and not from a recipe."""
    return {
        "name": model.name,
        "task": task,
        "model": {"parameters": model.count_params(), **_plain(model.get_config())},
        "decoding": asdict(options),
        "versions": versions(),
    }


def write_card(folder: Path, facts: Facts) -> None:
    """Writes a card's page and its facts into a folder."""
    (folder / CARD).write_text(as_markdown(facts), encoding="utf-8")
    (folder / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def renewed(run: RunDirectory) -> Iterator[None]:
    """Within it a run's model or scores change, and so its card; one that somebody has edited is left as it is."""
    before = as_markdown(facts_of_run(run))
    yield
    if not run.card.exists() or run.card.read_text(encoding="utf-8", errors="replace") == before:
        with written_whole(run.card, "the model card") as partial:
            partial.write_text(as_markdown(facts_of_run(run)), encoding="utf-8")


def read_card(path: Path) -> tuple[str, Facts]:
    """The card of a run, worked out anew, or of an export, as it lies there.

    Args:
        path: a run's folder or one of its checkpoints, a SavedModel's folder, or a CTranslate2 model's.

    Returns:
        The page, in Markdown, and the facts.

    Raises:
        UserError: there is no model, or an export without a card.
    """
    from tf_transformer.runs.directory import RunDirectory, is_run

    if is_run(path):
        facts = facts_of_run(RunDirectory.of_model(path))
        return as_markdown(facts), facts
    if (path / "saved_model.pb").is_file():
        folder = path / "assets.extra"
    elif (path / "model.bin").is_file():
        folder = path
    else:
        raise UserError(f"{path}: no model here; give a run's folder, a SavedModel's or a CTranslate2 model's")
    try:
        return (folder / CARD).read_text(encoding="utf-8"), json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: has no model card, as exports of earlier versions; export it again") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: the model card can't be read ({error}); export the model again") from None


def as_markdown(facts: Facts) -> str:
    """The page."""
    task, model = facts["task"], facts["model"]
    kind = model.get("kind", "model")
    parts = [f"# {facts['name']}", _what_it_is(facts, kind)]
    parts += ["## Limits", LIMITS[task] + ("\n" + TOY if facts.get("corpus", {}).get("kind") == "demo" else "")]
    parts += ["## Scores", _scores(facts.get("scores"))]
    if "corpus" in facts:
        parts += ["## Training text", _table(facts["corpus"])]
        parts += ["## Tokenizer", _table(facts["tokenizer"])]
    else:
        parts += ["## Training text", "Not known: the model was trained by a program, and not from a recipe."]
    parts += ["## Model", _table(model)]
    if "training" in facts:
        parts += ["## Training", _table(facts["training"])]
    parts += ["## How translations are searched for" if task == "translation" else "## How trees are searched for"]
    parts += [_table(facts["decoding"])]
    parts += ["## Versions", _table(facts["versions"] or {})]
    return "\n\n".join(parts) + "\n"


def _what_it_is(facts: Facts, kind: str) -> str:
    size = facts["model"]["parameters"]
    numbered = f" of {size:,} parameters" if size else ""
    if facts["task"] == "parsing":
        does = "It gives sentences, whose words stand between blanks, their constituency trees."
    elif "source_language" in facts:
        does = f"It translates from {facts['source_language']} to {facts['target_language']}."
    else:
        does = "It translates."
    trained = f" It is the checkpoint `{facts['checkpoint']}` of its run." if facts.get("checkpoint") else ""
    command = "parse" if facts["task"] == "parsing" else "translate"
    used = f"`tf-transformer {command} FOLDER`, with the folder that it lies in, has it do so."
    return f"A {kind}{numbered}, trained with tf_transformer. {does} {used}{trained}"


def _scores(scores: Mapping[str, Any] | None) -> str:
    if not scores:
        return "Not known."
    where = scores.get("source") or scores.get("trees") or scores.get("set")
    rows = [f"| {name} | {scores[name]:,.6g} |" for name in SCORES if name in scores]
    table = "\n".join([f"| on {where} | |", "| --- | --- |", *rows])
    return "\n\n".join([table, *(f"`{scores[name]}`" for name in SIGNATURES if name in scores)])


def _table(values: Mapping[str, Any]) -> str:
    """Two columns; what is not known or not set is told as such."""
    rows = []
    for name, value in values.items():
        parts = value if isinstance(value, Mapping) else {"": value}
        rows += [f"| {name} {part} | {_told(each)} |".replace("  ", " ") for part, each in parts.items()]
    return "\n".join(["| | |", "| --- | --- |", *rows]) if rows else "Not known."


def _told(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _set(section: Any) -> Facts:
    """The settings of a section of a recipe that have a value."""
    return {key: value for key, value in section.model_dump().items() if value is not None}


def _plain(config: Mapping[str, Any]) -> Facts:
    """Of a Keras configuration what is a number, a text or a truth."""
    names = ("name", "trainable")
    return {k: v for k, v in config.items() if isinstance(v, int | float | str) and k not in names}


def _read(path: Path) -> Facts:
    """A JSON file of a run's; nothing where there is none, or a damaged one."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
