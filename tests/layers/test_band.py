"""Restricted self-attention against full attention under a mask of the same band."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.recipe.recipes import DEMO
from tf_transformer import Encoder, MultiHeadAttention, Transformer, UserError, export_ctranslate2
from tf_transformer.layers.band import band_weights
from tf_transformer.recipe import load_recipe

random = np.random.default_rng(0)


def band(length, window):
    position = np.arange(length)
    return np.abs(position[:, None] - position) <= window


@functools.cache
def two_of_the_same(window):
    """With a window, and without one; with the same weights."""
    layers = [MultiHeadAttention(12, 3, window=each) for each in (window, None)]
    for layer in layers:
        layer.build((None, None, 8), (None, None, 8))
    reference.randomise(layers[0])
    layers[1].set_weights(layers[0].get_weights())
    return layers


@settings(deadline=None, max_examples=60)
@given(length=st.integers(1, 23), window=st.integers(1, 9), seed=st.integers(0, 2**16))
def test_it_is_full_attention_under_a_mask_of_the_band(length, window, seed):
    restricted, full = two_of_the_same(window)
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((2, length, 8)).astype("float32")
    real = np.arange(length) < draw.integers(1, length + 1, (2, 1))
    output, weights = restricted(x, x, attention_mask=real[:, None], return_attention_scores=True)
    mask = real[:, None] & band(length, window)
    expected, expected_weights = full(x, x, attention_mask=mask, return_attention_scores=True)
    # A query without a single key that it may attend to sees padding, which means nothing.
    sees = mask.any(axis=2)
    np.testing.assert_allclose(output.numpy()[sees], expected.numpy()[sees], rtol=0, atol=1e-5)
    rows = np.broadcast_to(sees[:, None], weights.shape[:3])
    np.testing.assert_allclose(weights.numpy()[rows], expected_weights.numpy()[rows], rtol=0, atol=1e-6)
    assert not (weights.numpy() * ~band(length, window))[rows].any()


@pytest.mark.parametrize("window", [3, 20])
def test_gradients_and_graphs_of_unknown_lengths(window):
    restricted, full = two_of_the_same(window)
    x = random.standard_normal((2, 11, 8)).astype("float32")

    @tf.function(input_signature=[tf.TensorSpec((None, None, 8))])
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.sin(restricted(x, x)))
        return tape.gradient(loss, x)

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.sin(full(x, x, attention_mask=band(11, window)[None])))
    np.testing.assert_allclose(gradient(x), tape.gradient(loss, x), rtol=0, atol=1e-5)


def test_a_short_sequence_is_not_filled_up_to_the_window():
    x = np.ones((1, 2, 5, 4), "float32")
    assert band_weights(x, x, None, 512, "float32").shape == (1, 2, 1, 5, 15)
    of_unknown_length = tf.function(lambda x: band_weights(x, x, None, 512, "float32")).get_concrete_function(
        tf.TensorSpec((1, 2, None, 4))
    )
    assert of_unknown_length(tf.constant(x)).shape == (1, 2, 1, 5, 15)


def test_weights_are_dropped_in_training():
    x = np.random.default_rng(1).standard_normal((2, 7, 8)).astype("float32")
    layer = MultiHeadAttention(12, 3, window=2, attention_dropout_rate=0.5)
    layer.build(x.shape, x.shape)
    reference.randomise(layer)
    plain = layer(x, x, training=False)
    np.testing.assert_array_equal(layer(x, x, training=False), plain)
    assert np.abs(layer(x, x, training=True) - plain).max() > 0.1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_finite_where_nothing_may_be_attended_to(dtype):
    layer = MultiHeadAttention(12, 3, window=2, dtype=f"mixed_{dtype}")
    x = random.standard_normal((2, 7, 8)).astype("float32")
    output = layer(x, x, attention_mask=np.zeros((2, 1, 7), bool))
    assert output.dtype == dtype and np.isfinite(tf.cast(output, "float32")).all()


def test_an_encoder_with_it_is_one_under_a_mask():
    sizes = {"num_layers": 2, "d_model": 16, "num_heads": 2, "dff": 24, "vocab_size": 20}
    ids = random.integers(1, 20, (2, 15)).astype("int32")
    ids[1, 9:] = 0
    restricted, full = Encoder(**sizes, window=4), Encoder(**sizes)
    restricted.build(ids.shape)
    full.build(ids.shape)
    reference.randomise(restricted)
    full.set_weights(restricted.get_weights())
    expected = full(ids, attention_mask=band(15, 4)[None]).numpy()
    got = restricted(ids).numpy()
    np.testing.assert_allclose(got[ids != 0], expected[ids != 0], rtol=0, atol=1e-5)
    assert np.abs(got - full(ids).numpy())[ids != 0].max() > 0.1
    assert Encoder.from_config(restricted.get_config()).window == 4


def test_what_it_can_t_do_is_refused(tmp_path):
    layer = MultiHeadAttention(12, 3, window=2)
    x = np.ones((1, 5, 8), "float32")
    with pytest.raises(ValueError, match="window is for self-attention"):
        layer(x, x[:, :4])
    with pytest.raises(ValueError, match="one for all queries"):
        layer(x, x, attention_mask=np.ones((1, 5, 5), bool))
    with pytest.raises(ValueError, match="window must be a positive integer, got 0"):
        MultiHeadAttention(12, 3, window=0)
    model = Transformer(1, 8, 2, 16, 20, 20, window=3)
    with pytest.raises(UserError, match="does not support attention with a window"):
        export_ctranslate2(model, None, tmp_path / "export")


def test_it_is_a_recipe_s():
    arguments = load_recipe(DEMO, ["model.window=16"]).model.arguments(20, 20)
    model = Transformer(**arguments)
    assert [layer.self_attention.window for layer in model.encoder.layers] == [16, 16]
    assert [layer.self_attention.window for layer in model.decoder.layers] == [None, None]
