"""Fine-tuning: a training that begins with another model's weights, on its tokenizer or a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from tf_transformer.console import tell
from tf_transformer.data.pairs import Pairs
from tf_transformer.errors import UserError
from tf_transformer.evaluation.table import in_short
from tf_transformer.experiment.resuming import Beginning
from tf_transformer.experiment.scoring import evaluate_sets
from tf_transformer.files.checksums import digest
from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.models.sequence_model import SequenceModel
from tf_transformer.recipe import Recipe, load_recipe
from tf_transformer.recipe.origin import origin_run
from tf_transformer.recipe.refusals import shown
from tf_transformer.runs.loading import load_model
from tf_transformer.tokenizers import TokenizerPair, TokenMapping, map_tokens
from tf_transformer.training.freezing import path_in_model

# What a fine-tuning may have otherwise: no weight depends on it.
FREE = ("preset", "dropout_rate", "attention_dropout_rate", "activation_dropout_rate", "window", "alignment_head")

_ADVICE = {
    "task": " (give the same)",
    "data": " (leave it out)",
    "tokenizer": " (tokenizer.keep: false learns a new one)",
}

# The weights that have a row, or a column, for each token: whose tokens, and along which axis.
OF_TOKENS = {
    "encoder/embedding/embeddings": ("source", 0),
    "decoder/embedding/embeddings": ("target", 0),
    "projection/kernel": ("target", 1),
    "bias": ("target", 0),  # on the logits, where a model has one
}


@dataclass(frozen=True)
class Origin:
    """The model that a training begins with.

    Attributes:
        given: how the recipe names it.
        checkpoint: its file.
        model: the model itself, in float32.
        tokenizers: its tokenizers.
        sha256: the file's checksum as it was loaded; another file may take its place while the data is prepared.
    """

    given: str
    checkpoint: Path
    model: SequenceModel
    tokenizers: TokenizerPair
    sha256: str

    def kept_tokenizers(self, recipe: Recipe) -> TokenizerPair | None:
        """Its tokenizers, if a recipe keeps them."""
        return self.tokenizers if recipe.tokenizer.keep else None

    def record(self) -> dict[str, Any]:
        """What a run remembers of it."""
        return {"init_from": self.given, "checkpoint": self.checkpoint.name, "sha256": self.sha256}


def begins_from_model(recipe: Recipe, beginning: Beginning) -> bool:
    """Whether a training begins with another model's weights, and has no state yet that holds them."""
    return recipe.init_from is not None and not beginning.has_state and not beginning.origin


def open_origin(recipe: Recipe) -> Origin:
    """Opens the model that a recipe's `init_from` names.

    Raises:
        UserError: there is none, it is damaged, or it does not fit the recipe; then all that differs is told.
    """
    run = origin_run(recipe.init_from)
    different = list(_misfits(recipe, load_recipe(run.recipe)))
    if different:
        raise UserError(
            f"init_from is {recipe.init_from}, whose model does not fit this recipe: {'; '.join(different)}; leave "
            "sizes out to take those of that model, or start from another model"
        )
    checkpoint = run.best_checkpoint()
    sha256 = digest(checkpoint)
    return Origin(recipe.init_from, checkpoint, load_model(checkpoint, "float32"), run.load_tokenizers(), sha256)


def _misfits(recipe: Recipe, theirs: Recipe) -> Iterator[str]:
    """Each setting for which the origin's weights would not do, with both values."""
    # With other tags, each word of a tree would be an unknown token.
    compared = [("task", recipe.task, theirs.task), ("data.tags", recipe.data.tags, theirs.data.tags)]
    model, their_model = _weights_settings(recipe), _weights_settings(theirs)
    compared += [(f"model.{key}", model.get(key), value) for key, value in their_model.items()]
    if recipe.tokenizer.keep:
        tokenizer = theirs.tokenizer.model_dump(exclude={"keep"})
        compared += [(f"tokenizer.{key}", getattr(recipe.tokenizer, key), value) for key, value in tokenizer.items()]
    for key, here, there in compared:
        if here != there:
            advice = _ADVICE.get(key.partition(".")[0], "")
            yield f"{key} is {shown(here)} here and {shown(there)} there{advice}"


