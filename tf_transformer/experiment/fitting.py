"""The training of a run: callbacks, saved state and `fit`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import keras
from rich.console import Console

from tf_transformer.console import tell
from tf_transformer.data.lookup import find_pairs
from tf_transformer.data.pairs import Pairs
from tf_transformer.distributed.cluster import is_chief
from tf_transformer.distributed.multi_worker import check_agreement, chief_first, is_multi_worker, worker_share
from tf_transformer.models.sequence_model import SequenceModel
from tf_transformer.recipe import Recipe
from tf_transformer.runs.checkpoints import Checkpoints
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.interruption import Interruption
from tf_transformer.runs.state import TrainingState
from tf_transformer.tensorboard.event_file import forget_after
from tf_transformer.tensorboard.projector import EmbeddingProjector
from tf_transformer.tensorboard.training import tensorboard_callbacks
from tf_transformer.training.async_steps import AsyncCallbacks
from tf_transformer.training.averaged_weights import AveragedWeights
from tf_transformer.training.data_wait import DataWait
from tf_transformer.training.pace import Pace
from tf_transformer.training.progress import ProgressBar
from tf_transformer.training.step_count import EpochEnds
from tf_transformer.training.step_faults import StepFaults
from tf_transformer.translation.making import make_translator

if TYPE_CHECKING:
    import tensorflow as tf

    from tf_transformer.data.prepared.batches import EndlessBatches
    from tf_transformer.tokenizers import TokenizerPair


@dataclass(frozen=True)
class Training:
    """What a training goes by.

    Attributes:
        recipe: the experiment.
        run: its folder; of several workers the chief alone writes there.
        tokenizers: those that its batches are made with.
        console: where progress is printed.
        strategy: on which devices.
    """

    recipe: Recipe
    run: RunDirectory
    tokenizers: TokenizerPair
    console: Console
    strategy: tf.distribute.Strategy


def fit(
    model: SequenceModel,
    training: Training,
    batches: tuple[EndlessBatches, tf.data.Dataset],
    pairs: tuple[Pairs, Pairs],
    origin_step: int | None = None,
) -> float:
    """Trains a run's model, from its last saved state if there is one.

    Args:
        model: built and compiled under the strategy.
        training: what the training goes by.
        batches: of training, endless, and of validation.
        pairs: what they were made of.
        origin_step: the step of another run's state that this one began from.

    Returns:
        The seconds spent on the training before.

    Raises:
        UserError: a fault that ends the training.
        Preempted: SIGTERM came.
    """
    chief = is_chief()
    settings, strategy = training.recipe.training, training.strategy
    train_batches, validation_batches = batches
    callbacks = _make_callbacks(model, training, train_batches, pairs, origin_step)
    state = callbacks.state
    _restore(model, state, training)
    if state.ended:
        _write_embeddings(model, callbacks.in_order)
        return state.seconds
    rest = train_batches.from_step(state.step)
    validations_left = math.ceil(settings.steps / settings.validate_every) - state.step // settings.validate_every
    before = state.seconds
    try:
        with callbacks.faults.told(model), callbacks.interruption.watching(chief):
            # Keras's epoch is here the time from one validation to the next; the data knows its own epochs.
            model.fit(
                worker_share(callbacks.wait.watch(rest) if chief else rest, strategy),
                initial_epoch=state.epoch,
                epochs=state.epoch + validations_left,
                steps_per_epoch=settings.validate_every,
                validation_data=worker_share(validation_batches, strategy),
                validation_steps=int(validation_batches.cardinality()),
                shuffle=False,  # the batches come shuffled
                callbacks=AsyncCallbacks(callbacks.in_order, add_history=True, model=model),
                verbose=0,
            )
    except KeyboardInterrupt:
        tell(training.console, f"interrupted; {state.place()}")
        raise
    finally:
        callbacks.progress.stop()
    return before


class _Callbacks(NamedTuple):
    """The callbacks of this worker, as they are called, and those that are needed besides."""

    in_order: list[keras.callbacks.Callback]
    state: TrainingState
    interruption: Interruption
    faults: StepFaults
    wait: DataWait
    progress: ProgressBar


def _make_callbacks(
    model: SequenceModel,
    training: Training,
    train_batches: EndlessBatches,
    pairs: tuple[Pairs, Pairs],
    origin_step: int | None,
) -> _Callbacks:
    chief = is_chief()
    recipe, run, console = training.recipe, training.run, training.console
    settings, (train_pairs, validation_pairs) = recipe.training, pairs
    checkpoints = Checkpoints(run.checkpoints, keep=settings.keep_checkpoints)
    progress = ProgressBar(settings.steps, console)
    wait = DataWait()
    faults = StepFaults(
        train_batches.from_step,
        partial(find_pairs, train_pairs, training.tokenizers),
        run.path / "bad_batch.tsv",
        partial(tell, console),
    )
    # The average of the weights comes before all that looks at them.
    average = [AveragedWeights()] if settings.ema else []
    pace = Pace()
    callbacks = [EpochEnds(settings.steps, settings.validate_every), *average]
    if chief:
        # Greedily: it is to show the model's progress, at little cost.
        options = recipe.evaluation.decoding_options().changed(beam_size=1)
        translator = make_translator(model, training.tokenizers, options)
        tensorboard = tensorboard_callbacks(recipe, run, translator, validation_pairs)
        callbacks += [faults, pace, wait, *tensorboard, checkpoints, progress]
    early_stopping = None
    if settings.early_stopping:
        early_stopping = keras.callbacks.EarlyStopping("val_perplexity", mode="min", patience=settings.early_stopping)
        callbacks.append(early_stopping)
    # Of several workers, each has figures of its own within an epoch, which the chief can't save.
    seconds_between = math.inf if is_multi_worker(training.strategy) else settings.save_every_seconds
    state = TrainingState(
        run.training_state,
        checkpoints,
        *average,
        early_stopping=early_stopping,
        pace=pace,
        seconds_between=seconds_between,
        origin_step=origin_step,
        check=faults.check,
        save_beginning=chief and recipe.init_from is not None,
    )
    interruption = Interruption(state, checkpoints, console)
    if chief:
        callbacks += [state, interruption]
    else:
        callbacks.append(keras.callbacks.LambdaCallback(on_train_begin=state.on_train_begin))
    return _Callbacks(callbacks, state, interruption, faults, wait, progress)


def _restore(model: SequenceModel, state: TrainingState, training: Training) -> None:
    """Gives all workers' models the newest state that is whole, if there is one, and tells it."""
    # The chief takes away what is damaged; then the others find what it found.
    for path in chief_first(training.strategy, lambda: state.restore(model)):
        tell(training.console, f"{path}: damaged, skipped")
    check_agreement(training.strategy, step=state.step)
    if is_chief():
        forget_after(training.run.logs, state.step)
    if state.step:
        tell(training.console, f"resuming from step {state.step:,}")


def _write_embeddings(model: SequenceModel, callbacks: list[keras.callbacks.Callback]) -> None:
    """Writes them for the projector, if wanted: a training stopped after its last validation did not come to it."""
    averages = [each for each in callbacks if isinstance(each, AveragedWeights)]
    projectors = [each for each in callbacks if isinstance(each, EmbeddingProjector)]
    for projector in projectors:
        for callback in (*averages, projector):
            callback.set_model(model)
        for average in averages:
            average.show_average()
        projector.on_train_end()
