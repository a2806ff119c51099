"""Layer normalisation is its definition, and its hand-written gradient the true one."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer.layers.arguments import NORM_EPSILON
from tf_transformer.layers.normalization import LayerNormalization


def by_definition(x, gamma, beta):
    x = np.asarray(x, "float64")
    centred = x - x.mean(axis=-1, keepdims=True)
    return gamma * centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + NORM_EPSILON) + beta


def layer_of(width, random, **options):
    layer = LayerNormalization(**options)
    layer.build((None, None, width))
    layer.set_weights([random.standard_normal(width) + 1, random.standard_normal(width)])
    return layer


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(2, 40), st.floats(0.01, 100), st.floats(-50, 50), st.booleans()
)
def test_it_is_its_definition(batch, length, width, scale, shift, training):
    random = np.random.default_rng(width)
    layer = layer_of(width, random)
    x = (scale * random.standard_normal((batch, length, width)) + shift).astype("float32")
    # The mean is subtracted in float32, whose error grows with what is subtracted.
    tolerance = 1e-5 * (1 + abs(shift) / scale)
    expected = by_definition(x, *layer.get_weights())
    np.testing.assert_allclose(layer(x, training=training), expected, rtol=1e-4, atol=20 * tolerance)


def test_equal_numbers_are_normalised_to_beta():
    layer = layer_of(5, np.random.default_rng(0))
    np.testing.assert_allclose(layer(np.full((1, 2, 5), 7.0, "float32"))[0, 0], layer.beta, atol=1e-6)


@pytest.mark.parametrize("where", ["eager", "graph", "graph of any shape", "XLA"])
@pytest.mark.parametrize("training", [False, True])
def test_its_gradient_is_that_of_the_definition(training, where):
    random = np.random.default_rng(2)
    layer = layer_of(12, random)
    x, upstream = (random.standard_normal((2, 3, 12)) for _ in range(2))

    def gradients(given_x):
        with tf.GradientTape() as tape:
            tape.watch(given_x)
            value = tf.reduce_sum(layer(given_x, training=training) * tf.constant(upstream, tf.float32))
        return tape.gradient(value, [given_x, layer.gamma.value, layer.beta.value])

    if where != "eager":
        shape = [tf.TensorSpec([None, None, 12] if "any" in where else [2, 3, 12])]
        gradients = tf.function(gradients, input_signature=shape, jit_compile=where == "XLA")
    ours = gradients(tf.constant(x, tf.float32))

    # Autodiff of the definition, in float64.
    variables = [tf.constant(array, tf.float64) for array in (x, *layer.get_weights())]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        x64, gamma, beta = variables
        mean, variance = tf.nn.moments(x64, axes=[-1], keepdims=True)
        expected = gamma * (x64 - mean) / tf.sqrt(variance + NORM_EPSILON) + beta
        value = tf.reduce_sum(expected * upstream)
    for gradient, true in zip(ours, tape.gradient(value, variables), strict=True):
        np.testing.assert_allclose(gradient, true, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_statistics_are_float32_in_mixed_precision(policy):
    random = np.random.default_rng(3)
    layer = layer_of(64, random, dtype=policy)
    # Their squares, summed, are beyond float16.
    x = keras.ops.cast(200 * random.standard_normal((2, 3, 64)), layer.compute_dtype)
    output = layer(x)
    assert output.dtype == layer.compute_dtype
    expected = by_definition(keras.ops.cast(x, "float32"), *layer.get_weights())
    np.testing.assert_allclose(keras.ops.cast(output, "float32"), expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("options", [{"axis": 1}, {"axis": [1, 2]}, {"center": False}, {"scale": False}], ids=str)
def test_other_kinds_are_keras_own(options):
    x = 3 * np.random.default_rng(4).standard_normal((2, 5, 6)).astype("float32") + 1
    ours, theirs = LayerNormalization(**options), keras.layers.LayerNormalization(epsilon=NORM_EPSILON, **options)
    for training in (False, True):
        np.testing.assert_allclose(ours(x, training=training), theirs(x), atol=1e-6)
    again = LayerNormalization.from_config(ours.get_config())
    np.testing.assert_allclose(again(x), theirs(x), atol=1e-6)


def test_the_last_axis_may_be_told_from_the_front():
    x = np.random.default_rng(4).standard_normal((2, 5, 6)).astype("float32")
    np.testing.assert_allclose(LayerNormalization(axis=2)(x), LayerNormalization()(x), atol=1e-6)
