"""A small model and a batch for tests of steps, and Keras's own step to hold them to."""

import functools

import keras
import numpy as np
import pytest

from tf_transformer import Perplexity, SmoothedCrossEntropy, TokenAccuracy, Transformer
from tf_transformer.training import TokenCount

VOCABULARY, ROWS, LENGTH = 50, 10, 7
SHARING = ("all", "target", "none")


def batch():
    """Ten sentences: one partly padding, one nothing else, so that three parts have unequal numbers of tokens."""
    random = np.random.default_rng(0)
    source, target, labels = (random.integers(1, VOCABULARY, (ROWS, LENGTH)).astype("int32") for _ in range(3))
    labels[3, 4:] = labels[7] = source[7] = 0
    return (source, target), labels


def sgd():
    return keras.optimizers.SGD(0.5)


def adam():
    # The usual epsilon: the paper's would blow up the rounding noise in the gradient of the keys' biases, which is 0.
    return keras.optimizers.Adam(0.01)


class OverLogits(SmoothedCrossEntropy):
    """The same loss, which knows logits only."""

    of_states = property()


class WithItsOwnCall(Transformer):
    """Halves the logits, and adds to the loss."""

    def call(self, inputs, training=None):
        logits = super().call(inputs, training=training) / 2
        self.add_loss(0.01 * keras.ops.mean(keras.ops.square(logits)))
        return logits


def compiled(
    share="all",
    loss=None,
    optimizer=sgd,
    parts=1,
    beside=1,
    dtype="float32",
    dropout_rate=0.0,
    graph=False,
    xla=False,
    more=(),
    activity=None,
    loss_weights=None,
    make=Transformer,
):
    """A small model, the same each time; its steps run eagerly unless `graph` or `xla`, since tracing takes longer.

    A batch is worked on in so many `parts`, each in as many `beside` each other. With `activity`, a regularizer, a
    layer adds to the loss whenever it is called.
    """
    keras.utils.set_random_seed(3)
    model = make(1, 16, 4, 32, VOCABULARY, VOCABULARY, dropout_rate=dropout_rate, share_embeddings=share, dtype=dtype)
    model.encoder.layers[0].feed_forward.hidden.activity_regularizer = activity
    metrics = [Perplexity(), TokenAccuracy(), TokenCount(), *more]
    loss = loss or SmoothedCrossEntropy(0.1)
    model.compile(optimizer(), loss, loss_weights, metrics, jit_compile=xla, run_eagerly=not (graph or xla))
    model.gradient_accumulation, model.parallel_parts = parts, beside
    return model


def train(*arguments, steps=2, rows=ROWS, **options):
    """Steps of `train_on_batch`, and a `test_on_batch`: the figures of all, and the weights."""
    model = compiled(*arguments, **options)
    inputs, labels = batch()
    data = tuple(ids[:rows] for ids in inputs), labels[:rows]
    figures = [model.train_on_batch(*data, return_dict=True) for _ in range(steps)]
    figures.append(model.test_on_batch(*data, return_dict=True))
    return figures, model.get_weights()


@functools.cache
def untrained_weights(share):
    """What training begins with."""
    model = compiled(share)
    model.build(((None, None), (None, None)))
    return model.get_weights()


def assert_same(ours, theirs, tolerance=1e-5):
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert one.keys() == {"loss", "perplexity", "accuracy", "tokens"}
        assert one == pytest.approx(other, rel=tolerance)
    for one, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
