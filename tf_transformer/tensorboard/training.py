"""Everything that a training writes for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import keras

from tf_transformer.parsing.sentences import parse_function
from tf_transformer.parsing.validation_f1 import ValidationF1
from tf_transformer.tensorboard.board import AttentionBoard
from tf_transformer.tensorboard.event_file import EventFile
from tf_transformer.tensorboard.graph import ModelGraph
from tf_transformer.tensorboard.hparams import SettingsTable
from tf_transformer.tensorboard.profiler import Profiler
from tf_transformer.tensorboard.projector import EmbeddingProjector
from tf_transformer.tensorboard.samples import SampleTranslations
from tf_transformer.tensorboard.scalars import Figures
from tf_transformer.training.validation_bleu import ValidationBleu
from tf_transformer.translation.texts import translate_texts

if TYPE_CHECKING:
    from tf_transformer.recipe import Recipe
    from tf_transformer.runs.directory import RunDirectory
    from tf_transformer.translation.translator import Translator


def tensorboard_callbacks(
    recipe: Recipe, run: RunDirectory, translator: Translator, source: Iterable[tuple[str, str]]
) -> list[keras.callbacks.Callback]:
    """Makes the callbacks, in the order in which they must come; what adds figures to the logs must come before them.

    Args:
        recipe: its section `tensorboard` says what is written.
        run: where the logs go.
        translator: of the model in training; it should search greedily, at little cost.
        source: the validation set, as `open_source` gives it; as much of it is taken as the recipe asks for.
    """

    def translate(texts: Sequence[str]) -> list[str]:
        # Where parts of a batch are worked on side by side, each operation has one thread.
        streams = recipe.training.parallel_parts
        return [translation.text for translation in translate_texts(translator.translate, texts, streams=streams)]

    wanted = recipe.tensorboard
    pairs = list(islice(source, max(recipe.training.sample_translations, wanted.attention, wanted.bleu)))
    # Two of TensorBoard's runs, as Keras's own callback has them: one diagram shows a figure of both.
    train, validation = EventFile(run.logs / "train"), EventFile(run.logs / "validation")
    callbacks: list[keras.callbacks.Callback] = []
    if wanted.bleu and recipe.task == "parsing":
        function = parse_function(translator, recipe.evaluation.grammar)
        trees = list(islice(source.trees(), wanted.bleu))
        callbacks.append(ValidationF1(function, trees, streams=recipe.training.parallel_parts))
    elif wanted.bleu:
        callbacks.append(ValidationBleu(translate, pairs[: wanted.bleu], recipe.evaluation.tokenize))
    callbacks += [Figures(train, validation, wanted.histograms), SettingsTable(recipe, validation)]
    if recipe.training.sample_translations:
        samples = pairs[: recipe.training.sample_translations]
        callbacks.append(SampleTranslations(translate, samples, validation))
    if wanted.attention:
        attend = translator.functions["translate_with_attention"]
        callbacks.append(AttentionBoard(pairs[: wanted.attention], attend, validation))
    if wanted.graph:
        callbacks.append(ModelGraph(train))
    if wanted.embeddings:
        callbacks.append(EmbeddingProjector(translator.tokenizers, train.folder))
    if wanted.profile:
        callbacks.append(Profiler(train.folder, wanted.profile))
    return callbacks
