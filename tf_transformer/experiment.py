"""One experiment from its recipe: data, tokenizers, model, training, scores."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
from rich.console import Console

from tf_transformer.averaging import average_checkpoints
from tf_transformer.data.batching import make_batches, padding_share, with_known_length
from tf_transformer.data.demo import DemoSource
from tf_transformer.data.failures import original_errors
from tf_transformer.data.filters import count_pairs
from tf_transformer.data.lookup import find_pairs
from tf_transformer.data.sources import TextFiles, TfdsSource, TsvFile
from tf_transformer.errors import UserError
from tf_transformer.evaluation import evaluate_translations
from tf_transformer.export.ctranslate2 import export_ctranslate2, free_folder, import_ctranslate2
from tf_transformer.export.saved_model import export_saved_model, version_folder
from tf_transformer.export.translator import Translator
from tf_transformer.model import Transformer
from tf_transformer.recipe import DataSettings, Recipe, load_recipe, save_recipe
from tf_transformer.resuming import check_same, copy_state, find_state, run_of
from tf_transformer.run_directory import RunDirectory, load_model
from tf_transformer.tensorboard.training import tensorboard_callbacks
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.training.callbacks import AveragedWeights, EpochEnds, Pace
from tf_transformer.training.checkpoints import Checkpoints
from tf_transformer.training.data_wait import DataWait
from tf_transformer.training.distribution import make_strategy
from tf_transformer.training.interruption import Interruption
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.metrics import Perplexity, TokenAccuracy, TokenCount
from tf_transformer.training.optimizer import make_optimizer
from tf_transformer.training.progress import ProgressBar
from tf_transformer.training.state import TrainingState, saved_states
from tf_transformer.training.step_faults import StepFaults

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
        return TextFiles(root / where[0], root / where[1], data.invalid_utf8, data.damaged)
    if data.kind == "tsv":
        return TsvFile(root / where, data.invalid_utf8, data.damaged)
    return TfdsSource(data.dataset, where, data.source_language, data.target_language, data.root, data.damaged)


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
    model.gradient_accumulation = training.gradient_accumulation
    model.compile(
        optimizer=make_optimizer(training, model.d_model),
        loss=SmoothedCrossEntropy(training.label_smoothing, training.r_drop),
        metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
        steps_per_execution=training.steps_per_execution,
        jit_compile=training.jit_compile,
    )


def train(
    recipe: Recipe,
    run_path: str | os.PathLike,
    console: Console | None = None,
    resume: str | os.PathLike = "auto",
) -> RunDirectory:
    """Trains a model, scores its best checkpoint, and leaves everything in a run directory.

    Args:
        recipe: the experiment.
        run_path: the folder to make; or that of the same recipe's training that was broken off, which then goes on.
        console: where progress is told; nowhere unless given.
        resume: "auto": a training that was broken off in `run_path` goes on; "never": its folder is refused; a path: a
            new run begins from the state of another, a run's folder or one of its `training_state/step-*`.

    Returns:
        The run directory.

    Raises:
        UserError: a mistake in the recipe's data, a folder that holds another run, a fault that ends the training.
        Preempted: SIGTERM came; the training can go on.
    """
    with ExitStack() as held:
        return _train(recipe, RunDirectory(run_path), console or Console(quiet=True), resume, held)


def _train(
    recipe: Recipe, run: RunDirectory, console: Console, resume: str | os.PathLike, held: ExitStack
) -> RunDirectory:
    began = time.perf_counter()
    goes_on = resume == "auto" and run.is_unfinished()
    origin = None if resume in ("auto", "never") else find_state(resume, recipe)
    if goes_on:
        check_same(recipe, run)
        held.enter_context(run.locked())
    else:
        run.check_is_free()  # told now, not after the vocabulary is learned
    train_pairs, validation_pairs = open_source(recipe.data, "train"), open_source(recipe.data, "validation")
    sources = [train_pairs, validation_pairs, *([open_source(recipe.data, "test")] if recipe.data.test else [])]
    for source in sources[1:]:
        for _ in source:  # one pass, so that a mistake in them is told now and not after hours
            pass
    for pairs in sources[2:]:
        _tell_left_out("test", pairs, console)
    keras.utils.set_random_seed(recipe.seed)
    has_state = goes_on and bool(saved_states(run.training_state))
    if has_state or origin:
        tokenizers = (run_of(origin) if origin else run).load_tokenizers()
    else:
        tokenizers = train_tokenizers(
            train_pairs,
            kind=recipe.tokenizer.kind,
            vocab_size=recipe.tokenizer.vocab_size,
            joint=recipe.tokenizer.joint,
        )
    strategy = make_strategy(recipe.training.distribution)
    # Each device gets as many rows as the next, and so does each part that it works a batch on in.
    row_multiple = strategy.num_replicas_in_sync * recipe.training.gradient_accumulation
    with original_errors(train_pairs, validation_pairs):
        batches = _batches(recipe, tokenizers, train_pairs, validation_pairs, row_multiple, console)
    with strategy.scope():
        model = make_model(recipe, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    # Not made before: what is wrong with the recipe or its data has been told, and no half-made run is in the way.
    if not goes_on:
        run = RunDirectory.create(run.path)
        held.enter_context(run.locked())
    if not has_state:
        save_recipe(recipe, run.recipe)
        tokenizers.save(run.tokenizer)
    if origin:
        copy_state(origin, run)
    console.print(f"model: {model.count_params():,} parameters; {strategy.num_replicas_in_sync} device(s)")
    with original_errors(train_pairs, validation_pairs):
        before = _fit(model, recipe, run, tokenizers, batches, (train_pairs, validation_pairs), console)

    if recipe.training.average_checkpoints:
        # A short training, or one that stopped early, has fewer.
        average_checkpoints(run, min(recipe.training.average_checkpoints, len(run.step_checkpoints())))
    split = "test" if recipe.data.test else "validation"
    seconds = before + time.perf_counter() - began
    scores = evaluate(run, sources[-1], lowercase=recipe.evaluation.lowercase)
    run.write_scores({"set": split, **scores, "training_seconds": round(seconds, 1)})
    run.end_training()
    return run


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
        _tell_left_out(name, pairs, console)
    options = {"batch_tokens": data.batch_tokens, "row_multiple": row_multiple, **limits}
    shuffled = {"shuffle_buffer": data.shuffle_buffer, "seed": recipe.seed}
    share = padding_share(make_batches(train_pairs, tokenizers, **options, **shuffled), first=PADDING_BATCHES)
    console.print(f"padding: {share:.1%} of the positions", highlight=False)
    return (
        make_batches(train_pairs, tokenizers, **options, **shuffled, repeat=True),
        with_known_length(make_batches(validation_pairs, tokenizers, **options)),
    )


def _tell_left_out(name: str, pairs: Pairs, console: Console) -> None:
    """Tells what the latest pass left out because the recipe said so."""
    if getattr(pairs, "skipped", 0):
        console.print(f"{name}: {pairs.skipped:,} pairs skipped for invalid UTF-8", highlight=False)
    for lost in getattr(pairs, "lost", ()):
        console.print(f"{name}: {lost}", highlight=False)


def _fit(
    model: Transformer,
    recipe: Recipe,
    run: RunDirectory,
    tokenizers: TokenizerPair,
    batches: tuple[tf.data.Dataset, tf.data.Dataset],
    pairs: tuple[Pairs, Pairs],
    console: Console,
) -> float:
    """Trains the model, from where the run's training was broken off; returns the seconds spent on it before."""
    training = recipe.training
    (train_batches, validation_batches), (train_pairs, validation_pairs) = batches, pairs
    checkpoints = Checkpoints(run.checkpoints, keep=training.keep_checkpoints)
    progress = ProgressBar(training.steps, console)
    # Greedily: it is to show the model's progress, at little cost.
    translator = Translator(model, tokenizers, recipe.evaluation.decoding_options().changed(beam_size=1))
    shown = max(training.sample_translations, recipe.tensorboard.attention, recipe.tensorboard.bleu)
    tensorboard = tensorboard_callbacks(recipe, run, translator, list(islice(validation_pairs, shown)))
    wait = DataWait()
    faults = StepFaults(train_batches, partial(find_pairs, train_pairs, tokenizers), run.path / "bad_batch.tsv")
    # The average of the weights comes before all that looks at them.
    average = [AveragedWeights()] if training.ema else []
    ends = EpochEnds(training.steps, training.validate_every)
    callbacks = [ends, faults, *average, Pace(), wait, *tensorboard, checkpoints, progress]
    early_stopping = None
    if training.early_stopping:
        early_stopping = keras.callbacks.EarlyStopping("val_perplexity", mode="min", patience=training.early_stopping)
        callbacks.append(early_stopping)
    state = TrainingState(
        run.training_state,
        checkpoints,
        *average,
        early_stopping=early_stopping,
        seconds_between=training.save_every_seconds,
    )
    interruption = Interruption(state, checkpoints)
    for path in state.restore(model):
        console.print(f"{path}: damaged, passed over", highlight=False)
    if state.step:
        console.print(f"going on from step {state.step:,}", highlight=False)
    if state.ended:
        return state.seconds
    validations_left = math.ceil(training.steps / training.validate_every) - state.step // training.validate_every
    before = state.seconds
    try:
        with faults.told(model), interruption.watching():
            # Keras's epoch is here the time from one validation to the next; the data knows its own epochs.
            model.fit(
                wait.watch(train_batches.skip(state.step)),
                initial_epoch=state.epoch,
                epochs=state.epoch + validations_left,
                steps_per_epoch=training.validate_every,
                validation_data=validation_batches,
                shuffle=False,  # the batches come shuffled
                callbacks=[*callbacks, state, interruption],
                verbose=0,
            )
    except KeyboardInterrupt:
        console.print(f"interrupted; {state.place()}", highlight=False)
        raise
    finally:
        progress.stop()
    return before


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
