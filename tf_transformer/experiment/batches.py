"""The batches of a recipe's training and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tf_transformer.data.prepared.batches import EndlessBatches, PreparedBatches
from tf_transformer.data.prepared.store import PreparedPairs
from tf_transformer.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

    from tf_transformer.tokenizers import TokenizerPair


class PreparedData(NamedTuple):
    """What batches are made of."""

    tokenizers: TokenizerPair
    train: PreparedPairs
    validation: PreparedPairs


def batches_of(recipe: Recipe, prepared: PreparedPairs, row_multiple: int) -> PreparedBatches:
    """The batches that a recipe makes of a split's prepared pairs."""
    return PreparedBatches(
        prepared,
        batch_tokens=recipe.data.batch_tokens,
        max_length=recipe.data.max_length,
        row_multiple=row_multiple,
        fixed_shapes=recipe.training.jit_compile,  # XLA compiles each shape
    )


def recipe_batches(recipe: Recipe, data: PreparedData, row_multiple: int) -> tuple[EndlessBatches, tf.data.Dataset]:
    """Makes the batches of training, endless, and of validation."""
    weights = [source.weight for source in recipe.data.sources()]
    if share := recipe.data.placeholders:
        weights += [weight * share for weight in weights]  # as `open_source` has them
    return (
        batches_of(recipe, data.train, row_multiple).endless(recipe.seed, weights),
        batches_of(recipe, data.validation, row_multiple).once(),
    )
