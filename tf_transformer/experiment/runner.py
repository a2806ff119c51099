"""Trains and scores a model from a recipe."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
from rich.console import Console

from tf_transformer.backend import check_is_tensorflow
from tf_transformer.console import tell
from tf_transformer.data.batching import check_batch_tokens
from tf_transformer.data.fingerprint import fingerprint
from tf_transformer.data.pairs import Pairs
from tf_transformer.data.prepared.preparing import known_fingerprint
from tf_transformer.distributed.cluster import is_chief
from tf_transformer.distributed.multi_worker import check_agreement, chief_first, telling_lost_workers, wait_for_all
from tf_transformer.distributed.strategy import make_strategy, set_single_threaded_operations
from tf_transformer.errors import UserError, telling_out_of_memory
from tf_transformer.experiment.averaging import average_checkpoints
from tf_transformer.experiment.batches import recipe_batches
from tf_transformer.experiment.compiling import check_freeze, make_model, tell_frozen, token_arguments
from tf_transformer.experiment.corpus import lines_left_out, open_also, open_source, settings_of
from tf_transformer.experiment.fine_tuning import begin_from, begins_from_model, open_origin
from tf_transformer.experiment.fitting import Training, fit
from tf_transformer.experiment.preparing import prepare_data, prepared_folder, tell_data
from tf_transformer.experiment.resuming import (
    Beginning,
    check_same_start,
    copy_state,
    find_beginning,
    run_of,
    save_start,
)
from tf_transformer.experiment.scoring import evaluate_sets
from tf_transformer.model_card.facts import versions
from tf_transformer.model_card.files import renewed
from tf_transformer.models.kinds import MODEL_KINDS
from tf_transformer.models.sequence_model import SequenceModel
from tf_transformer.recipe import Recipe, save_recipe
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import identity, load_model
from tf_transformer.runs.training_lock import LOCK_SECONDS

if TYPE_CHECKING:
    import tensorflow as tf

MEMORY_ADVICE = (
    "end other programs that use this memory, choose a smaller model or a larger machine, and give the command again: "
    "the prepared data is kept"
)


@telling_lost_workers()
def train(
    recipe: Recipe,
    run_path: str | os.PathLike,
    console: Console | None = None,
    resume: str | os.PathLike = "auto",
) -> RunDirectory:
    """Trains a model, scores its best checkpoint, and writes everything to a run's folder.

    With several workers (`TF_CONFIG`), each makes the same call; only the chief writes files and reports progress.

    Args:
        recipe: the recipe to train.
        run_path: the folder to create, or the folder of an interrupted training of the same recipe, to resume it.
        console: where progress is printed; None for no output.
        resume: "auto" resumes an interrupted training in `run_path`; "never" refuses its folder; a path (a run's folder
            or one of its `training_state/step-*`) starts a new run from the state of another. If that is interrupted,
            the same path resumes it.

    Returns:
        The run directory.

    Raises:
        UserError: a mistake in the recipe's data, a folder that contains another run, a fault that stops the training,
            or another Keras backend than TensorFlow.
        Preempted: SIGTERM stopped the training; it can be resumed.
        WorkerLost: another worker's process has ended or has not come, or another machine has the folder locked.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> from tf_transformer.experiment import train
        >>> small = ["model.num_layers=1", "model.d_model=8", "model.dff=16", "evaluation.beam_size=1"]
        >>> data = ["data.train=test", "data.validation=test", "data.test=null"]
        >>> short = ["training.steps=1", "training.validate_every=1", "training.distribution=single"]
        >>> silent = ["training.sample_translations=0", "tensorboard.attention=0", "tensorboard.bleu=0"]
        >>> recipe = tt.load_recipe("train/recipes/demo.yaml", small + data + short + silent)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train(recipe, f"{folder}/runs/small")
        ...     [path.name for path in run.step_checkpoints()]
        ['step-00000001.keras']
    """
    check_is_tensorflow("training from a recipe")
    console = console if console and is_chief() else Console(quiet=True)
    with ExitStack() as held:
        run = _train(recipe, RunDirectory(run_path), console, resume, held)
    run.remove_ended()  # again: its files were open until now
    return run


class _Splits(NamedTuple):
    """The pairs of a recipe, opened.

    Attributes:
        train: those to train on.
        validation: those to validate with.
        test: those to score the model on, if the recipe has them.
        also: the sets of `evaluation.also`, by name.
        corpus_of_test: the fingerprint of `test`, by its name; empty without it.
        corpus_of_also: those of `also`.
    """

    train: Pairs
    validation: Pairs
    test: Pairs | None
    also: dict[str, Pairs]
    corpus_of_test: dict[str, str]
    corpus_of_also: dict[str, str]

    def scored(self) -> dict[str, Pairs]:
        """The sets that the trained model is scored on, by name."""
        own = {"test": self.test} if self.test else {"validation": self.validation}
        return {**own, **self.also}


def _train(
    recipe: Recipe, run: RunDirectory, console: Console, resume: str | os.PathLike, held: ExitStack
) -> RunDirectory:
    chief = is_chief()
    beginning = find_beginning(recipe, run, resume)
    if beginning.goes_on and chief:
        held.enter_context(run.locked(LOCK_SECONDS))
        beginning = find_beginning(recipe, run, resume)  # again: another process may have trained there until now
    # Before the chief of several workers writes anything: it waits for all.
    strategy = _make_strategy(recipe, console)
    devices = strategy.num_replicas_in_sync
    # Each device gets as many rows as the next, and so does each part that it works a batch on in.
    row_multiple = devices * recipe.training.parts()
    check_batch_tokens(recipe.data.batch_tokens, recipe.data.max_length, row_multiple)
    _tell_beginning(recipe, beginning, console)
    # Before any data is read, so that what does not fit is told at once.
    origin = open_origin(recipe) if begins_from_model(recipe, beginning) else None
    if not beginning.has_state:
        check_freeze(recipe)
    # A dataset that is to be downloaded is so once.
    splits = chief_first(strategy, lambda: _open_splits(recipe, console))

    def begin() -> None:
        if chief and not beginning.goes_on:
            RunDirectory.create(run.path)
            # Locked first, so that another process that was quicker to begin here keeps its folder.
            held.enter_context(run.locked())
            held.enter_context(run.removed_on_failure())
        if chief and beginning.has_state:
            check_same_start(_known_corpus(recipe, run, splits), splits.corpus_of_also, devices, run)

    chief_first(strategy, begin)
    keras.utils.set_random_seed(recipe.seed)
    # The others open what the chief has prepared.
    kept = origin.kept_tokenizers(recipe) if origin else None
    data = chief_first(
        strategy, lambda: prepare_data(recipe, run, beginning, splits.train, splits.validation, console, kept)
    )
    tokenizers = data.tokenizers
    training = Training(recipe, run, tokenizers, console, strategy)
    corpus = {split: getattr(data, split).manifest.fingerprint for split in ("train", "validation")}
    corpus |= splits.corpus_of_test
    origins_record = origin.record() if origin else None
    check_agreement(
        strategy, recipe=recipe.flat(), corpus=corpus, vocabulary=tokenizers.checksum, origin=origins_record
    )
    if not beginning.has_state:  # it was told when this training began
        tell_data(recipe, data, row_multiple, console)
    batches = recipe_batches(recipe, data, row_multiple)
    with telling_out_of_memory(lambda: "while the model was built", MEMORY_ADVICE):
        model = _make_model(training)
    if origin:
        sets = splits.scored() if chief else {}
        with telling_out_of_memory(lambda: "while the model of init_from was loaded and scored", MEMORY_ADVICE):
            origins_record = begin_from(origin, model, recipe, tokenizers, sets, console)
    if chief and not beginning.has_state:
        _write_beginning(training, beginning, model, corpus, splits.corpus_of_also, origins_record)
    del origin  # a whole model
    pairs = splits.train, splits.validation
    began = time.perf_counter()
    seconds_before = fit(model, training, batches, pairs, beginning.origin_step)
    if not chief:
        wait_for_all(strategy)  # a worker that left before the chief would be taken for dead
        shutil.rmtree(run.prepared, ignore_errors=True)  # of its own, where it does not see the chief's folder
        return run
    scoring_advice = (
        f"the training is complete and {run.checkpoints} is kept: lower evaluation.batch_size, or end other programs "
        "that use this memory, and give the command again, which then only scores; to score with a smaller beam, run "
        f"tf-transformer evaluate {run.path} with --batch-size and --beam-size"
    )
    with telling_out_of_memory(lambda: "while the trained model was scored", scoring_advice), renewed(run):
        _score(recipe, run, splits.scored(), began - seconds_before, console)
    run.end_training()
    wait_for_all(strategy)
    return run


def _make_strategy(recipe: Recipe, console: Console) -> tf.distribute.Strategy:
    """The strategy of a recipe; what it can't be had with is told or refused."""
    training = recipe.training
    # Before TensorFlow's first work.
    if training.parallel_parts > 1 and not set_single_threaded_operations(training.parallel_parts):
        tell(
            console,
            f"training.parallel_parts is {training.parallel_parts}, but TensorFlow is already running in this process: "
            "training is hardly faster unless TensorFlow's operations use one thread each; train in a new process, or "
            "set TF_NUM_INTRAOP_THREADS=1",
        )
    strategy = make_strategy(training.distribution)
    if strategy.num_replicas_in_sync > 1 and training.steps_per_execution > 1:
        raise UserError(
            f"training.steps_per_execution is {training.steps_per_execution}; on several devices (here "
            f"{strategy.num_replicas_in_sync}) it must be 1, since Keras supports no other value there"
        )
    return strategy


