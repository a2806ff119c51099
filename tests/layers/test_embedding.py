"""Token embeddings: rows scaled, their projection tied, and gradients that are dense."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import TokenEmbedding


def test_tokens_are_rows_times_the_root_of_the_width():
    embedding = TokenEmbedding(10, 16)
    x = embedding(np.array([[3, 0], [9, 3]]))
    matrix = embedding.embeddings.numpy()
    np.testing.assert_allclose(x, 4 * matrix[[[3, 0], [9, 3]]], rtol=1e-6)


def test_projection_is_the_transposed_matrix_unscaled():
    embedding = TokenEmbedding(10, 16)
    embedding.build()
    x = np.random.default_rng(0).standard_normal((2, 3, 16)).astype("float32")
    np.testing.assert_allclose(embedding.project(x), x @ embedding.embeddings.numpy().T, atol=1e-5)


def test_a_functional_model_is_refused_a_projection_that_would_never_learn():
    """Keras would keep the matrix of the moment as a constant."""
    ids = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(10, 16)
    with pytest.raises(ValueError, match="^project can't be a step of a functional model"):
        embedding.project(embedding(ids))


def test_embedded_tokens_and_first_logits_have_unit_variance():
    embedding = TokenEmbedding(2000, 64)
    x = embedding(np.arange(2000)[None])
    assert np.var(x) == pytest.approx(1, rel=0.03)
    noise = np.random.default_rng(0).standard_normal((1, 100, 64)).astype("float32")
    assert np.var(embedding.project(noise)) == pytest.approx(1, rel=0.1)


def test_the_tied_gradient_is_dense_and_the_sum_of_both_paths():
    embedding = TokenEmbedding(7, 4)
    ids = np.array([[1, 1, 5]])
    context = np.random.default_rng(0).standard_normal((1, 3, 4)).astype("float32")
    embedding.build()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(embedding(ids) * context) + tf.reduce_sum(embedding.project(context)[..., :2])
    gradient = tape.gradient(loss, embedding.embeddings.value)
    assert isinstance(gradient, tf.Tensor)
    expected = np.zeros((7, 4))
    for position, token in enumerate([1, 1, 5]):
        expected[token] += 2 * context[0, position]
    expected[:2] += context.sum(axis=(0, 1))
    np.testing.assert_allclose(gradient, expected, atol=1e-5)


def test_the_gradient_of_a_lookup_alone_is_dense_too():
    embedding = TokenEmbedding(7, 4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(embedding(np.array([[2]])))
    gradient = tape.gradient(loss, embedding.embeddings.value)
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_allclose(gradient, [[2.0 if row == 2 else 0.0] * 4 for row in range(7)])


def test_in_bfloat16_the_gradients_of_a_token_that_comes_often_are_summed_in_float32():
    embedding = TokenEmbedding(7, 4, dtype="mixed_bfloat16")
    ids = np.full((8, 512), 2)
    with tf.GradientTape() as tape:
        x = embedding(ids)
        loss = tf.reduce_sum(tf.cast(x, "float32"))
    assert x.dtype == tf.bfloat16
    gradient = tape.gradient(loss, embedding.embeddings.value)
    # In bfloat16 such a sum ends at 512, to which 2 more is 512 again.
    np.testing.assert_allclose(gradient[2], [2.0 * ids.size] * 4)
