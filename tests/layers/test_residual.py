import keras
import numpy as np
import pytest

from tests import reference
from tf_transformer import FeedForward, Residual

random = np.random.default_rng(0)
X = random.standard_normal((2, 3, 8)).astype("float32")
Y = random.standard_normal((2, 3, 8)).astype("float32")


def built(**arguments):
    residual = Residual(**arguments)
    residual(X, Y)
    reference.randomise(residual)
    return residual, lambda x: reference.norm(reference.Part(reference.weights_of(residual))("norm"), x)


def test_post_norm():
    residual, layer_norm = built()
    assert residual.enter(X) is X
    np.testing.assert_allclose(residual(X, Y), layer_norm(X + Y), atol=1e-5)


def test_pre_norm():
    residual, layer_norm = built(norm_first=True)
    np.testing.assert_allclose(residual.enter(X), layer_norm(X), atol=1e-5)
    np.testing.assert_allclose(residual(X, Y), X + Y, atol=1e-6)


def test_what_the_sublayer_reads_may_be_asked_for_first():
    residual, other = Residual(norm_first=True, name="residual"), Residual(norm_first=True, name="residual")
    residual(X, residual.enter(X))
    other(X, Y)
    assert [weight.path for weight in residual.weights] == [weight.path for weight in other.weights]


@pytest.mark.parametrize("norm_first", [False, True])
def test_in_a_functional_model_its_norm_stays_its_own(norm_first, tmp_path):
    x = keras.Input(X.shape[1:])
    residual, feed_forward = Residual(norm_first=norm_first, name="residual"), FeedForward(8, 16)
    model = reference.randomise(keras.Model(x, residual(x, feed_forward(residual.enter(x)))))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(X), residual(X, feed_forward(residual.enter(X))), atol=1e-6)
    assert [weight.path for weight in loaded.weights] == [weight.path for weight in model.weights]
    loaded.get_layer("residual").norm.gamma.assign(np.zeros(8))
    assert not np.allclose(loaded(X), model(X))


def test_the_norms_epsilon():
    """At this scale the variance is epsilon's size; Keras's own 1e-3 would give near 0."""
    residual = Residual()
    x = np.array([[[1e-3, -1e-3]]], "float32")
    np.testing.assert_allclose(residual(x, 0 * x), [[[0.5**0.5, -(0.5**0.5)]]], atol=1e-4)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_training_drops_out_of_the_sublayers_output_before_the_sum(rate):
    residual = Residual(rate, norm_first=True)
    x, y = np.full((50, 20, 8), 3.0, "float32"), np.ones((50, 20, 8), "float32")
    added = np.array(residual(x, y, training=True)) - x
    dropped = added == 0
    assert dropped.mean() == pytest.approx(rate, abs=0.03)
    np.testing.assert_allclose(added[~dropped], 1 / (1 - rate), rtol=1e-5)
    np.testing.assert_array_equal(residual(x, y, training=False), x + y)
    np.testing.assert_array_equal(residual(x, y), x + y)


def test_post_norm_training_drops_before_the_norm():
    residual = Residual(0.5)
    x = np.zeros((20, 20, 2), "float32")
    # Of one dropped and one kept element the norm makes -1 and 1; of two alike, 0 and 0.
    y = residual(x, np.ones_like(x), training=True)
    assert set(np.unique(np.round(y, 3))) == {-1.0, 0.0, 1.0}
