"""A compiled Keras model that trains through `fit`."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import tensorflow as tf
from training_worker import Batch, Options, Training


def set_up_threads(options: Options) -> None:
    """Has an operation use all threads, and as many operations run at once."""
    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(options["threads"])


def set_up_precision(options: Options) -> None:
    """Has the layers made from now on compute in that precision."""
    keras.config.set_dtype_policy(options["precision"])


def keras_training(model: keras.Model, batches: list[Batch], checked: Batch) -> Training:
    """Makes a round of an epoch of `fit`.

    Args:
        model: built and compiled; called with a pair of source and target ids.
        batches: those of a round.
        checked: the rows whose loss is told.
    """
    dataset, check = _dataset(batches), _dataset([checked])

    def train() -> None:
        model.fit(dataset, epochs=1, verbose=0, shuffle=False)

    def loss() -> float:
        return model.evaluate(check, verbose=0, return_dict=True)["loss"]

    def peak_mib() -> float:
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20

    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    return Training(model.count_params(), train, loss, peak_mib if on_gpu else None)


def _dataset(batches: list[Batch]) -> tf.data.Dataset:
    def examples() -> Iterator[tuple]:
        return (((batch.source, batch.target), batch.labels) for batch in batches)

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(examples, output_signature=((ids, ids), ids))
    options = tf.data.Options()
    # The end of an iterator waits for the tuning's thread, which sleeps ever longer: rounds of 0.7 s took 1.28.
    options.autotune.enabled = False
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches)))
    return dataset.with_options(options).prefetch(2)
