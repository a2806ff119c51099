"""Projection and loss in one pass are their definition: the sums, both gradients, and logits that never exist whole."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.training.projected import assert_close, by_definition, examples, projected
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.projected_loss import projected_cross_entropy


@settings(deadline=None, max_examples=40)
@example(rows=11, vocabulary=2, width=1, padding=0.0, label_smoothing=0.9, chunk_rows=1, seed=1878378)  # cancels
@given(
    rows=st.integers(1, 12),
    vocabulary=st.integers(2, 40),
    width=st.integers(1, 9),
    padding=st.sampled_from([0.0, 0.3, 1.0]),
    label_smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    chunk_rows=st.integers(1, 13),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_and_gradients_are_their_definition(rows, vocabulary, width, padding, label_smoothing, chunk_rows, seed):
    """In chunks of one row up to all rows; padding alone gives zeros."""
    given = examples(rows, vocabulary, width, padding=padding, seed=seed)
    ours = projected(*given, label_smoothing, chunk_logits=chunk_rows * vocabulary)
    expected = by_definition(*given, label_smoothing)
    # What is summed may cancel, and has each term's rounding still: of numbers up to 1 times the largest factors.
    states, embeddings, _ = given
    terms = max(np.abs(states).max() * rows, np.abs(embeddings).max() * vocabulary)
    assert_close(ours, expected, 2e-5, rounding=4 * terms * 2**-24)
    if padding == 1.0:
        assert not any(np.any(part) for part in ours)


@settings(deadline=None, max_examples=25)
@given(
    rows=st.integers(1, 12),
    vocabulary=st.integers(2, 30),
    alpha=st.floats(0.1, 10),
    label_smoothing=st.sampled_from([0.0, 0.1]),
    chunk_rows=st.integers(1, 13),
    seed=st.integers(0, 2**32 - 1),
)
def test_r_drop_is_its_definition(rows, vocabulary, alpha, label_smoothing, chunk_rows, seed):
    given = examples(rows, vocabulary, copies=2, seed=seed)
    ours = projected(*given, label_smoothing, alpha, chunk_logits=2 * chunk_rows * vocabulary)
    # Where two predictions are alike, differences of numbers up to 1 + alpha, each rounded to 2^-24 of it, are left.
    assert_close(ours, by_definition(*given, label_smoothing, alpha), 5e-5, rounding=4 * (1 + alpha) * 2**-24)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_definitions_gradients_are_its_slopes(r_drop):
    """So that the reference above is no derivation of the same mistake: finite differences, in float64."""
    states, embeddings, labels = examples(4, 5, 3, copies=2 if r_drop else 1)
    states, embeddings = states.astype("float64"), embeddings.astype("float64")
    _, *gradients = by_definition(states, embeddings, labels, 0.1, r_drop)
    for matrix, gradient in zip((states, embeddings), gradients, strict=True):
        for place in np.ndindex(matrix.shape):
            values = []
            for step in (1e-6, -1e-6):
                matrix[place] += step
                values.append(by_definition(states, embeddings, labels, 0.1, r_drop)[0][0])
                matrix[place] -= step
            assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("chunk_logits", [1, 5000, 2**22])
def test_it_is_the_plain_path(chunk_logits):
    """Projection, then the loss on logits, with Keras's gradients in between."""
    states, embeddings, labels = examples(50, 1000, 16)
    x, matrix = tf.constant(states), tf.constant(embeddings)
    loss = SmoothedCrossEntropy(0.1)
    with tf.GradientTape() as tape:
        tape.watch([x, matrix])
        value = loss(labels[None], tf.matmul(x, matrix, transpose_b=True)) * loss.batch_tokens(labels)
    plain = [tensor.numpy() for tensor in (value, *tape.gradient(value, [x, matrix]))]
    sums, *gradients = projected(states, embeddings, labels, 0.1, chunk_logits=chunk_logits)
    assert_close([sums[:1], *gradients], [[plain[0]], *plain[1:]], 1e-5)


