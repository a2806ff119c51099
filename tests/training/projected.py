"""The projected loss and its gradients by their definition, and from the function under test."""

import numpy as np
import pytest
import tensorflow as tf

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
