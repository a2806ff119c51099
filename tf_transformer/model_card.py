"""Model cards: what a model is, what it was trained on, its scores, and what it must not be used for.

A card is one dictionary of facts, stored as JSON, and a page generated from it. The idea is from Mitchell et al., 2019.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer import __version__
from tf_transformer.errors import UserError
from tf_transformer.files.whole import written_whole
from tf_transformer.score_table import score_table

if TYPE_CHECKING:
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.recipe import Recipe
    from tf_transformer.recipe.data_settings import SourceSettings
    from tf_transformer.runs.directory import RunDirectory

CARD, FACTS = "model_card.md", "model_card.json"
# Of scores.json, what a card tells; in this order.
SCORES = ("bleu", "chrf", "f1", "recall", "precision", "complete_match", "perplexity", "sentences")
SIGNATURES = ("signature", "chrf_signature")

Facts = dict[str, Any]

LIMITS = {
    "translation": """\
- The model has learned only from its training text, including its mistakes. Translations of text from another domain,
  language or period are often wrong, even if they read fluently.
- It can omit, add or change meaning without any warning. Names, numbers and negations are most often wrong.
- It reproduces the biases of its training text about people and groups.
- Do not use it alone where an error can harm someone, such as in medicine, law, safety, asylum or employment. There, a
  person who knows both languages must check each sentence.""",
    "parsing": """\
- The model has learned the kind of text in its treebank, with that treebank's labels and conventions. It parses other
  text less accurately.
- Every sentence gets a tree, even an ungrammatical one: a tree does not show that a sentence is correct.
- Do not use it as the only basis for a decision about a person, such as a grade or a diagnosis.""",
}
TOY = (
    "- Its corpus is generated from a grammar with a few dozen words. It is a demonstration, of no use for other text."
)


def versions() -> dict[str, str]:
    """The versions of the packages that train and export."""
    return {
        "tf_transformer": __version__,
        **{name: importlib.metadata.version(name) for name in ("tensorflow", "keras")},
    }


def facts_of_run(run: RunDirectory) -> Facts:
    """The facts about a run's model, from the files in its folder.

    Raises:
        UserError: the recipe can't be read.
    """
    from tf_transformer.recipe import DEMO_SPLITS, load_recipe

    recipe = load_recipe(run.recipe)
    began, scores = run.read_training(), read_json(run.scores)
    files = [run.chosen] if run.chosen else run.by_preference()
    checkpoint = next((file.name for file in files if file.is_file()), None)
    data = recipe.data
    facts = {
        "name": recipe.name,
        "task": recipe.task,
        "source_language": data.source_language,
        "target_language": data.target_language if recipe.task == "translation" else None,
        "model": {"parameters": began.get("parameters"), **_set(recipe.model)},
        "tokenizer": {key: value for key, value in _set(recipe.tokenizer).items() if key != "keep"},
        "corpus": {
            **{key: value for key, value in _set(data).items() if key in ("kind", "dataset", *DEMO_SPLITS)},
            **({"train": _in_words(data.sources())} if data.sources() is data.train else {}),
            **({"also scored": recipe.evaluation.also} if recipe.evaluation.also else {}),
            "checksums": began.get("corpus"),
        },
        "training": {
            "seed": recipe.seed,
            **{key: data.model_dump()[key] for key in ("batch_tokens", "max_length")},
            **_set(recipe.training),
            "devices": began.get("devices"),
        },
        **({"fine_tuned_from": _origin(recipe, began)} if recipe.init_from else {}),
        "checkpoint": checkpoint,
        "scores": {key: scores[key] for key in ("set", "source", "trees", *SCORES, *SIGNATURES) if key in scores}
        or None,
        **({"comparison": comparison} if (comparison := score_table(scores)) else {}),
        "decoding": recipe.evaluation.model_dump(exclude={"also"}),
        "versions": began.get("versions"),
    }
    if began.get("imported"):  # what it was trained on and how is not known
        del facts["corpus"], facts["training"]
        facts["imported"] = began["imported"]
    return facts


def facts_of_ensemble(runs: Sequence[RunDirectory], options: DecodingOptions) -> Facts:
    """The facts about the models of several runs as an ensemble; what is known of each is in the list `members`."""
    members = [facts_of_run(run) for run in runs]
    sizes = [member["model"]["parameters"] for member in members]
    shared = ("task", "source_language", "target_language", "tokenizer")
    return {
        "name": " + ".join(member["name"] for member in members),
        **{key: members[0][key] for key in shared},
        "model": {"kind": "ensemble", "models": len(runs), "parameters": sum(sizes) if all(sizes) else None},
        "members": members,
        "scores": None,
        "decoding": asdict(options),
        "versions": versions(),
    }


def _origin(recipe: Recipe, began: Facts) -> Facts:
    """What a run's weights began as."""
    known = began.get("fine_tuned_from") or {}
    tokens = known.get("tokens") or {}
    return {
        "model": recipe.init_from,
        **{key: known.get(key) for key in ("checkpoint", "sha256")},
        "tokenizer": "kept" if recipe.tokenizer.keep else "new",
        **{f"{side} tokens {what}": n for side, counts in tokens.items() for what, n in counts.items()},
        "frozen layers": ", ".join(recipe.training.freeze) or "none",
    }