def _tell_beginning(recipe: Recipe, beginning: Beginning, console: Console) -> None:
    """Tells what a training does otherwise than its recipe, or the run that it begins from, says."""
    if beginning.other_order:
        tell(
            console,
            f"--resume {beginning.given}: that run drew its batches in the order of another version of this package; "
            "this run gets other batches than that one would have had",
        )


def _open_splits(recipe: Recipe, console: Console) -> _Splits:
    """Opens the pairs of a recipe, and reads those of the test and of `evaluation.also` through."""
    train_pairs, validation_pairs = open_source(recipe, "train"), open_source(recipe, "validation")
    test_pairs = open_source(recipe, "test") if recipe.data.test else None
    also = open_also(recipe)
    # Now, so that a mistake in them is told before the others are prepared.
    corpus_of_test = {"test": fingerprint(test_pairs)} if test_pairs else {}
    corpus_of_also = {name: fingerprint(pairs) for name, pairs in also.items()}
    for name, pairs in {**({"test": test_pairs} if test_pairs else {}), **also}.items():
        for line in lines_left_out(pairs):
            tell(console, f"{name}: {line}")
    return _Splits(train_pairs, validation_pairs, test_pairs, also, corpus_of_test, corpus_of_also)


def _known_corpus(recipe: Recipe, run: RunDirectory, splits: _Splits) -> dict[str, str]:
    """The fingerprints of a training that goes on, by split, as they are known before its data is prepared."""
    folder = prepared_folder(recipe, run)
    of_training = {"train": splits.train, "validation": splits.validation}
    known = {
        split: known_fingerprint(pairs, folder / split, settings_of(recipe, split))
        for split, pairs in of_training.items()
    }
    return known | splits.corpus_of_test


