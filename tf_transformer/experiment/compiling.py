"""Builds and compiles the model of a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tf_transformer.console import tell
from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.models.sequence_model import SequenceModel
from tf_transformer.parsing.next_word import next_word_tokens, tree_state_tokens
from tf_transformer.recipe import Recipe
from tf_transformer.training.freezing import freeze
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.metrics import AlignmentLoss, Perplexity, TokenAccuracy, TokenCount
from tf_transformer.training.optimizer import make_optimizer

if TYPE_CHECKING:
    from rich.console import Console

    from tf_transformer.tokenizers import TokenizerPair


def make_model(recipe: Recipe, input_vocab_size: int, target_vocab_size: int, **more: Any) -> SequenceModel:
    """Makes a recipe's model, built and compiled.

    Args:
        recipe: the experiment.
        input_vocab_size: number of source tokens.
        target_vocab_size: number of target tokens.
        **more: arguments of the model that are not in a recipe, such as the tokens of `tree_state`.

    Example:
        >>> from tf_transformer.recipe import load_recipe
        >>> recipe = load_recipe("train/recipes/demo.yaml")
        >>> make_model(recipe, input_vocab_size=1000, target_vocab_size=1000).count_params()
        1053696
    """
    arguments = {**recipe.model.arguments(input_vocab_size, target_vocab_size), **more}
    model = MODEL_KINDS[recipe.model.kind].make(**arguments, dtype=recipe.training.precision)
    model.build(((None, None), (None, None)))
    freeze(model, recipe.training.freeze)
    compile_model(model, recipe)
    # What makes variables would be traced twice; and there must be some for a state to be put into.
    model.optimizer.build(model.trainable_variables)
    model.build_metrics()
    return model


def token_arguments(recipe: Recipe, tokenizers: TokenizerPair) -> dict[str, Any]:
    """The arguments of a recipe's model that are about the tokens of a parser: what its decoder is told of them.

    Args:
        recipe: the experiment.
        tokenizers: those that its model is for.

    Returns:
        What `make_model` takes as `more`; nothing for keys that are not of the recipe's kind of model.
    """
    tokens = {"next_word": next_word_tokens, "tree_state": tree_state_tokens}
    without = MODEL_KINDS[recipe.model.kind].without
    told = {key: tokens[key](tokenizers) for key in tokens if getattr(recipe.model, key) and key not in without}
    if "tree_state" in told:
        told["tree_loss"] = recipe.model.tree_loss
    return told


def check_freeze(recipe: Recipe) -> None:
    """Raises a UserError where `training.freeze` names a layer that the recipe's model has not, before data is read."""
    if recipe.training.freeze:
        kind = MODEL_KINDS[recipe.model.kind]
        # Whatever its vocabularies and its tokens, which the data tells.
        arguments = recipe.model.arguments(4, 4)
        if recipe.model.tree_state and "tree_state" not in kind.without:
            arguments |= {"tree_state": [[3], [1], [2], [3]], "tree_loss": recipe.model.tree_loss}
        model = kind.make(**arguments)
        model.build(((None, None), (None, None)))
        freeze(model, recipe.training.freeze)


def tell_frozen(model: SequenceModel, recipe: Recipe, console: Console) -> None:
    """Tells how much of a model `training.freeze` keeps as it is."""
    if recipe.training.freeze:
        frozen = sum(weight.shape.num_elements() for weight in model.non_trainable_weights)
        share = f"{frozen:,} of {model.count_params():,} parameters"
        tell(console, f"frozen: {share} ({', '.join(recipe.training.freeze)})")


def compile_model(model: SequenceModel, recipe: Recipe) -> None:
    """Compiles a model as its recipe says; the defaults are the paper's.

    That is Adam with the paper's learning-rate schedule, and smoothed cross-entropy.

    Example:
        >>> from tf_transformer import Transformer
        >>> from tf_transformer.recipe import load_recipe
        >>> model = Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> compile_model(model, load_recipe("train/recipes/demo.yaml"))
        >>> model.loss.label_smoothing
        0.1
    """
    training = recipe.training
    optimizer = make_optimizer(training, model.d_model)
    model.gradient_accumulation, model.parallel_parts = training.gradient_accumulation, training.parallel_parts
    metrics = [Perplexity(), TokenAccuracy(), TokenCount()]
    if any(source.alignments for source in recipe.data.sources()):
        metrics.append(AlignmentLoss())
    model.compile(
        optimizer=LossScaling(optimizer) if training.precision == "mixed_float16" else optimizer,
        loss=SmoothedCrossEntropy(training.label_smoothing, training.r_drop, training.alignment_weight),
        metrics=metrics,
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,
    )
