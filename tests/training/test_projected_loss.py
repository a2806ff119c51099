"""Projection and loss in one pass are their definition: the sums, both gradients, and logits that never exist whole."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tiny_run import PAIRS
from tf_transformer import load_model, make_batches, padding_mask
from tf_transformer.training.loss import SmoothedCrossEntropy
from tf_transformer.training.projected_loss import projected_cross_entropy

SUMS = ("loss", "cross_entropy", "correct", "tokens")


def examples(rows=13, vocabulary=29, width=6, copies=1, padding=0.3, seed=0):
    """States float32 (copies, rows, width), embeddings, and labels of which about a share of `padding` is padding."""
    random = np.random.default_rng(seed)
    states = random.standard_normal((copies, rows, width)).astype("float32")
    embeddings = random.standard_normal((vocabulary, width)).astype("float32")
    labels = random.integers(1, vocabulary, rows) * (random.random(rows) >= padding)
    return states, embeddings, labels.astype("int32")


def softmax(logits):
    shares = np.exp(logits - logits.max())
    return shares / shares.sum()


def by_definition(states, embeddings, labels, label_smoothing=0.0, r_drop=0.0):
    """Loss, cross-entropy, correct tokens and tokens in float64, a token at a time, and the loss's gradients.

    With two copies the loss is half of equation 4 of R-Drop, and the figures are the copies' means.
    """
    copies, embeddings = (np.asarray(x, "float64") for x in (states, embeddings))
    sums, of_states, of_embeddings = np.zeros(5), np.zeros_like(copies), np.zeros_like(embeddings)
    for row, label in enumerate(labels):
        if label == 0:
            continue
        target = (1 - label_smoothing) * np.eye(len(embeddings))[label] + label_smoothing / len(embeddings)
        logits = [embeddings @ states[row] for states in copies]
        shares = [softmax(each) for each in logits]
        sums[3] += 1
        of_logits = []
        for copy, p in enumerate(shares):
            sums[0] -= np.sum(target * np.log(p)) / len(copies)
            sums[1] -= np.log(p[label]) / len(copies)
            sums[2] += (logits[copy][label] >= logits[copy].max()) / len(copies)
            of_logits.append((p - target) / len(copies))
        if r_drop:
            p, q = shares
            divergence = r_drop / 4 * np.sum((p - q) * np.log(p / q))  # KL(p || q) + KL(q || p)
            sums[0] += divergence
            for copy, (one, other) in enumerate([(p, q), (q, p)]):
                # d divergence / d one, through the softmax's matrix of derivatives
                of_shares = r_drop / 4 * (np.log(one / other) + 1 - other / one)
                of_logits[copy] = of_logits[copy] + (np.diag(one) - np.outer(one, one)) @ of_shares
        for copy, of_logit in enumerate(of_logits):
            of_states[copy, row] = of_logit @ embeddings
            of_embeddings += np.outer(of_logit, copies[copy, row])
    return sums, of_states, of_embeddings


def projected(states, embeddings, labels, label_smoothing=0.0, r_drop=0.0, dtype="float32", **options):
    """The same from the function under test."""
    states = tf.cast(states if r_drop else states[0], dtype)
    embeddings = tf.constant(embeddings)
    with tf.GradientTape() as tape:
        tape.watch([states, embeddings])
        sums = projected_cross_entropy(states, embeddings, labels, label_smoothing, r_drop, **options)
    of_states, of_embeddings = tape.gradient(sums.loss, [states, embeddings])
    assert of_states.dtype == states.dtype and of_embeddings.dtype == "float32"
    return [float(sum) for sum in sums], tf.cast(of_states, "float32").numpy(), of_embeddings.numpy()


def assert_close(ours, expected, tolerance, rounding=0.0):
    """Sums to a relative tolerance, gradients to the same of their largest number.

    Where terms cancel, what is left has still the terms' rounding.
    """
    assert ours[0] == pytest.approx(list(expected[0]), rel=tolerance, abs=1e-12)
    for gradient, reference in zip(ours[1:], expected[1:], strict=True):
        limit = tolerance * max(np.abs(reference).max(), 1e-12) + rounding
        np.testing.assert_allclose(gradient.reshape(reference.shape), reference, rtol=0, atol=limit)


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
