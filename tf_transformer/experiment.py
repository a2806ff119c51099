"""One experiment from its recipe: data, tokenizers, model, training, scores."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
from rich.console import Console

from tf_transformer.averaging import average_checkpoints
from tf_transformer.data.batching import make_batches, padding_share, with_known_length
from tf_transformer.data.demo import DemoSource
from tf_transformer.data.filters import count_pairs
from tf_transformer.data.sources import TextFiles, TfdsSource, TsvFile
from tf_transformer.errors import UserError
from tf_transformer.evaluation import evaluate_translations
from tf_transformer.export.ctranslate2 import export_ctranslate2, free_folder, import_ctranslate2
from tf_transformer.export.saved_model import export_saved_model, version_folder
from tf_transformer.export.translator import Translator
from tf_transformer.model import Transformer
from tf_transformer.recipe import DataSettings, Recipe, load_recipe, save_recipe
from tf_transformer.run_directory import RunDirectory, load_model
from tf_transformer.tensorboard.training import tensorboard_callbacks
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.training.callbacks import AveragedWeights, Checkpoints, Pace, StopAt
from tf_transformer.training.cluster import is_chief
from tf_transformer.training.data_wait import DataWait
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.metrics import Perplexity, TokenAccuracy, TokenCount
from tf_transformer.training.multi_worker import (
    check_agreement,
    chief_first,
    telling_lost_workers,
    wait_for_all,
    worker_share,
)
from tf_transformer.training.optimizer import make_optimizer
from tf_transformer.training.progress import ProgressBar
from tf_transformer.training.state import TrainingState

if TYPE_CHECKING:
    import tensorflow as tf

    from tf_transformer.tokenizers import TokenizerPair

Pairs = Iterable[tuple[str, str]]

# Enough of a large corpus to tell how much of its batches is padding.
PADDING_BATCHES = 1000


def open_source(data: DataSettings, split: str) -> Pairs:
    """Opens the pairs of a split.

    Args:
        data: the recipe's section.
        split: "train", "validation" or "test".

    Returns:
        Pairs of source and target text, to be iterated over as often as one likes.

    Raises:
        UserError: they can't be read.
    """
    where = getattr(data, split)
    root = Path(data.root or ".")
    if data.kind == "demo":
        return DemoSource(where)
    if data.kind == "files":
        return TextFiles(root / where[0], root / where[1], invalid_utf8=data.invalid_utf8)
    if data.kind == "tsv":
        return TsvFile(root / where, invalid_utf8=data.invalid_utf8)
    return TfdsSource(data.dataset, where, data.source_language, data.target_language, data_dir=data.root)


def make_model(recipe: Recipe, input_vocab_size: int, target_vocab_size: int) -> Transformer:
    """Makes a recipe's model, built and compiled."""
    arguments = recipe.model.arguments(input_vocab_size, target_vocab_size)
    model = Transformer(**arguments, dtype=recipe.training.precision)
    model.build(((None, None), (None, None)))
    compile_model(model, recipe)
    # What makes variables would be traced twice.
    model.optimizer.build(model.trainable_variables)
    return model


def compile_model(model: Transformer, recipe: Recipe) -> None:
    """Compiles a model as its recipe says; unless it says otherwise, as the paper does.

    That is Adam with the paper's learning-rate schedule, and smoothed cross-entropy.
    """
    training = recipe.training
    model.gradient_accumulation = training.gradient_accumulation
    model.compile(
        optimizer=make_optimizer(training, model.d_model),
        loss=SmoothedCrossEntropy(training.label_smoothing, training.r_drop),
        metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,
    )


