"""The projected loss in half precision and in TensorFloat-32 is as exact as the plain path over all logits."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tiny_run import PAIRS
from tests.training.projected import by_definition, projected
from tf_transformer import load_model, make_batches, padding_mask
from tf_transformer.training.projected_loss import projected_cross_entropy


def predicting(certainty, rows=100, vocabulary=100, width=64, copies=1):
    """Examples whose labels have ever more of the probability: from 0.01 at 0 to 0.9996 at 20."""
    random = np.random.default_rng(4)
    embeddings = random.standard_normal((vocabulary, width)) / np.sqrt(width)
    labels = random.integers(1, vocabulary, rows)
    states = random.standard_normal((copies, rows, width)) + certainty * embeddings[labels]
    return states.astype("float32"), embeddings.astype("float32"), labels.astype("int32")


def over_logits(states, matrix, labels, label_smoothing, r_drop):
    """The plain path: all logits, float32 softmax, and TensorFlow's own gradients."""
    logits = tf.cast(tf.matmul(states, tf.cast(matrix, states.dtype), transpose_b=True), tf.float32)
    smoothed = (1 - label_smoothing) * tf.one_hot(labels, matrix.shape[0]) + label_smoothing / matrix.shape[0]
    log_shares = tf.nn.log_softmax(logits)
    loss = -tf.reduce_sum(smoothed * log_shares) / len(states)
    if r_drop:
        p, q = tf.unstack(log_shares)
        loss += r_drop / 4 * tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q))
    return loss


def rounding(loss_of, states, matrix, dtype, expected):
    """How far a loss's gradients lie from the expected ones, relative to these; with float16's usual scale."""
    states, matrix = tf.cast(states, dtype), tf.constant(matrix)
    scale = 2.0**15 / states.shape[1]  # as for a mean over the tokens
    with tf.GradientTape() as tape:
        tape.watch([states, matrix])
        loss = scale * loss_of(states, matrix)
    gradients = [tf.cast(each, tf.float64).numpy() / scale for each in tape.gradient(loss, [states, matrix])]
    return [
        np.linalg.norm(gradient - true) / np.linalg.norm(true)
        for gradient, true in zip(gradients, expected, strict=True)
    ]


def rounded(array, dtype):
    return tf.cast(tf.cast(array, dtype), tf.float32).numpy()


def assert_as_exact_as_the_plain_path(
    states, embeddings, labels, label_smoothing, r_drop, dtype, chunk_rows=8, times=1.2
):
    """Both gradients have at most so many times its rounding error."""
    states, embeddings = rounded(states, dtype), rounded(embeddings, dtype)
    _, *expected = by_definition(states, embeddings, labels, label_smoothing, r_drop)
    chunk_logits = len(states) * chunk_rows * len(embeddings)

    def fused(states, matrix):
        states = states if r_drop else states[0]
        return projected_cross_entropy(states, matrix, labels, label_smoothing, r_drop, chunk_logits=chunk_logits).loss

    def plain(states, matrix):
        return over_logits(states, matrix, labels, label_smoothing, r_drop)

    ours, theirs = (rounding(loss, states, embeddings, dtype, expected) for loss in (fused, plain))
    for of_ours, of_theirs in zip(ours, theirs, strict=True):
        assert of_ours <= times * of_theirs
        assert of_theirs < 0.1  # the plain path's is rounding, and no mistake of this test


# Half of them are quick: of each certainty and dtype those with each smoothing, and with R-Drop and without it; each of
# these with each of the other at some certainty.
CERTAINTIES = [
    pytest.param(
        certainty,
        dtype,
        label_smoothing,
        r_drop,
        marks=[] if (label_smoothing == 0) ^ (r_drop == 0) ^ (certainty in (0, 9)) else pytest.mark.thorough,
    )
    for certainty in (0, 6, 9, 20)
    for dtype in ("bfloat16", "float16")
    for label_smoothing in (0.0, 0.1)
    for r_drop in (0.0, 5.0)
]


@pytest.mark.parametrize(("certainty", "dtype", "label_smoothing", "r_drop"), CERTAINTIES)
def test_half_precision_is_as_exact_as_over_logits(certainty, dtype, label_smoothing, r_drop):
    """At any probability of the label; near 1 and near 0.9 the gradient is the small rest of large numbers."""
    given = predicting(certainty, copies=2 if r_drop else 1)
    assert_as_exact_as_the_plain_path(*given, label_smoothing, r_drop, dtype)


