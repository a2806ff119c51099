import numpy as np
import pytest

from tests import reference
from tf_transformer import FeedForward

random = np.random.default_rng(0)


@pytest.mark.parametrize(("width", "d_model", "dff"), [(6, 6, 24), (6, 6, 3), (5, 6, 24)])
def test_it_equals_equation_2(width, d_model, dff):
    x = random.standard_normal((2, 3, width)).astype("float32")
    layer = FeedForward(d_model, dff)
    layer(x)
    reference.randomise(layer)
    weights = reference.weights_of(layer)
    w1, b1 = weights["hidden/kernel"], weights["hidden/bias"]
    w2, b2 = weights["output/kernel"], weights["output/bias"]
    assert (w1.shape, w2.shape) == ((width, dff), (dff, d_model))
    np.testing.assert_allclose(layer(x), np.maximum(0, x @ w1 + b1) @ w2 + b2, atol=1e-5)


def test_each_position_is_on_its_own():
    x = random.standard_normal((2, 5, 6)).astype("float32")
    layer = FeedForward(6, 24)
    shuffled = [3, 1, 4, 0, 2]
    np.testing.assert_allclose(layer(x[:, shuffled]), layer(x).numpy()[:, shuffled], atol=1e-6)
    np.testing.assert_allclose(layer(x[:, 2:3]), layer(x)[:, 2:3], atol=1e-6)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_training_drops_hidden_activations(rate):
    layer = FeedForward(40, 40, activation_dropout_rate=rate)
    x = random.standard_normal((20, 10, 40)).astype("float32")
    layer(x)
    # Both matrices are the identity: what comes out is the hidden layer.
    layer.set_weights([np.eye(40), np.zeros(40), np.eye(40), np.zeros(40)])
    hidden = layer(x, training=True).numpy()
    active = x > 0
    dropped = (hidden == 0) & active
    assert dropped[active].mean() == pytest.approx(rate, abs=0.02)
    np.testing.assert_allclose(hidden, np.where(dropped, 0, np.maximum(0, x) / (1 - rate)), rtol=1e-4)
    for without in ({"training": False}, {}):
        np.testing.assert_allclose(layer(x, **without), np.maximum(0, x), atol=1e-5)


def test_without_a_rate_training_changes_no_bit():
    layer = FeedForward(6, 24)
    x = random.standard_normal((2, 5, 6)).astype("float32")
    np.testing.assert_array_equal(layer(x, training=True), layer(x, training=False))
    assert len(layer.variables) == len(layer.weights)  # no state of a random generator