@telling_lost_workers()
def train(
    recipe: Recipe, run_path: str | os.PathLike, console: Console | None = None, resume: bool = True
) -> RunDirectory:
    """Trains a model, scores its best checkpoint, and leaves everything in a run directory.

    Of several workers (`TF_CONFIG`) each calls it alike; the chief alone writes and tells.

    Args:
        recipe: the experiment.
        run_path: the folder to make; or that of the same recipe's training that was broken off, which then goes on.
        console: where progress is told; nowhere unless given.
        resume: whether a training that was broken off may go on; if not, its folder is refused.

    Returns:
        The run directory.

    Raises:
        UserError: a mistake in the recipe's data, or a folder that holds another run.
        WorkerLost: another worker's process has ended.
    """
    chief = is_chief()
    console = console if console and chief else Console(quiet=True)
    began = time.perf_counter()
    run = RunDirectory(run_path)
    goes_on = resume and run.is_unfinished()
    if goes_on:
        _check_same(recipe, run)
    else:
        run.check_is_free()  # told now, not after the vocabulary is learned
    has_state = goes_on and any(run.training_state.iterdir())
    # Before TensorFlow's first work, and before the chief of several workers writes anything: it waits for all.
    strategy = make_strategy(recipe.training.distribution)
    if strategy.num_replicas_in_sync > 1 and recipe.training.steps_per_execution > 1:
        raise UserError(
            f"training.steps_per_execution is {recipe.training.steps_per_execution}; on several devices, "
            f"{strategy.num_replicas_in_sync} here, it must be 1: Keras can't do more there"
        )
    train_pairs, validation_pairs = open_source(recipe.data, "train"), open_source(recipe.data, "validation")
    sources = [train_pairs, validation_pairs, *([open_source(recipe.data, "test")] if recipe.data.test else [])]
    for source in sources[1:]:
        for _ in source:  # one pass, so that a mistake in them is told now and not after hours
            pass
    keras.utils.set_random_seed(recipe.seed)
    tokenizers = (
        run.load_tokenizers()
        if has_state
        else train_tokenizers(
            train_pairs,
            kind=recipe.tokenizer.kind,
            vocab_size=recipe.tokenizer.vocab_size,
            joint=recipe.tokenizer.joint,
        )
    )
    vocabularies = [tokenizer.to_bytes() for tokenizer in (tokenizers.source, tokenizers.target)]
    check_agreement(strategy, recipe=recipe.flat(), vocabulary=vocabularies)
    # Each device gets as many rows as the next, and so does each part that it works a batch on in.
    row_multiple = strategy.num_replicas_in_sync * recipe.training.gradient_accumulation
    batches = _batches(recipe, tokenizers, train_pairs, validation_pairs, row_multiple, console)
    with strategy.scope():
        model = make_model(recipe, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    # Not made before: what is wrong with the recipe or its data has been told, and no half-made run is in the way.
    if chief and not has_state:
        run = RunDirectory.create(run_path)
        save_recipe(recipe, run.recipe)
        tokenizers.save(run.tokenizer)
    console.print(f"model: {model.count_params():,} parameters; {strategy.num_replicas_in_sync} device(s)")
    most = max(recipe.training.sample_translations, recipe.tensorboard.attention, recipe.tensorboard.bleu)
    before = _fit(model, recipe, run, tokenizers, batches, list(islice(validation_pairs, most)), console, strategy)

    if not chief:
        wait_for_all(strategy)  # a worker that left before the chief would be taken for dead
        return run
    if recipe.training.average_checkpoints:
        # A short training, or one that stopped early, has fewer.
        average_checkpoints(run, min(recipe.training.average_checkpoints, len(run.step_checkpoints())))
    split = "test" if recipe.data.test else "validation"
    seconds = before + time.perf_counter() - began
    scores = evaluate(run, sources[-1], lowercase=recipe.evaluation.lowercase)
    run.write_scores({"set": split, **scores, "training_seconds": round(seconds, 1)})
    run.end_training()
    wait_for_all(strategy)
    return run


def _check_same(recipe: Recipe, run: RunDirectory) -> None:
    """Raises a UserError where a run that would go on was begun with another recipe."""
    if not run.recipe.is_file():  # broken off before it was written
        return
    theirs, ours = load_recipe(run.recipe).flat(), recipe.flat()
    other = [key for key in ours if theirs[key] != ours[key]]
    if other:
        raise UserError(
            f"{run.path}: a training that was broken off lies here, which differs in {', '.join(other)}; give its own "
            "recipe and settings to go on with it, or another folder with --run-dir"
        )


def _batches(
    recipe: Recipe,
    tokenizers: TokenizerPair,
    train_pairs: Pairs,
    validation_pairs: Pairs,
    row_multiple: int,
    console: Console,
) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Makes the batches of training and validation, and tells what they hold."""
    data = recipe.data
    limits = {"max_length": data.max_length, "max_ratio": data.max_ratio}
    for name, pairs in ("train", train_pairs), ("validation", validation_pairs):
        counts = count_pairs(pairs, tokenizers, **limits)
        if not counts.kept:
            raise UserError(f"data.{name}: no pair is left ({counts}); raise data.max_length or data.max_ratio")
        console.print(f"{name}: {counts}", highlight=False)
        if getattr(pairs, "skipped", 0):
            console.print(f"{name}: {pairs.skipped:,} pairs skipped for invalid UTF-8", highlight=False)
    options = {"batch_tokens": data.batch_tokens, "row_multiple": row_multiple, **limits}
    shuffled = {"shuffle_buffer": data.shuffle_buffer, "seed": recipe.seed}
    share = padding_share(make_batches(train_pairs, tokenizers, **options, **shuffled), first=PADDING_BATCHES)
    console.print(f"padding: {share:.1%} of the positions", highlight=False)
    return (
        make_batches(train_pairs, tokenizers, **options, **shuffled, repeat=True),
        with_known_length(make_batches(validation_pairs, tokenizers, **options)),
    )


def _fit(
    model: Transformer,
    recipe: Recipe,
    run: RunDirectory,
    tokenizers: TokenizerPair,
    batches: tuple[tf.data.Dataset, tf.data.Dataset],
    samples: Sequence[tuple[str, str]],
    console: Console,
    strategy: tf.distribute.Strategy,
) -> float:
    """Trains the model, from where the run's training was broken off; returns the seconds spent on it before."""
    chief = is_chief()
    training = recipe.training
    checkpoints = Checkpoints(run.checkpoints, keep=training.keep_checkpoints)
    progress = ProgressBar(training.steps, console)
    # Greedily: it is to show the model's progress, at little cost.
    translator = Translator(model, tokenizers, recipe.evaluation.decoding_options().changed(beam_size=1))
    train_batches, validation_batches = batches
    wait = DataWait()
    # The average of the weights comes before all that looks at them.
    average = [AveragedWeights()] if training.ema else []
    callbacks = [StopAt(training.steps), *average]
    if chief:
        tensorboard = tensorboard_callbacks(recipe, run, translator, samples)
        callbacks += [Pace(), wait, *tensorboard, checkpoints, progress]
    early_stopping = None
    if training.early_stopping:
        early_stopping = keras.callbacks.EarlyStopping("val_perplexity", mode="min", patience=training.early_stopping)
        callbacks.append(early_stopping)
    state = TrainingState(run.training_state, checkpoints, *average, early_stopping=early_stopping)
    callbacks.append(state if chief else keras.callbacks.LambdaCallback(on_train_begin=state.on_train_begin))
    # The chief takes away what is damaged; then the others find what it found.
    for path in chief_first(strategy, lambda: state.restore(model)):
        console.print(f"{path}: damaged, passed over", highlight=False)
    check_agreement(strategy, step=state.step)
    if state.step:
        console.print(f"going on from step {state.step:,}", highlight=False)
    if state.ended:
        return state.seconds
    rest = train_batches.skip(state.step)
    rest = wait.watch(rest) if chief else rest
    try:
        # Keras's epoch is here the time from one validation to the next; the data knows its own epochs.
        model.fit(
            worker_share(rest, strategy),
            initial_epoch=state.epoch,
            epochs=math.ceil(training.steps / training.validate_every),
            steps_per_epoch=training.validate_every,
            validation_data=worker_share(validation_batches, strategy),
            validation_steps=int(validation_batches.cardinality()),
            shuffle=False,  # the batches come shuffled
            callbacks=callbacks,
            verbose=0,
        )
    except KeyboardInterrupt:
        if not chief:
            raise
        for callback in average:
            callback.show_average()
        console.print(f"interrupted; saved {checkpoints.save()}", highlight=False)
        raise
    finally:
        progress.stop()
    return state.seconds


def evaluate(
    run: RunDirectory,
    pairs: Pairs,
    lowercase: bool = False,
    batch_size: int | None = None,
    changes: Mapping[str, Any] | None = None,
    streams: int = 1,
) -> dict[str, Any]:
    """Translates a set with a run's best checkpoint and scores it.

    Args:
        run: the run directory.
        pairs: sentences and their references.
        lowercase: whether to score without regard to case as well.
        batch_size: sentences at once; the recipe's unless given.
        changes: decoding options in place of the recipe's.
        streams: batches at once.

    Returns:
        What `scores.json` holds: "bleu", "chrf", "perplexity", "signature" and more.
    """
    recipe = load_recipe(run.recipe)
    model, tokenizers = load_model(run.path), run.load_tokenizers()
    compile_model(model, recipe)
    sentences = list(pairs)
    longest = recipe.model.max_length  # unlike in training, where data.max_length drops pairs
    batches = make_batches(
        sentences, tokenizers, batch_tokens=max(recipe.data.batch_tokens, longest), max_length=longest
    )
    figures = model.evaluate(with_known_length(batches), verbose=0, return_dict=True)
    translator = Translator(model, tokenizers, recipe.evaluation.decoding_options().changed(**(changes or {})))
    scores, _ = evaluate_translations(
        translator.translate, sentences, lowercase, batch_size or recipe.evaluation.batch_size, streams
    )
    return {**scores, **{name: figures[name] for name in ("perplexity", "accuracy", "loss")}}


def export_run(
    run: RunDirectory,
    destination: str | os.PathLike,
    changes: Mapping[str, Any] | None = None,
    half: bool = False,
) -> Path:
    """Exports a run's best checkpoint as a SavedModel.

    Args:
        run: the run directory.
        destination: see `export_saved_model`.
        changes: decoding options in place of the recipe's, for what the SavedModel does unless it is told otherwise.
        half: whether the weights are written as float16.

    Returns:
        The folder written.
    """
    folder = version_folder(destination)  # refused before anything is loaded
    options = load_recipe(run.recipe).evaluation.decoding_options().changed(**(changes or {}))
    translator = Translator(load_model(run.path), run.load_tokenizers(), options, half)
    return export_saved_model(translator, folder)


def export_run_ctranslate2(run: RunDirectory, destination: str | os.PathLike, quantization: str | None = None) -> Path:
    """Exports a run's best checkpoint for CTranslate2; see `export_ctranslate2`."""
    import_ctranslate2()
    folder = free_folder(destination)  # refused before anything is loaded
    return export_ctranslate2(load_model(run.path), run.load_tokenizers(), folder, quantization)