def _weights_settings(recipe: Recipe) -> dict[str, Any]:
    """The settings of a model that its weights depend on; one that only says what holds anyway counts as not given."""
    model = recipe.model
    settings = model.model_dump(exclude={*FREE, *MODEL_KINDS[model.kind].without})
    if settings.get("position") != "learned":
        del settings["max_length"]
    width = model.d_model // model.num_heads
    for key, usual in ("decoder_layers", model.num_layers), ("key_dim", width), ("value_dim", width):
        if settings.get(key) == usual:
            settings[key] = None
    return settings


def begin_from(
    origin: Origin,
    model: SequenceModel,
    recipe: Recipe,
    tokenizers: TokenizerPair,
    sets: Mapping[str, Pairs],
    console: Console,
) -> dict[str, Any]:
    """Gives a model the weights of its origin, scores the origin on the sets, and tells both.

    Returns:
        What the run remembers of it.
    """
    counts = take_weights(model, tokenizers, origin)
    _tell_taken(origin, counts, console)
    scores = evaluate_sets(origin.model, origin.tokenizers, recipe, sets)
    for name, figures in scores.items():
        tell(console, f"before training, {name}: {in_short(figures)}")
    return {**origin.record(), "tokens": counts or None, "scores": scores}


def _tell_taken(origin: Origin, counts: dict[str, dict[str, int]], console: Console) -> None:
    lines = [f"weights: from {origin.given}, {origin.checkpoint.name}; schedule and optimizer start again"]
    for side, count in counts.items():
        kept, averaged, new = (f"{count[name]:,}" for name in ("kept", "averaged", "new"))
        lines.append(
            f"weights: {side} vocabulary of {sum(count.values()):,} tokens: {kept} kept, {averaged} averaged from "
            f"their pieces in the old one, {new} new"
        )
    if not counts:
        lines.append("tokenizer: the same as that model's, so all embeddings are kept")
    for line in lines:
        tell(console, line)


def take_weights(model: SequenceModel, tokenizers: TokenizerPair, origin: Origin) -> dict[str, dict[str, int]]:
    """Gives a model the weights of another, of the same sizes but for its vocabularies.

    Args:
        model: built, with the new tokens' first embeddings.
        tokenizers: its tokenizers; where they are the origin's, all embeddings are taken as they are.
        origin: what to take from.

    Returns:
        How many tokens of each vocabulary were kept, averaged and new, by "joint", or "source" and "target"; empty
        where the tokenizers are the origin's.

    Raises:
        UserError: the weights have other shapes than the recipe of the origin says.
    """
    theirs = {path_in_model(weight): keras.ops.convert_to_numpy(weight) for weight in origin.model.weights}
    mappings = _mappings(origin.tokenizers, tokenizers, one_matrix=model.share_embeddings == "all")
    values = {}
    for weight in model.weights:
        path = path_in_model(weight)
        if path not in theirs:
            raise UserError(f"{origin.checkpoint}: has no weight {path}; set init_from to a run of this model")
        value = theirs[path]
        if mappings and path in OF_TOKENS:
            side, axis = OF_TOKENS[path]
            rows, initial = (each.swapaxes(0, axis) for each in (value, keras.ops.convert_to_numpy(weight)))
            value = mappings[side].embeddings(rows, initial).swapaxes(0, axis)
        if value.shape != tuple(weight.shape):
            raise UserError(
                f"{origin.checkpoint}: its weight {path} has shape {value.shape}, but its run's recipe says "
                f"{tuple(weight.shape)}; set init_from to another checkpoint"
            )
        values[path] = value
    for weight in model.weights:
        weight.assign(values[path_in_model(weight)])
    if mappings and mappings["source"] is mappings["target"]:
        return {"joint": mappings["source"].counts()}
    return {side: mapping.counts() for side, mapping in mappings.items()}


def _mappings(old: TokenizerPair, new: TokenizerPair, one_matrix: bool) -> dict[str, TokenMapping]:
    """Of each side which old tokens stand for the new ones; nothing where all tokens are the same.

    An imported MarianMT model has one vocabulary, and yet splits each language with a model of its own: in its one
    matrix a new token may be of either language.
    """
    if old.same_as(new):
        return {}
    if new.joint and (old.joint or one_matrix):
        both = map_tokens(old.source, new.source, None if old.joint else old.target)
        return {"source": both, "target": both}
    return {"source": map_tokens(old.source, new.source), "target": map_tokens(old.target, new.target)}
