"""The pairs of a recipe. Nothing here imports TensorFlow, so that a missing file is told at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_transformer.data.aligned import AlignedPairs
from tf_transformer.data.changed import NoisyPairs, TaggedPairs
from tf_transformer.data.demo import DemoSource
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.pairs import Source
from tf_transformer.data.placeholders import PlaceholderPairs
from tf_transformer.data.sources import TextFiles, TfdsSource, TsvFile
from tf_transformer.errors import UserError
from tf_transformer.files.home import below_home
from tf_transformer.parsing.demo import DemoTrees
from tf_transformer.parsing.pairs import TreePairs
from tf_transformer.parsing.reading import TreeFiles
from tf_transformer.recipe import Recipe

if TYPE_CHECKING:
    from tf_transformer.data.prepared.store import PreparedSource


def open_source(recipe: Recipe, split: str) -> Source:
    """Opens the pairs of a split.

    Args:
        recipe: its section `data` says where they are.
        split: "train", "validation" or "test".

    Returns:
        Pairs of source and target text, to be iterated over as often as one likes; for task parsing `TreePairs`, and
        of several sources a `Mixture`.

    Raises:
        UserError: they can't be read.
    """
    open_one = OPENERS[recipe.data.kind]
    if split != "train":
        return open_one(recipe, getattr(recipe.data, split))
    sources, copies = [], []
    for source in recipe.data.sources():
        pairs = open_one(recipe, source.files)
        if source.noise:
            pairs = NoisyPairs(pairs, source.noise.noise())
        if recipe.data.placeholders:  # of the text alone: a tag, put before the copy too, is to stay as it is
            copy = _tagged(PlaceholderPairs(pairs), source.tag)
            copies.append(WeightedSource(f"{source.name}, with placeholders", copy))
        pairs = _tagged(pairs, source.tag)
        if source.alignments:
            pairs = AlignedPairs(pairs, _path(recipe, source.alignments), words_before=1 if source.tag else 0)
        sources.append(WeightedSource(source.name, pairs))
    sources += copies
    return Mixture(sources) if len(sources) > 1 else sources[0].pairs


def open_also(recipe: Recipe) -> dict[str, Source]:
    """Opens the sets of `evaluation.also`, by name.

    Raises:
        UserError: one can't be read.
    """
    open_one = _trees if recipe.task == "parsing" else _files
    return {name: open_one(recipe, where) for name, where in (recipe.evaluation.also or {}).items()}


def check_files(recipe: Recipe) -> None:
    """Opens and closes every file of pairs that a recipe names, but for a dataset of TensorFlow Datasets.

    Raises:
        UserError: one is missing or can't be read, or `data.prepared` names no possible folder.
    """
    shared_folder(recipe)
    if recipe.data.kind != "tfds":  # whose library takes seconds to import
        for split in ("train", "validation", *(["test"] if recipe.data.test else [])):
            open_source(recipe, split)
    open_also(recipe)


def shared_folder(recipe: Recipe) -> Path | None:
    """The folder that `data.prepared` names; None where the prepared data goes into the run's folder.

    Raises:
        UserError: it is below the home folder of a user who does not exist.
    """
    given = recipe.data.prepared
    if given is None:
        return None
    folder = below_home(given)
    if given.startswith("~") and folder == Path(given):  # a folder of this name would be made in the current one
        raise UserError(
            f"data.prepared is {given}, but there is no home folder {folder.parts[0]}; give the folder's whole path, "
            f"or ./{given} if its name begins with ~"
        )
    return folder


def settings_of(recipe: Recipe, split: str) -> dict[str, Any]:
    """What decides which pairs a split has, but for what its files hold."""
    data = recipe.data
    sources = data.sources() if split == "train" else ()
    settings = {
        "kind": data.kind,
        "files": [source.files for source in sources] or [getattr(data, split)],
        "tag": [source.tag for source in sources],
        "tags": data.tags,
        "invalid_utf8": data.invalid_utf8,
        "damaged": data.damaged,
    }
    if any(source.noise for source in sources):  # else what was prepared by an earlier version is still right
        settings["noise"] = [source.noise and source.noise.model_dump() for source in sources]
    if any(source.alignments for source in sources):
        settings["alignments"] = [source.alignments for source in sources]
    if split == "train" and data.placeholders:
        # How often they come is decided where batches are made. An earlier version put them into tags as well.
        settings["placeholders"] = "not in tags" if any(source.tag for source in sources) else True
    if data.kind == "tfds":
        keys = ("dataset", "source_language", "target_language")
        settings |= {key: getattr(data, key) for key in keys}
    return settings


def lines_left_out(source: Source | PreparedSource) -> list[str]:
    """What a pass over a source left out because the recipe said so, in a line for each."""
    lines = [f"{source.skipped:,} pairs skipped for invalid UTF-8"] if source.skipped else []
    return [*lines, *source.lost]


def _tagged(pairs: Source, tag: str | None) -> Source:
    return TaggedPairs(pairs, tag) if tag else pairs


def _demo(recipe: Recipe, where: str) -> Source:
    return TreePairs(DemoTrees(where), recipe.data.tags) if recipe.task == "parsing" else DemoSource(where)


def _files(recipe: Recipe, where: tuple[str, str]) -> Source:
    source, target = (_path(recipe, path) for path in where)
    return TextFiles(source, target, recipe.data.invalid_utf8, recipe.data.damaged)


def _tsv(recipe: Recipe, where: str) -> Source:
    return TsvFile(_path(recipe, where), recipe.data.invalid_utf8, recipe.data.damaged)


def _tfds(recipe: Recipe, where: str) -> Source:
    data = recipe.data
    return TfdsSource(data.dataset, where, data.source_language, data.target_language, data.root, data.damaged)


def _trees(recipe: Recipe, where: str) -> Source:
    return TreePairs(TreeFiles(_path(recipe, where), recipe.data.tags), recipe.data.tags)


def _none(recipe: Recipe, where: None) -> Source:
    raise UserError(
        "data.kind is none, as for an imported model: there is nothing to train on; write a recipe with its own data"
    )


def _path(recipe: Recipe, path: str) -> Path:
    return Path(recipe.data.root or ".") / below_home(path)


# What opens a split, by `data.kind`: a function of the recipe and of what it says of the split.
OPENERS: dict[str, Callable[[Recipe, Any], Source]] = {
    "demo": _demo,
    "files": _files,
    "tsv": _tsv,
    "tfds": _tfds,
    "trees": _trees,
    "none": _none,
}