def _make_model(training: Training) -> SequenceModel:
    """Makes the model on all devices, and tells what it is."""
    recipe, tokenizers, console = training.recipe, training.tokenizers, training.console
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    with training.strategy.scope():
        model = make_model(recipe, *sizes, **token_arguments(recipe, tokenizers))
    kind, devices = recipe.model.kind, training.strategy.num_replicas_in_sync
    tell(console, f"model: {kind}, {model.count_params():,} parameters; {devices} device(s)")
    if without := MODEL_KINDS[kind].without:
        tell(console, f"model: the {kind} model ignores {', '.join(without)}")
    tell_frozen(model, recipe, console)
    return model


def _write_beginning(
    training: Training,
    beginning: Beginning,
    model: SequenceModel,
    corpus: dict[str, str],
    corpus_of_also: dict[str, str],
    origins_record: dict[str, Any] | None,
) -> None:
    """Writes down what a training begins with; from then on the same command goes on with it."""
    recipe, run, devices = training.recipe, training.run, training.strategy.num_replicas_in_sync
    run.checkpoints.mkdir(exist_ok=True)  # a training may have been broken off before it made the folder
    save_start(corpus | corpus_of_also, devices, beginning, run)
    save_recipe(recipe, run.recipe)
    training.tokenizers.save(run.tokenizer)
    known = {"parameters": model.count_params(), "corpus": corpus | corpus_of_also, "devices": devices}
    if recipe.init_from:
        known["fine_tuned_from"] = origins_record or run_of(beginning.origin).read_training().get("fine_tuned_from")
    run.write_training({**known, "versions": versions()})
    if beginning.origin:
        copy_state(beginning.origin, run)


def _score(recipe: Recipe, run: RunDirectory, sets: Mapping[str, Pairs], began: float, console: Console) -> None:
    """Averages a run's last checkpoints, if the recipe says so, and writes its scores."""
    wanted = recipe.training.average_checkpoints
    if wanted:  # a short training, or one that stopped early, has fewer
        average_checkpoints(run, min(wanted, len(run.step_checkpoints())))
    else:  # one made while the training went on would be taken for its result
        run.average.unlink(missing_ok=True)
    seconds = time.perf_counter() - began
    checkpoint = run.best_checkpoint()
    tell(console, f"scoring {', '.join(sets)} with {checkpoint}")
    model = load_model(checkpoint, "float32")
    (own, scores), *others = evaluate_sets(model, run.load_tokenizers(), recipe, sets).items()
    more = {"also": dict(others)} if others else {}
    if before := (run.read_training().get("fine_tuned_from") or {}).get("scores"):
        more["before"] = before
    run.write_scores({"set": own, **identity(checkpoint), **scores, "training_seconds": round(seconds, 1), **more})
