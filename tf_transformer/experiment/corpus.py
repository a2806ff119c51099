"""The pairs of a recipe, and the batches that they make."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tf_transformer.data.batching import make_batches, padding_share, with_known_length
from tf_transformer.data.demo import DemoSource
from tf_transformer.data.filters import count_pairs
from tf_transformer.data.sources import TextFiles, TfdsSource, TsvFile
from tf_transformer.errors import UserError
from tf_transformer.parsing.bank import DemoTrees
from tf_transformer.parsing.pairs import TreePairs
from tf_transformer.parsing.reading import TreeFiles
from tf_transformer.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

    from tf_transformer.tokenizers import TokenizerPair

Pairs = Iterable[tuple[str, str]]

# Enough of a large corpus to tell how much of its batches is padding.
PADDING_BATCHES = 1000


def open_source(recipe: Recipe, split: str) -> Pairs:
    """Opens the pairs of a split.

    Args:
        recipe: its section `data` says where they are.
        split: "train", "validation" or "test".

    Returns:
        Pairs of source and target text, to be iterated over as often as one likes; for task parsing `TreePairs`.

    Raises:
        UserError: they can't be read.
    """
    return OPENERS[recipe.data.kind](recipe, getattr(recipe.data, split))


def _demo(recipe: Recipe, where: str) -> Pairs:
    return TreePairs(DemoTrees(where), recipe.data.tags) if recipe.task == "parsing" else DemoSource(where)


def _files(recipe: Recipe, where: tuple[str, str]) -> Pairs:
    source, target = (_root(recipe) / path for path in where)
    return TextFiles(source, target, recipe.data.invalid_utf8, recipe.data.damaged)


def _tsv(recipe: Recipe, where: str) -> Pairs:
    return TsvFile(_root(recipe) / where, recipe.data.invalid_utf8, recipe.data.damaged)


def _tfds(recipe: Recipe, where: str) -> Pairs:
    data = recipe.data
    return TfdsSource(data.dataset, where, data.source_language, data.target_language, data.root, data.damaged)


def _trees(recipe: Recipe, where: str) -> Pairs:
    return TreePairs(TreeFiles(_root(recipe) / where), recipe.data.tags)


def _root(recipe: Recipe) -> Path:
    return Path(recipe.data.root or ".")


# What opens a split, by `data.kind`: a function of the recipe and of what it says of the split.
OPENERS: dict[str, Callable[[Recipe, Any], Pairs]] = {
    "demo": _demo,
    "files": _files,
    "tsv": _tsv,
    "tfds": _tfds,
    "trees": _trees,
}


def fingerprint(pairs: Pairs) -> str:
    """Tells a corpus from any other, in one pass: how many pairs it has, and a checksum of their texts.

    Raises:
        UserError: they can't be read.
    """
    number, checksum = 0, 0
    for pair in pairs:
        number += 1
        checksum = zlib.crc32("\t".join((*pair, "")).encode(), checksum)
    return f"{number:,} pairs, CRC-32 {checksum:08x}"


def recipe_batches(
    recipe: Recipe, tokenizers: TokenizerPair, train_pairs: Pairs, validation_pairs: Pairs, row_multiple: int
) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Makes the batches of training, endless, and of validation."""
    plain, shuffled = _batch_options(recipe, row_multiple)
    return (
        make_batches(train_pairs, tokenizers, **plain, **shuffled, repeat=True),
        with_known_length(make_batches(validation_pairs, tokenizers, **plain)),
    )


def tell_batches(
    recipe: Recipe,
    tokenizers: TokenizerPair,
    train_pairs: Pairs,
    validation_pairs: Pairs,
    row_multiple: int,
    console: Console,
) -> None:
    """Tells what the batches of a recipe hold, and warns of a corpus that looks like a mistake.

    Raises:
        UserError: of training or of validation no pair is left.
    """
    for name, pairs in ("train", train_pairs), ("validation", validation_pairs):
        counts = count_pairs(pairs, tokenizers, max_length=recipe.data.max_length, max_ratio=recipe.data.max_ratio)
        if not counts.kept:
            raise UserError(f"data.{name}: no pair is left ({counts}); raise data.max_length or data.max_ratio")
        console.print(f"{name}: {counts}", highlight=False)
        for doubt in counts.doubts():
            console.print(f"{name}: warning: {doubt}; check what data.{name} names", highlight=False)
        tell_left_out(name, pairs, console)
    plain, shuffled = _batch_options(recipe, row_multiple)
    share = padding_share(make_batches(train_pairs, tokenizers, **plain, **shuffled), first=PADDING_BATCHES)
    console.print(f"padding: {share:.1%} of the positions", highlight=False)


def _batch_options(recipe: Recipe, row_multiple: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of `make_batches`, and those that shuffle."""
    data = recipe.data
    plain = {
        "batch_tokens": data.batch_tokens,
        "max_length": data.max_length,
        "max_ratio": data.max_ratio,
        "row_multiple": row_multiple,
        "fixed_shapes": recipe.training.jit_compile,  # XLA compiles each shape
    }
    return plain, {"shuffle_buffer": data.shuffle_buffer, "seed": recipe.seed}


def tell_left_out(name: str, pairs: Pairs, console: Console) -> None:
    """Tells what the latest pass left out because the recipe said so."""
    if getattr(pairs, "skipped", 0):
        console.print(f"{name}: {pairs.skipped:,} pairs skipped for invalid UTF-8", highlight=False)
    for lost in getattr(pairs, "lost", ()):
        console.print(f"{name}: {lost}", highlight=False, markup=False)
