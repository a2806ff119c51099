"""The metrics are sums over the real tokens of all batches, divided once."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_transformer import Perplexity, TokenAccuracy
from tf_transformer.training import TokenCount

METRICS = [Perplexity, TokenAccuracy, TokenCount]


def batches():
    """Three batches of very different sizes, difficulty and padding; a token now and then is right."""
    random = np.random.default_rng(0)
    for rows, length, difficulty in (2, 3, 0.5), (7, 9, 4.0), (4, 1, 8.0):
        labels = random.integers(1, 11, (rows, length)).astype("int32")
        for row in range(rows):
            labels[row, length - row % length :] = 0
        logits = difficulty * random.standard_normal((rows, length, 11)).astype("float32")
        yield labels, logits + 2 * np.eye(11, dtype="float32")[labels]


def sums(labels, logits) -> np.ndarray:
    """Cross-entropy, right tokens and tokens of a batch, in float64."""
    logits = logits.astype("float64")
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    totals = np.zeros(3)
    for place in zip(*np.nonzero(labels), strict=True):
        label = labels[place]
        totals += -math.log(probabilities[place][label]), logits[place].argmax() == label, 1
    return totals


def test_they_are_sums_over_all_batches_divided_once():
    perplexity, accuracy, tokens = (metric() for metric in METRICS)
    total = np.zeros(3)
    for labels, logits in batches():
        for metric in (perplexity, accuracy, tokens):
            metric.update_state(labels, logits)
        total += sums(labels, logits)
        # Right after each batch too.
        assert float(perplexity.result()) == pytest.approx(math.exp(total[0] / total[2]), rel=1e-5)
        assert float(accuracy.result()) == pytest.approx(total[1] / total[2], rel=1e-6)
        assert float(tokens.result()) == total[2]

    # The mean of the batches' figures would be another one.
    of_batches = np.array([sums(*batch) for batch in batches()])
    assert abs(np.mean(np.exp(of_batches[:, 0] / of_batches[:, 2])) - float(perplexity.result())) > 1
    assert abs(np.mean(of_batches[:, 1] / of_batches[:, 2]) - float(accuracy.result())) > 0.01


@pytest.mark.parametrize("metric", METRICS)
def test_a_reset_forgets(metric):
    first, second, _ = batches()
    metric, fresh = metric(), metric()
    metric.update_state(*first)
    metric.reset_state()
    for each in (metric, fresh):
        each.update_state(*second)
    assert float(metric.result()) == float(fresh.result())


@pytest.mark.parametrize("metric", METRICS)
def test_padding_changes_nothing(metric):
    metric = metric()
    labels, logits = list(batches())[1]
    metric.update_state(labels, logits)
    before = float(metric.result())
    metric.update_state(np.zeros_like(labels), logits)
    assert float(metric.result()) == before


@pytest.mark.parametrize("metric, nothing", [(Perplexity, 1), (TokenAccuracy, 0), (TokenCount, 0)])
def test_without_a_token_they_are_finite(metric, nothing):
    assert float(metric().result()) == nothing


def test_bfloat16_logits_are_taken_as_they_are():
    labels, logits = list(batches())[1]
    narrow = tf.cast(logits, tf.bfloat16)
    metric = Perplexity()
    metric.update_state(labels, narrow)
    entropy, _, tokens = sums(labels, narrow.numpy().astype("float32"))
    assert float(metric.result()) == pytest.approx(math.exp(entropy / tokens), rel=1e-5)


@pytest.mark.parametrize("metric", METRICS)
def test_weights_are_refused(metric):
    labels, logits = next(batches())
    with pytest.raises(ValueError, match="sample_weight must be None"):
        metric().update_state(labels, logits, sample_weight=np.ones_like(labels))


@pytest.mark.parametrize("metric", METRICS)
def test_they_survive_being_written_down(metric):
    copy = keras.metrics.deserialize(keras.metrics.serialize(metric(name="figure")))
    assert type(copy) is metric and copy.name == "figure"
    original = metric()
    for labels, logits in batches():
        copy.update_state(labels, logits)
        original.update_state(labels, logits)
    assert float(copy.result()) == float(original.result())
