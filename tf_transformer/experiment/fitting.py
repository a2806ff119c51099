"""The training of a run: callbacks, saved state and `fit`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import keras
from rich.console import Console

from tf_transformer.data.lookup import find_pairs
from tf_transformer.data.pairs import Pairs
from tf_transformer.distributed.cluster import is_chief
from tf_transformer.distributed.multi_worker import check_agreement, chief_first, is_multi_worker, worker_share
from tf_transformer.export.translator import make_translator
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

if TYPE_CHECKING:
    import tensorflow as tf

    from tf_transformer.data.prepared.batches import EndlessBatches
    from tf_transformer.tokenizers import TokenizerPair


def fit(
    model: SequenceModel,
    recipe: Recipe,
    run: RunDirectory,
    tokenizers: TokenizerPair,
    batches: tuple[EndlessBatches, tf.data.Dataset],
    pairs: tuple[Pairs, Pairs],
    console: Console,
    strategy: tf.distribute.Strategy,
    origin_step: int | None = None,
) -> float:
    """Trains a run's model, from its last saved state if there is one.

    Args:
        model: built and compiled under the strategy.
        recipe: the experiment.
        run: its folder; of several workers the chief alone writes there.
        tokenizers: those that the batches were made with.
        batches: of training, endless, and of validation.
        pairs: what they were made of.
        console: where progress is printed.
        strategy: on which devices.
        origin_step: the step of another run's state that this one began from.

    Returns:
        The seconds spent on the training before.

    Raises:
        UserError: a fault that ends the training.
        Preempted: SIGTERM came.
    """
    chief = is_chief()
    training = recipe.training
    (train_batches, validation_batches), (train_pairs, validation_pairs) = batches, pairs
    checkpoints = Checkpoints(run.checkpoints, keep=training.keep_checkpoints)
    progress = ProgressBar(training.steps, console)
    wait = DataWait()
    faults = StepFaults(
        train_batches.from_step,
        partial(find_pairs, train_pairs, tokenizers),
        run.path / "bad_batch.tsv",
        partial(console.print, highlight=False, markup=False),
    )
    # The average of the weights comes before all that looks at them.
    average = [AveragedWeights()] if training.ema else []
    pace = Pace()
    callbacks = [EpochEnds(training.steps, training.validate_every), *average]
    if chief:
        # Greedily: it is to show the model's progress, at little cost.
        translator = make_translator(model, tokenizers, recipe.evaluation.decoding_options().changed(beam_size=1))
        tensorboard = tensorboard_callbacks(recipe, run, translator, validation_pairs)
        callbacks += [faults, pace, wait, *tensorboard, checkpoints, progress]
    early_stopping = None
    if training.early_stopping:
        early_stopping = keras.callbacks.EarlyStopping("val_perplexity", mode="min", patience=training.early_stopping)
        callbacks.append(early_stopping)
    # Of several workers, each has figures of its own within an epoch, which the chief can't save.
    seconds_between = math.inf if is_multi_worker(strategy) else training.save_every_seconds
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
    # The chief takes away what is damaged; then the others find what it found.
    for path in chief_first(strategy, lambda: state.restore(model)):
        console.print(f"{path}: damaged, skipped", highlight=False, markup=False)
    check_agreement(strategy, step=state.step)
    if chief:
        forget_after(run.logs, state.step)
    if state.step:
        console.print(f"resuming from step {state.step:,}", highlight=False)
    if state.ended:
        # One that was stopped after its last validation did not come to what is written at the end.
        for projector in (each for each in callbacks if isinstance(each, EmbeddingProjector)):
            for callback in (*average, projector):
                callback.set_model(model)
            for each in average:
                each.show_average()
            projector.on_train_end()
        return state.seconds
    rest = train_batches.from_step(state.step)
    validations_left = math.ceil(training.steps / training.validate_every) - state.step // training.validate_every
    before = state.seconds
    try:
        with faults.told(model), interruption.watching(chief):
            # Keras's epoch is here the time from one validation to the next; the data knows its own epochs.
            model.fit(
                worker_share(wait.watch(rest) if chief else rest, strategy),
                initial_epoch=state.epoch,
                epochs=state.epoch + validations_left,
                steps_per_epoch=training.validate_every,
                validation_data=worker_share(validation_batches, strategy),
                validation_steps=int(validation_batches.cardinality()),
                shuffle=False,  # the batches come shuffled
                callbacks=AsyncCallbacks(callbacks, add_history=True, model=model),
                verbose=0,
            )
    except KeyboardInterrupt:
        console.print(f"interrupted; {state.place()}", highlight=False)
        raise
    finally:
        progress.stop()
    return before
