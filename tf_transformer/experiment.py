"""One experiment from its recipe: data, tokenizers, model, training, scores."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from tf_transformer.averaging import average_checkpoints
from tf_transformer.corpus import Pairs, fingerprint, open_source, recipe_batches, tell_left_out
from tf_transformer.data.batching import make_batches, with_known_length
from tf_transformer.data.failures import original_errors
from tf_transformer.data.filters import count_pairs
from tf_transformer.errors import UserError
from tf_transformer.evaluation import evaluate_translations
from tf_transformer.export.ctranslate2 import export_ctranslate2, free_folder, import_ctranslate2
from tf_transformer.export.saved_model import export_saved_model, version_folder
from tf_transformer.export.translator import Translator
from tf_transformer.fitting import fit
from tf_transformer.model import Transformer
from tf_transformer.recipe import Recipe, load_recipe, save_recipe
from tf_transformer.resuming import check_same, check_same_start, copy_state, find_state, run_of, save_start
from tf_transformer.run_directory import RunDirectory, load_model
from tf_transformer.tokenizers import train_tokenizers
from tf_transformer.training.cluster import is_chief
from tf_transformer.training.distribution import make_strategy, set_single_threaded_operations
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.loss_scaling import LossScaling
from tf_transformer.training.metrics import Perplexity, TokenAccuracy, TokenCount
from tf_transformer.training.multi_worker import check_agreement, telling_lost_workers, wait_for_all
from tf_transformer.training.optimizer import make_optimizer
from tf_transformer.training.state import saved_states


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


@telling_lost_workers()
def train(
    recipe: Recipe,
    run_path: str | os.PathLike,
    console: Console | None = None,
    resume: str | os.PathLike = "auto",
) -> RunDirectory:
    """Trains a model, scores its best checkpoint, and leaves everything in a run directory.

    Of several workers (`TF_CONFIG`) each calls it alike; the chief alone writes and tells.

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
        WorkerLost: another worker's process has ended.
    """
    console = console if console and is_chief() else Console(quiet=True)
    with ExitStack() as held:
        return _train(recipe, RunDirectory(run_path), console, resume, held)


def _train(
    recipe: Recipe, run: RunDirectory, console: Console, resume: str | os.PathLike, held: ExitStack
) -> RunDirectory:
    chief = is_chief()
    began = time.perf_counter()
    goes_on = resume == "auto" and run.is_unfinished()
    origin = None if resume in ("auto", "never") else find_state(resume, recipe)
    has_state = goes_on and bool(saved_states(run.training_state))
    if goes_on:
        check_same(recipe, run)
        if chief:
            held.enter_context(run.locked())
    else:
        run.check_is_free()  # told now, not after the vocabulary is learned
    # Before TensorFlow's first work, and before the chief of several workers writes anything: it waits for all.
    parts = recipe.training.parallel_parts
    if parts > 1 and not set_single_threaded_operations(parts):
        console.print(
            f"training.parallel_parts is {parts}, but TensorFlow is at work already: unless its operations take one "
            "thread each, the training is hardly faster; start a process for it, or set TF_NUM_INTRAOP_THREADS=1"
        )
    strategy = make_strategy(recipe.training.distribution)
    if strategy.num_replicas_in_sync > 1 and recipe.training.steps_per_execution > 1:
        raise UserError(
            f"training.steps_per_execution is {recipe.training.steps_per_execution}; on several devices, "
            f"{strategy.num_replicas_in_sync} here, it must be 1: Keras can't do more there"
        )
    train_pairs, validation_pairs = open_source(recipe.data, "train"), open_source(recipe.data, "validation")
    sources = [train_pairs, validation_pairs, *([open_source(recipe.data, "test")] if recipe.data.test else [])]
    # One pass, so that a mistake in them is told now and not after hours.
    corpus = dict(zip(("train", "validation", "test"), map(fingerprint, sources), strict=False))
    if has_state and chief:
        check_same_start(corpus, strategy.num_replicas_in_sync, run)
    for pairs in sources[2:]:
        tell_left_out("test", pairs, console)
    keras.utils.set_random_seed(recipe.seed)
    if has_state or origin:
        tokenizers = (run_of(origin) if origin else run).load_tokenizers()
    else:
        tokenizers = train_tokenizers(
            train_pairs,
            kind=recipe.tokenizer.kind,
            vocab_size=recipe.tokenizer.vocab_size,
            joint=recipe.tokenizer.joint,
        )
    vocabularies = [tokenizer.to_bytes() for tokenizer in (tokenizers.source, tokenizers.target)]
    check_agreement(strategy, recipe=recipe.flat(), corpus=corpus, vocabulary=vocabularies)
    # Each device gets as many rows as the next, and so does each part that it works a batch on in.
    row_multiple = strategy.num_replicas_in_sync * recipe.training.parts()
    with original_errors(train_pairs, validation_pairs):
        batches = recipe_batches(recipe, tokenizers, train_pairs, validation_pairs, row_multiple, console)
    with strategy.scope():
        model = make_model(recipe, tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    # Not made before: what is wrong with the recipe or its data has been told, and no half-made run is in the way.
    if chief and not goes_on:
        run = RunDirectory.create(run.path)
        held.enter_context(run.locked())
    if chief and not has_state:
        save_recipe(recipe, run.recipe)
        save_start(corpus, strategy.num_replicas_in_sync, run)
        tokenizers.save(run.tokenizer)
    if chief and origin:
        copy_state(origin, run)
    console.print(f"model: {model.count_params():,} parameters; {strategy.num_replicas_in_sync} device(s)")
    with original_errors(train_pairs, validation_pairs):
        before = fit(model, recipe, run, tokenizers, batches, (train_pairs, validation_pairs), console, strategy)

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
        What `scores.json` holds: "bleu", "chrf", "perplexity", "signature" and more. Perplexity, accuracy and loss are
        those of the "perplexity_sentences" that are not empty on a side, nor longer than the model's positions; where
        there are none they are missing.
    """
    recipe = load_recipe(run.recipe)
    model, tokenizers = load_model(run.path), run.load_tokenizers()
    compile_model(model, recipe)
    sentences = list(pairs)
    longest = recipe.model.max_length  # unlike in training, where data.max_length drops pairs
    batches = make_batches(
        sentences, tokenizers, batch_tokens=max(recipe.data.batch_tokens, longest), max_length=longest
    )
    scored = count_pairs(sentences, tokenizers, max_length=longest).kept
    figures = model.evaluate(with_known_length(batches), verbose=0, return_dict=True) if scored else {}
    translator = Translator(model, tokenizers, recipe.evaluation.decoding_options().changed(**(changes or {})))
    scores, _ = evaluate_translations(
        translator.translate, sentences, lowercase, batch_size or recipe.evaluation.batch_size, streams
    )
    chosen = {name: figures[name] for name in ("perplexity", "accuracy", "loss") if name in figures}
    return {**scores, **chosen, "perplexity_sentences": scored}


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
    options = load_recipe(run.recipe).evaluation.decoding_options()
    return export_ctranslate2(load_model(run.path), run.load_tokenizers(), folder, quantization, options)