def facts_of_model(model: SequenceModel, options: DecodingOptions, task: str = "translation") -> Facts:
    """The facts about a model that was trained from Python, without a recipe."""
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
    """A context in which a run's model or scores change; updates the card at the end, unless it was edited by hand."""
    yield
    if not run.card.exists() or _is_generated(run.card.read_text(encoding="utf-8", errors="replace")):
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
    from tf_transformer.runs.directory import RunDirectory, is_run

    if is_run(path):
        facts = facts_of_run(RunDirectory.of_model(path))
        return as_markdown(facts), facts
    if (path / "saved_model.pb").is_file():
        folder = path / "assets.extra"
    elif (path / "model.bin").is_file():
        folder = path
    else:
        raise UserError(f"{path}: not a model; give the folder of a run, of a SavedModel or of a CTranslate2 model")
    try:
        return (folder / CARD).read_text(encoding="utf-8"), json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: has no model card, like all exports of earlier versions; export it again") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: the model card can't be read ({error}); export the model again") from None


def source_language(path: Path) -> str | None:
    """The code of the language that a model translates from; None where its card, if it has one, does not say so.

    Args:
        path: as `read_card` takes it.
    """
    return _fact(path, "source_language")


def task(path: Path) -> str | None:
    """What a model does, "translation" or "parsing"; None where its card, if it has one, does not say so.

    Args:
        path: as `read_card` takes it.
    """
    return _fact(path, "task")


def _fact(path: Path, key: str) -> str | None:
    try:
        return read_card(path)[1].get(key)
    except UserError:
        return None


def as_markdown(facts: Facts, use: str | None = None) -> str:
    """The page; `use` is the sentence that tells how the model is used, where this package's commands don't take it."""
    task, model = facts["task"], facts["model"]
    kind = model.get("kind", "model")
    parts = [f"# {facts['name']}", _what_it_is(facts, kind, use)]
    is_toy = any(each.get("corpus", {}).get("kind") == "demo" for each in facts.get("members", [facts]))
    parts += ["## Limits", LIMITS[task] + ("\n" + TOY if is_toy else "")]
    parts += ["## Scores", _scores(facts.get("scores"))]
    if facts.get("comparison"):
        parts += ["All sets that the training scored:", _rows(*facts["comparison"])]
    if "fine_tuned_from" in facts:
        parts += ["## Fine-tuned from", _table(facts["fine_tuned_from"])]
    if "imported" in facts:
        parts += ["## Training text", _imported(facts["imported"]), "## Tokenizer", _table(facts["tokenizer"])]
    elif "members" in facts:
        parts += ["## Tokenizer", _table(facts["tokenizer"])]
        for number, member in enumerate(facts["members"], start=1):
            parts += [f"## Model {number}: {member['name']}", _member(member)]
    elif "corpus" in facts:
        parts += ["## Training text", _table(facts["corpus"])]
        parts += ["## Tokenizer", _table(facts["tokenizer"])]
    else:
        parts += ["## Training text", "Not known: the model was trained from Python, without a recipe."]
    parts += ["## Model", _table(model)]
    if "training" in facts:
        parts += ["## Training", _table(facts["training"])]
    parts += ["## Decoding"]
    parts += [_table(facts["decoding"])]
    parts += ["## Versions", _table(facts["versions"] or {})]
    return _signed("\n\n".join(parts) + "\n")


