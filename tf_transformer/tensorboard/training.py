"""All that a training writes for TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from tf_transformer.tensorboard.board import AttentionBoard
from tf_transformer.tensorboard.graph import ModelGraph
from tf_transformer.tensorboard.projector import EmbeddingProjector
from tf_transformer.training.callbacks import SampleTranslations, ValidationBleu
from tf_transformer.translation import translate_texts

if TYPE_CHECKING:
    from tf_transformer.export.translator import Translator
    from tf_transformer.recipe import Recipe
    from tf_transformer.run_directory import RunDirectory

PROFILED = 10  # executions of the step

# What the tab HParams shows of each run beside its settings, by name and by the folder that it is in.
FIGURES = {"epoch_bleu": "validation", "epoch_perplexity": "validation", "epoch_accuracy": "validation"}


def tensorboard_callbacks(
    recipe: Recipe, run: RunDirectory, translator: Translator, pairs: Sequence[tuple[str, str]]
) -> list[keras.callbacks.Callback]:
    """Makes the callbacks, in the order in which they must come; what adds figures to the logs must come before them.

    Args:
        recipe: its section `tensorboard` says what is written.
        run: where the logs go.
        translator: of the model in training; it should search greedily, at little cost.
        pairs: sentences of the validation set and their references, as many as the recipe asks for.
    """

    def translate(texts: Sequence[str]) -> list[str]:
        # Where parts of a batch are worked on side by side, each operation has one thread.
        streams = recipe.training.parallel_parts
        return [translation.text for translation in translate_texts(translator.translate, texts, streams=streams)]

    wanted = recipe.tensorboard
    callbacks: list[keras.callbacks.Callback] = []
    if wanted.bleu:
        callbacks.append(ValidationBleu(translate, pairs[: wanted.bleu], recipe.evaluation.tokenize))
    callbacks.append(
        keras.callbacks.TensorBoard(
            run.logs,
            write_graph=False,
            histogram_freq=int(wanted.histograms),
            profile_batch=(wanted.profile, wanted.profile + PROFILED - 1) if wanted.profile else 0,
        )
    )
    callbacks.append(_hparams(recipe, run))
    # In folders of their own: of several files in one, TensorBoard goes on reading only the newest.
    if recipe.training.sample_translations:
        samples = pairs[: recipe.training.sample_translations]
        callbacks.append(SampleTranslations(translate, samples, run.logs / "translations"))
    if wanted.attention:
        attend = translator.functions["translate_with_attention"]
        callbacks.append(AttentionBoard(pairs[: wanted.attention], attend, run.logs / "attention"))
    if wanted.graph:
        callbacks.append(ModelGraph(run.logs / "graph"))
    if wanted.embeddings:
        callbacks.append(EmbeddingProjector(translator.tokenizers, run.logs))
    return callbacks


def _hparams(recipe: Recipe, run: RunDirectory) -> keras.callbacks.Callback:
    """Writes the recipe's settings, for TensorBoard's tab HParams."""
    import tensorflow as tf
    from tensorboard.plugins.hparams import api

    settings = {key: _simple(value) for key, value in recipe.flat().items()}
    writer = tf.summary.create_file_writer(str(run.logs))
    with writer.as_default():
        metrics = [api.Metric(name, group=folder) for name, folder in FIGURES.items()]
        api.hparams_config(hparams=[api.HParam(key) for key in settings], metrics=metrics)
    return api.KerasCallback(writer, settings)


def _simple(value: Any) -> Any:
    """A setting as the tab takes it: a number, a truth value or text."""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "null" if value is None else value
