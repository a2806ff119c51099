"""A recipe's model, and what it is compiled with."""

from __future__ import annotations

from tf_transformer.model import Transformer
from tf_transformer.recipe import Recipe
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.metrics import Perplexity, TokenAccuracy, TokenCount
from tf_transformer.training.optimizer import make_optimizer


def make_model(recipe: Recipe, input_vocab_size: int, target_vocab_size: int) -> Transformer:
    """Makes a recipe's model, built and compiled."""
    arguments = recipe.model.arguments(input_vocab_size, target_vocab_size)
    model = Transformer(**arguments, dtype=recipe.training.precision)
    model.build(((None, None), (None, None)))
    compile_model(model, recipe)
    # What makes variables would be traced twice; and there must be some for a state to be put into.
    model.optimizer.build(model.trainable_variables)
    model.build_metrics()
    return model


def compile_model(model: Transformer, recipe: Recipe) -> None:
    """Compiles a model as its recipe says; unless it says otherwise, as the paper does.

    That is Adam with the paper's learning-rate schedule, and smoothed cross-entropy.
    """
    training = recipe.training
    optimizer = make_optimizer(training, model.d_model)
    model.gradient_accumulation, model.parallel_parts = training.gradient_accumulation, training.parallel_parts
    model.compile(
        optimizer=LossScaling(optimizer) if training.precision == "mixed_float16" else optimizer,
        loss=SmoothedCrossEntropy(training.label_smoothing, training.r_drop),
        metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,
    )