def _signed(page: str) -> str:
    """A page with a last line, which Markdown does not show, by which it is known whether somebody edited it since."""
    checksum = hashlib.sha256(page.encode()).hexdigest()
    return f"{page}\n<!-- Generated by tf_transformer. SHA-256 of the unedited page above: {checksum} -->\n"


def _is_generated(page: str) -> bool:
    """Whether a page is as it was generated, by whichever version, and from whatever facts."""
    return _signed(page.rpartition("\n<!--")[0]) == page


def _what_it_is(facts: Facts, kind: str, use: str | None) -> str:
    size = facts["model"]["parameters"]
    numbered = f" with {size:,} parameters" if size else ""
    if facts["task"] == "parsing":
        does = "It parses sentences, with spaces between their words, into constituency trees."
    elif "source_language" in facts:
        does = f"It translates from {facts['source_language']} to {facts['target_language']}."
    else:
        does = "It translates text."
    trained = (
        f" The weights are those of the run's checkpoint `{facts['checkpoint']}`." if facts.get("checkpoint") else ""
    )
    command = "parse" if facts["task"] == "parsing" else "translate"
    use = use or f"To use it, run `tf-transformer {command} FOLDER` with the folder of the model."
    if "members" in facts:
        kind = f"{kind} of {len(facts['members'])} models"
    origin = f", fine-tuned from `{facts['fine_tuned_from']['model']}`" if "fine_tuned_from" in facts else ""
    article = "An" if kind[0] in "aeiou" else "A"
    made = "imported from another library" if "imported" in facts else f"trained with tf_transformer{origin}"
    return f"{article} {kind}{numbered}, {made}. {does} {use}{trained}"


def _imported(origin: Mapping[str, str]) -> str:
    return (
        f"Not known: the model is the {origin['format']} model `{origin['name']}`, imported. Its own documentation "
        "says what it was trained on, whom to credit and under which licence; OPUS-MT's models are under CC-BY 4.0.\n\n"
        f"The SHA-256 of the weights that were imported is `{origin['weights']}`."
    )


def _member(facts: Facts) -> str:
    """What an ensemble's card tells of one of its models."""
    weights = {"checkpoint": facts["checkpoint"]}
    return "\n\n".join(
        [
            _table({**weights, **facts["model"]}),
            "Its scores alone:",
            _scores(facts["scores"]),
            "Its training text:",
            _imported(facts["imported"]) if "imported" in facts else _table(facts["corpus"]),
            "Its training:",
            _table(facts.get("training", {})),
        ]
    )


def _scores(scores: Mapping[str, Any] | None) -> str:
    if not scores:
        return "Not known."
    where = scores.get("source") or scores.get("trees") or scores.get("set")
    rows = [f"| {name} | {scores[name]:,.6g} |" for name in SCORES if name in scores]
    table = "\n".join([f"| on {where} | |", "| --- | --- |", *rows])
    return "\n\n".join([table, *(f"`{scores[name]}`" for name in SIGNATURES if name in scores)])


def _rows(head: list[str], *rows: list[str]) -> str:
    """A table of any number of columns."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def _table(values: Mapping[str, Any]) -> str:
    """A table of two columns; unknown values are shown as such."""
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
    return {key: value for key, value in section.model_dump().items() if value not in (None, ())}


def _in_words(sources: Iterable[SourceSettings]) -> str:
    """Several sources of training text."""
    words = []
    for source in sources:
        tag = f", tag {source.tag}" if source.tag else ""
        words.append(f"{source.name} (weight {source.weight:g}{tag})")
    return "; ".join(words)


def _plain(config: Mapping[str, Any]) -> Facts:
    """The numbers, texts and booleans of a Keras configuration."""
    names = ("name", "trainable")
    return {k: v for k, v in config.items() if isinstance(v, int | float | str) and k not in names}


def read_json(path: Path) -> Facts:
    """The content of a run's JSON file; empty if it is missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
