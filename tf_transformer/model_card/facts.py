"""What is known of a model: what it was trained on, how, and what it scores."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer import __version__
from tf_transformer.evaluation.table import score_table
from tf_transformer.runs.directory import AVERAGE, BEST
from tf_transformer.runs.loading import identity
from tf_transformer.tokenizers.language_tags import read_tags

if TYPE_CHECKING:
    from tf_transformer.decoding.options import DecodingOptions
    from tf_transformer.models.sequence_model import SequenceModel
    from tf_transformer.recipe import Recipe
    from tf_transformer.recipe.data_settings import SourceSettings
    from tf_transformer.runs.directory import RunDirectory


# Of scores.json, what a card tells; in this order.
SCORES = ("bleu", "chrf", "f1", "recall", "precision", "complete_match", "perplexity", "sentences")
SIGNATURES = ("signature", "chrf_signature")

Facts = dict[str, Any]


def versions() -> dict[str, str]:
    """The versions of the packages that train and export."""
    return {
        "tf_transformer": __version__,
        **{name: importlib.metadata.version(name) for name in ("tensorflow", "keras")},
    }


def facts_of_run(run: RunDirectory, options: DecodingOptions | None = None) -> Facts:
    """The facts about a run's model, from the files in its folder.

    Args:
        run: the run directory.
        options: how the model is to search, of an export; as its recipe says unless given.

    Raises:
        UserError: the recipe can't be read.
    """
    from tf_transformer.recipe import DEMO_SPLITS, load_recipe

    recipe = load_recipe(run.recipe)
    began, data = run.read_training(), recipe.data
    files = [run.chosen] if run.chosen else run.by_preference()
    checkpoint = next((file for file in files if file.is_file()), None)
    scores = _scores_of(checkpoint, recipe, run.read_scores()) if checkpoint else {}
    own = _decoding(recipe)
    changed = _differing(asdict(options), asdict(recipe.evaluation.decoding_options())) if options else {}
    decoding = own | changed
    told = {key: scores[key] for key in ("set", "source", "trees", *SCORES, *SIGNATURES) if key in scores}
    if told and (unlike := _differing(own | _differing(scores, own), decoding)):
        told["decoding"] = unlike
    facts = {
        "name": recipe.name,
        "task": recipe.task,
        "source_language": data.source_language,
        "target_language": data.target_language if recipe.task == "translation" else None,
        "model": {"parameters": began.get("parameters"), **_set(recipe.model)},
        "tokenizer": {
            **{key: value for key, value in _set(recipe.tokenizer).items() if key != "keep"},
            **_tagged(read_tags(run.tokenizer)),
        },
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
        "checkpoint": checkpoint.name if checkpoint else None,
        "scores": told or None,
        **({"comparison": comparison} if (comparison := score_table(scores)) else {}),
        "decoding": decoding,
        "versions": began.get("versions"),
    }
    if began.get("imported"):  # what it was trained on and how is not known
        del facts["corpus"], facts["training"]
        facts["imported"] = began["imported"]
    return facts


def _scores_of(checkpoint: Path, recipe: Recipe, written: Sequence[Facts]) -> Facts:
    """A run's scores that are of a checkpoint; empty if it was not scored.

    They are the training's own, whatever `evaluate` scored since; else the newest with the recipe's options, which are
    no mere trial of others; else the newest.

    Args:
        checkpoint: its file.
        recipe: the run's recipe.
        written: all of the run's scores, newest first.
    """
    weights = identity(checkpoint).get("weights")
    result = AVERAGE if recipe.training.average_checkpoints else BEST

    def fits(scores: Facts) -> bool:
        if "weights" in scores:
            return scores["weights"] == weights
        # Those of earlier versions don't say whose they are; what a training scored at its end, which has the name of
        # its set, are its result's.
        return "set" in scores and checkpoint.name == result

    own = _decoding(recipe)
    fitting = [scores for scores in written if fits(scores)]
    return max(fitting, key=lambda scores: ("set" in scores, not _differing(scores, own)), default={})


def _decoding(recipe: Recipe) -> Facts:
    """How a recipe's model translates and is scored; `also` is the name of something else in `scores.json`."""
    return recipe.evaluation.model_dump(exclude={"also"})


def _differing(values: Facts, others: Facts) -> Facts:
    """The values that have another one under the same key of `others`."""
    return {key: value for key, value in values.items() if key in others and value != others[key]}


def facts_of_ensemble(runs: Sequence[RunDirectory], options: DecodingOptions) -> Facts:
    """The facts about the models of several runs as an ensemble; what is known of each is in the list `members`."""
    members = [facts_of_run(run, options) for run in runs]
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


def facts_of_model(
    model: SequenceModel, options: DecodingOptions, task: str = "translation", tags: Sequence[str] = ()
) -> Facts:
    """The facts about a model that was trained from Python, without a recipe; `tags` are its language tags."""
    return {
        "name": model.name,
        "task": task,
        "model": {"parameters": model.count_params(), **_plain(model.get_config())},
        **({"tokenizer": _tagged(tags)} if tags else {}),
        "decoding": asdict(options),
        "versions": versions(),
    }


def language_tags_of(facts: Facts) -> list[str]:
    """The tags of a multilingual model, such as `>>deu<<`; none of another, nor where its card does not name them."""
    return (facts.get("tokenizer") or {}).get("language_tags", [])


def _tagged(tags: Sequence[str]) -> Facts:
    return {"language_tags": list(tags)} if tags else {}


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
