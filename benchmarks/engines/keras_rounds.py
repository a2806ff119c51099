"""A compiled Keras model that trains through `fit`."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import tensorflow as tf
from training_worker import Batch, Training


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

    return Training(model.count_params(), train, loss)


def _dataset(batches: list[Batch]) -> tf.data.Dataset:
    def examples() -> Iterator[tuple]:
        for batch in batches:
            yield (batch.source, batch.target), batch.labels

    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(examples, output_signature=((ids, ids), ids))
    return dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2)
