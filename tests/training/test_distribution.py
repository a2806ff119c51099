"""Two devices take the same steps as one, whatever share of the padding each of them gets."""

import doctest
import itertools
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tf_transformer import (
    DemoSource,
    Perplexity,
    SmoothedCrossEntropy,
    TokenAccuracy,
    Transformer,
    TransformerSchedule,
    UserError,
    make_batches,
    train_tokenizers,
)
from tf_transformer.data.batching import with_known_length
from tf_transformer.training import TokenCount, distribution, make_strategy
from tf_transformer.training.loss import smoothed_cross_entropy

STEPS = 20
VOCABULARY = 340
FIGURES = ("loss", "perplexity", "accuracy", "tokens")


def naive_loss(labels, logits):
    """The plain way: each device divides by its own tokens, and the devices' means are averaged."""
    labels = ops.cast(labels, "int32")
    real = ops.cast(labels != 0, "float32")
    mean = ops.sum(smoothed_cross_entropy(labels, logits, 0.1) * real) / ops.maximum(ops.sum(real), 1)
    return mean / tf.distribute.get_strategy().num_replicas_in_sync


def sgd():
    return keras.optimizers.SGD(0.1)


def adam():
    return keras.optimizers.Adam(TransformerSchedule(16, 400), beta_2=0.98, epsilon=1e-9)


def made_up_batches():
    """As many batches as steps, whose lower half is far more padded than the upper one."""
    random = np.random.default_rng(0)
    for step in range(STEPS):
        rows = 4 if step % 3 == 0 else 6
        source_ids, labels = (random.integers(4, VOCABULARY, (rows, length)) for length in (7, 9))
        for row in range(rows):
            source_ids[row, 7 - row :] = 0
            labels[row, max(1, 9 - 2 * row) :] = 0
        target_ids = np.pad(labels, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (labels != 0)
        yield (source_ids, target_ids), labels


def dataset() -> tf.data.Dataset:
    ids = tf.TensorSpec((None, None), tf.int32)
    batches = tf.data.Dataset.from_generator(made_up_batches, output_signature=((ids, ids), ids))
    # Where a dataset's end comes as a surprise, TensorFlow may count a step that it does not take.
    return batches.apply(tf.data.experimental.assert_cardinality(STEPS))


def real_batches() -> tf.data.Dataset:
    """Sentences in batches for two devices; 37 of them, so that not all batches are even."""
    pairs = list(itertools.islice(DemoSource("train"), 37))
    tokenizers = train_tokenizers(pairs, vocab_size=VOCABULARY)
    return with_known_length(make_batches(pairs, tokenizers, batch_tokens=256, max_length=64, row_multiple=2))


class Training(NamedTuple):
    """What a training comes to."""

    model: Transformer
    figures: dict[str, float]

    def continue_on(self, batches: tf.data.Dataset) -> dict[str, float]:
        return figures_of(self.model.fit(batches, shuffle=False, verbose=0))


def figures_of(history) -> dict[str, float]:
    return {name: values[-1] for name, values in history.history.items()}


def train(strategy, optimizer, loss=None, dropout_rate=0.0, validate=False) -> Training:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = Transformer(
            1, 16, 2, 32, VOCABULARY, VOCABULARY, dropout_rate=dropout_rate, max_length=64, share_embeddings="all"
        )
        model.compile(
            optimizer=optimizer(),
            loss=loss or SmoothedCrossEntropy(),
            metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
            jit_compile=False,
        )
    history = model.fit(dataset(), validation_data=dataset() if validate else None, shuffle=False, verbose=0)
    assert int(model.optimizer.iterations) == STEPS
    return Training(model, figures_of(history))


def distance(one: Training, other: Training) -> float:
    """The largest difference between the same weight of two models."""
    weights = zip(one.model.get_weights(), other.model.get_weights(), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in weights)


@pytest.fixture(scope="module")
def one():
    return make_strategy("single")


@pytest.fixture(scope="module")
def two():
    return make_strategy("mirrored")


@pytest.fixture(scope="module")
def by_sgd(one, two):
    """The same training on one device and on two."""
    return train(one, sgd, validate=True), train(two, sgd, validate=True)


def test_examples_run():
    results = doctest.testmod(distribution)
    assert results.attempted > 0 and results.failed == 0


def test_there_are_two_devices(one, two):
    assert one.num_replicas_in_sync == 1
    assert two.num_replicas_in_sync == 2


def test_an_unknown_distribution_is_refused():
    with pytest.raises(UserError, match="must be mirrored or single, got 'both'"):
        make_strategy("both")


def test_two_devices_train_as_one_under_sgd(by_sgd):
    alone, together = by_sgd
    assert distance(alone, together) < 1e-5
    # They have come some way from where they started.
    keras.utils.set_random_seed(1)
    untrained = Transformer(1, 16, 2, 32, VOCABULARY, VOCABULARY, max_length=64, share_embeddings="all")
    untrained.build(((None, None), (None, None)))
    assert distance(alone, Training(untrained, {})) > 0.1


def test_two_devices_report_the_same_as_one(by_sgd):
    alone, together = by_sgd
    assert alone.figures.keys() == {*FIGURES, *(f"val_{name}" for name in FIGURES)}
    assert together.figures == pytest.approx(alone.figures, rel=1e-5)
    tokens = sum(np.count_nonzero(labels) for _, labels in made_up_batches())
    assert alone.figures["tokens"] == together.figures["tokens"] == tokens


def test_two_devices_train_as_one_under_adam(one, two):
    """Not each weight: the gradient of the keys' biases is 0 but for rounding, which this epsilon blows up."""
    alone, together = train(one, adam), train(two, adam)
    inputs, _ = next(made_up_batches())
    np.testing.assert_allclose(together.model(inputs), alone.model(inputs), rtol=0, atol=1e-4)
    assert together.figures == pytest.approx(alone.figures, rel=1e-4)


def test_averaging_the_devices_means_is_another_training(two, by_sgd):
    """Which shows that the padding is unequal: the tests above could fail."""
    alone, _ = by_sgd
    naive = train(two, sgd, loss=naive_loss)
    assert distance(alone, naive) > 0.01
    assert naive.figures["tokens"] == alone.figures["tokens"]


def test_two_devices_train_as_one_on_sentences(by_sgd):
    """After the tests above in the same file, or before them: each takes the trainings as they are by then."""
    batches = real_batches()
    pairs = [np.count_nonzero(labels[:, 0]) for _, labels in batches.as_numpy_iterator()]
    assert sum(pairs) == 37
    assert any(number % 2 for number in pairs) and 1 in pairs  # one pair: the second device has no token at all

    alone, together = (training.continue_on(batches) for training in by_sgd)
    assert together == pytest.approx(alone, rel=1e-5)
    assert distance(*by_sgd) < 1e-5


def test_two_devices_train_with_dropout(two):
    training = train(two, adam, dropout_rate=0.3)
    again = training.continue_on(real_batches())
    for figures in (training.figures, again):
        assert all(np.isfinite(list(figures.values())))
    assert training.figures["loss"] > again["loss"] > 0