@pytest.mark.parametrize(
    ("r_drop", "xla"),
    [
        (0.0, True),
        (2.0, False),
        pytest.param(0.0, False, marks=pytest.mark.thorough),
        pytest.param(2.0, True, marks=pytest.mark.thorough),
    ],
    ids=["0.0-XLA", "2.0-graph", "0.0-graph", "2.0-XLA"],
)
def test_several_chunks_in_a_graph_are_their_definition(r_drop, xla):
    """Where the loop is TensorFlow's own; without XLA the number of rows is not known when it is traced."""
    states, embeddings, labels = examples(50, 29, copies=2 if r_drop else 1)

    def work(states, labels):
        with tf.GradientTape() as tape:
            tape.watch([states, matrix])
            sums = projected_cross_entropy(states, matrix, labels, 0.1, r_drop, chunk_logits=8 * 29)
        return sums, tape.gradient(sums.loss, [states, matrix])

    matrix = tf.constant(embeddings)
    given = tf.constant(states if r_drop else states[0]), tf.constant(labels)
    rows = 50 if xla else None
    signature = [tf.TensorSpec((2, rows, 6) if r_drop else (rows, 6)), tf.TensorSpec((rows,), tf.int32)]
    sums, gradients = tf.function(work, input_signature=signature, jit_compile=xla)(*given)
    ours = [float(sum) for sum in sums], *(gradient.numpy() for gradient in gradients)
    assert_close(ours, by_definition(states, embeddings, labels, 0.1, r_drop), 5e-5)


@pytest.mark.parametrize("r_drop", [0.0, 0.5])
@pytest.mark.parametrize(
    ("floatx", "dtype"),
    [("float64", "float64"), ("float64", "float32"), ("float16", "float32"), ("float32", "float64")],
)
def test_keras_s_default_type_does_not_matter(floatx, dtype, r_drop):
    states, embeddings, labels = examples(copies=2 if r_drop else 1)
    usual = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        found = projected(states, embeddings, labels, 0.1, r_drop, dtype)
    finally:
        keras.config.set_floatx(usual)
    assert_close(found, by_definition(states, embeddings, labels, 0.1, r_drop), 1e-5)


def test_large_logits_stay_finite():
    """Where softmax puts all on one token, right or wrong."""
    states, embeddings, labels = examples()
    sums, *gradients = projected(1e4 * states, embeddings, labels, 0.1)
    assert np.isfinite(sums).all() and all(np.isfinite(gradient).all() for gradient in gradients)
    logits = 1e4 * states[0].astype("float64") @ embeddings.T.astype("float64")
    of_label = np.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    assert sums[1] == pytest.approx(np.sum((logits.max(axis=1) - of_label)[labels != 0]), rel=1e-5)


@pytest.mark.parametrize("row", [5, 12])
@pytest.mark.parametrize("wrong", [29, 57, -1, 10**6])
def test_a_label_outside_the_vocabulary_gives_no_figure(wrong, row):
    """Nor a gradient; in the last row, behind which there is no other logit, neither."""
    states, embeddings, labels = examples()
    labels[row] = wrong
    sums, of_states, of_embeddings = projected(states, embeddings, labels, 0.1)
    assert np.isnan(sums[:2]).all()
    assert np.isnan(of_states[row]).all() and np.isnan(of_embeddings).any()
    loss, cross_entropy, *_ = projected_cross_entropy(states[0], embeddings, labels, 0.1, training=False)
    assert np.isnan(loss) and np.isnan(cross_entropy)


def test_who_shares_the_highest_logit_is_right():
    """As `TokenAccuracy` has it."""
    embeddings = np.array([[0, 0], [1, 0], [1, 0], [0, 1]], "float32")
    states = np.array([[[1, 0], [1, 0], [1, 0], [0, 1], [0, 0], [1, 0]]], "float32")
    labels = np.array([1, 2, 3, 3, 3, 0])
    sums, *_ = projected(states, embeddings, labels)
    assert sums[2:4] == [4, 5]  # the first, second, fourth, and the fifth, whose logits are all alike


@pytest.mark.parametrize("chunk_logits", [1, 90, 10**6])
def test_without_training_the_sums_are_the_same(chunk_logits):
    states, embeddings, labels = examples()
    for r_drop in (0.0, 0.5):
        rows = np.concatenate([states, -states]) if r_drop else states[0]
        sums = [
            projected_cross_entropy(rows, embeddings, labels, 0.1, r_drop, training, chunk_logits)
            for training in (True, False)
        ]
        np.testing.assert_allclose(sums[0], sums[1], rtol=1e-6)
