"""What tests look at of a run: its figures in TensorBoard, and its batches."""

from tempfile import TemporaryDirectory

import tensorflow as tf
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator

from tf_transformer import load_recipe
from tf_transformer.experiment.batches import recipe_batches
from tf_transformer.experiment.corpus import open_source
from tf_transformer.experiment.preparing import prepare_data
from tf_transformer.experiment.resuming import Beginning
from tf_transformer.runs.directory import RunDirectory


def figures(folder):
    """TensorBoard's figures: (step, value) by name; values that are no scalars as arrays."""
    events = EventAccumulator(str(folder), size_guidance={TENSORS: 0}).Reload()
    return {
        name: [(event.step, tf.make_ndarray(event.tensor_proto)[()]) for event in events.Tensors(name)]
        for name in events.Tags()["tensors"]
    }


def first_batches(run, number, row_multiple=1):
    """The first batches of its training, prepared again."""
    made = load_recipe(run.recipe)
    with TemporaryDirectory() as folder:
        beginning = Beginning(goes_on=False, has_state=False, origin=None, origin_step=None)
        pairs = open_source(made, "train"), open_source(made, "validation")
        data = prepare_data(made, RunDirectory(folder), beginning, *pairs, Console(quiet=True))
        batches, _ = recipe_batches(made, data, row_multiple)
        return list(batches.from_step(0).take(number).as_numpy_iterator())
