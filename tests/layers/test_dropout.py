"""Dropout sets the right share to zero, everywhere alike, keeps the mean, and does nothing outside training."""

from itertools import combinations

import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import make_strategy
from tf_transformer.layers.dropout import LEVELS, Dropout

SIZE = 400_000


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_the_share_is_the_rate(rate):
    output = Dropout(rate, seed=1)(np.ones(SIZE, "float32"), training=True).numpy()
    deviation = np.sqrt(rate * (1 - rate) / SIZE)
    assert np.mean(output == 0) == pytest.approx(rate, abs=5 * deviation + 1 / LEVELS)
    np.testing.assert_allclose(output[output != 0], 1 / (1 - rate), rtol=1e-3)
    assert output.mean() == pytest.approx(1, abs=5 * deviation / (1 - rate) + 1e-3)


def test_draws_are_independent():
    """Neighbours, which share a word of random bits, and one call and the next."""
    layer = Dropout(0.5, seed=2)
    first, second = (layer(np.ones(SIZE, "float32"), training=True).numpy() == 0 for _ in range(2))
    for one, other in [(first, second), *((first[: SIZE - lag], first[lag:]) for lag in (1, 2, 3))]:
        assert np.mean(one & other) == pytest.approx(0.25, abs=0.005)


def test_each_device_drops_other_numbers():
    """Though all have the same seeds; in the next step again."""
    strategy = make_strategy("mirrored")
    with strategy.scope():
        layer = Dropout(0.5, seed=5)

    @tf.function
    def step():
        return strategy.run(lambda: layer(tf.ones((SIZE,)), training=True))

    drawn = [part.numpy() == 0 for _ in range(2) for part in strategy.experimental_local_results(step())]
    assert len(drawn) == 4
    for one, other in combinations(drawn, 2):
        assert np.mean(one & other) == pytest.approx(0.25, abs=0.005)


def test_the_gradient_goes_where_the_value_went():
    x = tf.constant(np.random.default_rng(0).standard_normal((3, 4, 5)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = Dropout(0.4, seed=3)(x, training=True)
    np.testing.assert_allclose(tape.gradient(output, x) * x, output, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("gpu", [False, True], ids=["", "as with a GPU"])
def test_what_is_dropped_is_0_whatever_it_was(dtype, gpu, monkeypatch):
    """And so is its gradient; what is kept stays what it was."""
    if gpu:
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["a GPU"])
    bad = tf.constant([np.inf, -np.inf, np.nan, 1.0] * 2500, dtype)
    layer = Dropout(0.5, seed=6, dtype=dtype)
    with tf.GradientTape() as tape:
        tape.watch(bad)
        output = layer(bad, training=True)
    gradient = tape.gradient(output, bad, output_gradients=bad)
    output, gradient = (tf.cast(each, "float32").numpy().reshape(-1, 4) for each in (output, gradient))
    for each in output, gradient:
        dropped = each == 0
        assert np.mean(dropped, axis=0) == pytest.approx([0.5] * 4, abs=0.06)
        for kind, kept in enumerate((np.inf, -np.inf, np.nan, 2.0)):
            np.testing.assert_array_equal(each[~dropped[:, kind], kind], kept)
    np.testing.assert_array_equal(output == 0, gradient == 0)


def test_each_number_has_a_draw_of_its_own():
    with pytest.raises(ValueError, match=r"noise_shape must be None, got \(None, 1, None\)"):
        Dropout(0.5, noise_shape=(None, 1, None))


def test_a_rate_of_1_drops_everything():
    output = Dropout(1.0, seed=8)(np.full(SIZE, np.inf, "float32"), training=True)
    np.testing.assert_array_equal(output, np.zeros(SIZE))


@pytest.mark.parametrize("shape", [(1,), (3,), (3, 5, 7)])  # odd sizes: of the last word one half is left over
def test_any_shape_will_do_in_a_graph(shape):
    layer = Dropout(0.5, seed=4)
    function = tf.function(
        lambda x: layer(x, training=True), input_signature=[tf.TensorSpec([None] * len(shape), tf.float32)]
    )
    output = function(np.ones(shape, "float32"))
    assert output.shape == shape and set(np.unique(output)) <= {0.0, 2.0}


@pytest.mark.parametrize(("rate", "training"), [(0.5, False), (0.0, True)])
def test_nothing_happens_outside_training_or_without_a_rate(rate, training):
    x = tf.ones((2, 3))
    assert Dropout(rate)(x, training=training) is x
