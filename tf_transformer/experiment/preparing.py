"""Prepares the data of a recipe: its tokenizers, and training and validation pairs, tokenised once."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from tf_transformer.console import tell
from tf_transformer.data.pairs import Pairs
from tf_transformer.data.prepared.preparing import prepare_pairs, told_in_one_line
from tf_transformer.errors import UserError
from tf_transformer.experiment.batches import PreparedData, recipe_batches
from tf_transformer.experiment.corpus import lines_left_out, open_source, settings_of, shared_folder
from tf_transformer.experiment.fine_tuning import begins_from_model, open_origin
from tf_transformer.experiment.resuming import Beginning, changed_since, find_beginning, run_of
from tf_transformer.experiment.vocabulary import check_placeholders, learned_tokenizers
from tf_transformer.recipe import Recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.training_lock import LOCK_SECONDS
from tf_transformer.tokenizers import TokenizerPair


def prepare(recipe: Recipe, run_path: str | os.PathLike, console: Console | None = None) -> Path:
    """Prepares the data of a recipe, without training.

    Args:
        recipe: the recipe to train.
        run_path: the folder to train in; the data is written there unless `data.prepared` names another.
        console: where progress is printed; None for no output.

    Returns:
        The folder of the prepared data.

    Raises:
        UserError: a mistake in the recipe's data, or, without `data.prepared`, a folder that contains another run.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> recipe = tt.load_recipe("train/recipes/demo.yaml", ["data.train=test"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     prepared = prepare(recipe, f"{folder}/runs/demo")
        ...     sorted(path.name for path in prepared.iterdir())
        ['lock', 'tokenizer', 'train', 'validation']
    """
    console = console or Console(quiet=True)
    run = RunDirectory(run_path)
    beginning = _beginning(recipe, run)
    with ExitStack() as held:
        if recipe.data.prepared is None:
            if not beginning.goes_on:
                run = RunDirectory.create(run.path)
            held.enter_context(run.locked(LOCK_SECONDS))
            beginning = _beginning(recipe, run) if beginning.goes_on else beginning  # it may have ended until now
        train_pairs, validation_pairs = open_source(recipe, "train"), open_source(recipe, "validation")
        kept = open_origin(recipe).kept_tokenizers(recipe) if begins_from_model(recipe, beginning) else None
        data = prepare_data(recipe, run, beginning, train_pairs, validation_pairs, console, kept)
        tell_data(recipe, data, 1, console)
    return prepared_folder(recipe, run)


def _beginning(recipe: Recipe, run: RunDirectory) -> Beginning:
    """Where the training begins that is prepared for.

    With `data.prepared`, nothing is written to the run's folder, which may hold any other run then. Only a training of
    this recipe that was broken off there matters: it goes on with its own tokenizers.
    """
    if recipe.data.prepared and not (run.is_unfinished() and not changed_since(recipe, run)):
        return Beginning(goes_on=False, has_state=False)
    return find_beginning(recipe, run, "auto")


def prepared_folder(recipe: Recipe, run: RunDirectory) -> Path:
    """Where the prepared data of a run lies."""
    return shared_folder(recipe) or run.prepared


def prepare_data(
    recipe: Recipe,
    run: RunDirectory,
    beginning: Beginning,
    train_pairs: Pairs,
    validation_pairs: Pairs,
    console: Console,
    kept: TokenizerPair | None = None,
) -> PreparedData:
    """Opens the prepared data of a training, and makes what is missing or changed.

    Args:
        recipe: the experiment.
        run: its folder.
        beginning: where the training begins: one that goes on from a state has its tokenizers.
        train_pairs: what `open_source` gives.
        validation_pairs: likewise.
        console: where progress is shown, and what is prepared again.
        kept: the tokenizers of the model that the training begins with, if it keeps them.

    Raises:
        UserError: the pairs can't be read, or no vocabulary can be learned from them; or the folder can't be written;
            or the recipe has placeholders, and another run's tokenizers have none.
    """
    folder = prepared_folder(recipe, run)
    with told_in_one_line(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if beginning.origin:
        tokenizers = run_of(beginning.origin).load_tokenizers()
    elif beginning.has_state:
        tokenizers = run.load_tokenizers()
    elif kept:
        tokenizers = kept
    else:
        tokenizers = learned_tokenizers(recipe, train_pairs, folder, console)
    if not beginning.has_state:
        check_placeholders(recipe, tokenizers)
    limits = {"max_length": recipe.data.max_length, "max_ratio": recipe.data.max_ratio}
    # First what is small, so that a mistake in it is told at once.
    validation, train = (
        prepare_pairs(pairs, tokenizers, folder / split, **limits, settings=settings_of(recipe, split), console=console)
        for split, pairs in (("validation", validation_pairs), ("train", train_pairs))
    )
    return PreparedData(tokenizers, train, validation)


def tell_data(recipe: Recipe, data: PreparedData, row_multiple: int, console: Console) -> None:
    """Tells what the batches of a recipe hold, and warns of a corpus that looks like a mistake.

    Raises:
        UserError: of training or of validation no pair is left.
    """
    for split, prepared in ("train", data.train), ("validation", data.validation):
        sources = prepared.manifest.sources
        if not len(prepared):
            counts = "; ".join(str(source.counts) for source in sources)
            lacks_tags = any(source.counts.unknown_tag for source in sources)
            advice = (
                "give trees with the tags that the tokenizer knows"
                if lacks_tags
                else "raise data.max_length or data.max_ratio"
            )
            raise UserError(f"data.{split}: no pair is left ({counts}); {advice}")
        for source in sources:
            name = f"{split}, {source.name}" if len(sources) > 1 else split
            told = [str(source.counts)]
            told += [f"{source.aligned:,} pairs with an alignment"] if source.aligned else []
            told += [f"warning: {doubt}; check data.{split}" for doubt in source.counts.doubts()]
            for line in told + lines_left_out(source):
                tell(console, f"{name}: {line}")
    if any(source.alignments for source in recipe.data.sources()) and not data.train.links:
        raise UserError(
            "data.alignments: none of the pairs that are left has an alignment; give those of this training text"
        )
    share = recipe_batches(recipe, data, row_multiple)[0].padding_share()
    tell(console, f"padding: {share:.1%} of the positions")