@pytest.fixture(scope="module")
def trained(tiny_run_directory):
    """The states that a trained model projects, its embeddings, and the labels."""
    model, tokenizers = load_model(tiny_run_directory.path), tiny_run_directory.load_tokenizers()
    (batch, labels), *_ = make_batches(PAIRS, tokenizers, batch_tokens=10_000, max_length=40)
    source_ids, target_ids = batch
    states = model.decoder(target_ids, model.encoder(source_ids), context_mask=padding_mask(source_ids))
    embeddings = model.output_embeddings().numpy()
    labels = labels.numpy().ravel()
    states = states.numpy().reshape(1, len(labels), -1)
    accuracy = np.mean((states[0] @ embeddings.T).argmax(axis=-1)[labels != 0] == labels[labels != 0])
    assert accuracy > 0.95
    return states[:, labels != 0], embeddings, labels[labels != 0]


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_as_exact_in_a_trained_model(dtype, label_smoothing, trained):
    assert_as_exact_as_the_plain_path(*trained, label_smoothing, 0.0, dtype)


def to_tensor_float(x):
    """Float32 numbers with 10 binary digits behind the point, as TensorFloat-32 takes them: rounded by Veltkamp."""
    split = x * (2.0**13 + 1)
    return split - (split - x)


@tf.custom_gradient
def tensor_float_product(a, b):
    """Two matrices' product and its gradients as a GPU from 2020 on computes them."""
    exact, (a, b) = tf.raw_ops.MatMul, map(to_tensor_float, (a, b))

    def gradient(upstream):
        upstream = to_tensor_float(upstream)
        return exact(a=upstream, b=b, transpose_b=True), exact(a=a, b=upstream, transpose_a=True)

    return exact(a=a, b=b), gradient


@pytest.mark.parametrize("certainty", [0, 6, 9, 20])
def test_tensor_float_32_is_as_exact_as_over_logits(certainty, monkeypatch):
    """A GPU is emulated: what it is to TensorFlow, and how its products round.

    The gradients go through one product more than over logits, that with the loss's own gradient.
    """

    def matmul(a, b, transpose_a=False, transpose_b=False, **_):
        a, b = (tf.transpose(x) if turned else x for x, turned in ((a, transpose_a), (b, transpose_b)))
        product = tensor_float_product(tf.reshape(a, (-1, a.shape[-1])), b)
        return tf.reshape(product, (*a.shape[:-1], b.shape[-1]))

    assert to_tensor_float(tf.constant(1 + 2**-10 + 2**-12)) == 1 + 2**-10
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["a GPU"])
    monkeypatch.setattr(tf, "matmul", matmul)
    assert_as_exact_as_the_plain_path(*predicting(certainty), 0.1, 0.0, "float32", times=2)


def test_float16_is_as_exact_over_many_rows_of_small_states():
    """As many as the real chunks of a small vocabulary would hold."""
    states, embeddings, labels = predicting(0, rows=16_384, vocabulary=20, width=8)
    assert_as_exact_as_the_plain_path(0.3 * states, embeddings, labels, 0.0, 0.0, "float16", chunk_rows=10**6)


def test_in_float16_r_drop_does_not_overflow_where_the_copies_differ():
    """Gradients of the logits of 300 each, before the mean over both copies, at an alpha of 40."""
    embeddings = np.eye(4, dtype="float32")
    states = np.array([[[12, 12, 0, 0]], [[0, 60, 0, 0]]], "float32")
    _, expected, of_matrix = by_definition(states, embeddings, [3], r_drop=40.0)
    assert np.abs(expected).max() > 140
    _, of_states, of_embeddings = projected(states, embeddings, [3], r_drop=40.0, dtype="float16")
    np.testing.assert_allclose(of_states, expected, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(of_embeddings, of_matrix, rtol=2e-3, atol=1e-2)


def test_in_float16_many_rows_do_not_overflow():
    """Four tokens share 8,000 rows of 50: sums of 100,000, beyond what float16 holds."""
    states = np.full((1, 8000, 2), [50.0, 0.5], "float32")
    embeddings = np.array([[0, 1], [0, 2], [0, 1], [0, 2]], "float32")
    labels = np.full(8000, 3, "int32")
    _, of_states, of_embeddings = projected(states, embeddings, labels, dtype="float16")
    expected = by_definition(rounded(states[:, :1], "float16"), embeddings, labels[:1])
    np.testing.assert_allclose(of_embeddings, 8000 * expected[2], rtol=2e-3)
    np.testing.assert_allclose(of_states, np.repeat(expected[1][0], 8000, axis=0), rtol=2e-3)
