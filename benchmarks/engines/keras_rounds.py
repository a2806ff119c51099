"""A compiled Keras model that trains through `fit`."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf
from training_worker import Batch, Options, Training

from tf_transformer.training import make_strategy, split_cpu


def set_up_threads(options: Options) -> tf.distribute.Strategy:
    """Has an operation use all threads, or, with `devices`, a part of each batch use one."""
    if options.get("devices"):
        split_cpu(options["threads"])
        return make_strategy("mirrored")
    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])
    return make_strategy("single")


def keras_training(model: keras.Model, batches: list[Batch], checked: Batch) -> Training:
    """Makes a round of an epoch of `fit`.

    Args:
        model: built and compiled; called with a pair of source and target ids.
        batches: those of a round.
        checked: the rows whose loss is told.
    """
    replicas = model.distribute_strategy.num_replicas_in_sync
    dataset, check = _dataset(batches, replicas), _dataset([checked], replicas)

    def train() -> None:
        model.fit(dataset, epochs=1, verbose=0, shuffle=False)

    def loss() -> float:
        return model.evaluate(check, verbose=0, return_dict=True)["loss"]

    return Training(model.count_params(), train, loss)


def _dataset(batches: list[Batch], replicas: int) -> tf.data.Dataset:
    def fill(ids: np.ndarray) -> np.ndarray:
        """Adds rows of padding, so that every device gets as many rows as the next."""
        return np.pad(ids, [(0, -len(ids) % replicas), (0, 0)])

    def examples() -> Iterator[tuple]:
        for batch in (Batch(*map(fill, batch)) for batch in batches):
            yield (batch.source, batch.target), batch.labels

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(examples, output_signature=((ids, ids), ids))
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2)
