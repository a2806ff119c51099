"""The loss is label-smoothed cross-entropy over real tokens, and so is its gradient."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import ops

from tf_transformer import Perplexity, SmoothedCrossEntropy, TokenAccuracy
from tf_transformer.training import TokenCount, loss


def smoothed(label: int, vocabulary: int, label_smoothing: float) -> np.ndarray:
    """The distribution that stands for a label."""
    return (1 - label_smoothing) * np.eye(vocabulary)[label] + label_smoothing / vocabulary


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def by_definition(labels, logits, label_smoothing) -> float:
    """Section 5.4 in float64, a token at a time; 0 where there is no token."""
    logits = np.asarray(logits, "float64")
    losses = [
        -np.sum(smoothed(labels[place], logits.shape[-1], label_smoothing) * log_softmax(logits[place]))
        for place in zip(*np.nonzero(labels), strict=True)
    ]
    return float(np.mean(losses)) if losses else 0.0


def examples(vocabulary, batch=3, length=5, scale=3.0, seed=0):
    """Random labels and logits: no padding in the first row, some in the second, nothing else in the last."""
    random = np.random.default_rng(seed)
    labels = random.integers(1, vocabulary, (batch, length)).astype("int32")
    labels[1, length // 2 :] = 0
    labels[-1] = 0
    return labels, scale * random.standard_normal((batch, length, vocabulary)).astype("float32")


def value_and_gradient(function, labels, logits):
    logits = tf.convert_to_tensor(logits)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = function(labels, logits)
    return value, tape.gradient(value, logits)


@pytest.mark.parametrize("label_smoothing", [0, 0.1, 0.9])
@pytest.mark.parametrize("vocabulary", [2, 7, 5000])
def test_the_loss_is_its_definition(vocabulary, label_smoothing):
    labels, logits = examples(vocabulary)
    value = SmoothedCrossEntropy(label_smoothing)(labels, logits)
    assert value.dtype == "float32" and value.shape == ()
    assert float(value) == pytest.approx(by_definition(labels, logits, label_smoothing), rel=2e-6)


@pytest.mark.parametrize("of_tokens", [False, True], ids=["sentences", "tokens"])
def test_sample_weights_weigh_their_sentence_or_token(of_tokens):
    labels, logits = examples(7)
    weights = np.random.default_rng(1).random(labels.shape if of_tokens else labels.shape[:1]).astype("float32")
    of_position = weights if of_tokens else np.repeat(weights[:, None], labels.shape[1], axis=1)
    total = 0.0
    for place in zip(*np.nonzero(labels), strict=True):
        total -= of_position[place] * np.sum(smoothed(labels[place], 7, 0.1) * log_softmax(logits)[place])
    value = SmoothedCrossEntropy(0.1)(labels, logits, weights)
    assert float(value) == pytest.approx(total / np.count_nonzero(labels), rel=2e-6)
    ones = np.ones_like(weights)
    assert float(SmoothedCrossEntropy(0.1)(labels, logits, ones)) == pytest.approx(by_definition(labels, logits, 0.1))


def test_padding_counts_nowhere():
    labels, logits = examples(11)
    value, gradient = value_and_gradient(SmoothedCrossEntropy(), labels, logits)
    assert not gradient.numpy()[labels == 0].any()
    assert gradient.numpy()[labels != 0].all()

    elsewhere = np.where((labels == 0)[..., None], 100 - 7 * logits, logits)
    padded = np.pad(labels, [(0, 4), (0, 6)]), np.pad(logits, [(0, 4), (0, 6), (0, 0)], constant_values=5)
    for changed in ((labels, elsewhere), padded):
        assert float(SmoothedCrossEntropy()(*changed)) == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("label_smoothing", [0, 0.1])
@pytest.mark.parametrize("vocabulary", [2, 7])
def test_the_gradient_is_the_slope(vocabulary, label_smoothing):
    labels, logits = examples(vocabulary, length=4)
    _, gradient = value_and_gradient(SmoothedCrossEntropy(label_smoothing), labels, logits)
    logits = logits.astype("float64")
    step = 1e-5
    for place in np.ndindex(logits.shape):
        nudge = np.zeros_like(logits)
        nudge[place] = step
        rise = by_definition(labels, logits + nudge, label_smoothing)
        fall = by_definition(labels, logits - nudge, label_smoothing)
        assert gradient.numpy()[place] == pytest.approx((rise - fall) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("label_smoothing", [0, 0.1])
def test_the_gradient_is_that_of_the_plain_formula(label_smoothing):
    """Also where the positions weigh unequally, as they do when a caller takes the losses one by one."""
    vocabulary = 1000
    labels, logits = examples(vocabulary)
    weights = np.random.default_rng(1).standard_normal(labels.shape).astype("float32")

    def plain(labels, logits):
        target = (1 - label_smoothing) * ops.one_hot(labels, vocabulary) + label_smoothing / vocabulary
        return ops.sum(weights * -ops.sum(target * ops.log_softmax(logits), axis=-1))

    def ours(labels, logits):
        return ops.sum(weights * loss.smoothed_cross_entropy(ops.convert_to_tensor(labels), logits, label_smoothing))

    value, gradient = value_and_gradient(ours, labels, logits)
    expected_value, expected_gradient = value_and_gradient(plain, labels, logits)
    assert float(value) == pytest.approx(float(expected_value), rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-6)


def test_the_mask_of_a_model_s_output_changes_nothing():
    """Padding is told by the labels."""
    labels, logits = examples(11)
    masked = tf.convert_to_tensor(logits)
    masked._keras_mask = tf.constant(labels != 0)  # as Keras keeps it
    value = SmoothedCrossEntropy(0.1)(labels, masked)
    assert value.shape == () and float(value) == pytest.approx(by_definition(labels, logits, 0.1), rel=2e-6)


@pytest.mark.thorough
def test_a_model_of_keras_s_layers_that_mask_trains_on_the_same_loss():
    layers = [keras.layers.Embedding(11, 8, mask_zero=True), keras.layers.LSTM(8, return_sequences=True)]
    model = keras.Sequential([*layers, keras.layers.Dense(11)])
    model.compile(keras.optimizers.SGD(0.0), SmoothedCrossEntropy(0.1), run_eagerly=True)
    labels, _ = examples(11)
    expected = by_definition(labels, model(labels), 0.1)
    assert model.train_on_batch(labels, labels) == pytest.approx(expected, rel=1e-5)
    assert model.test_on_batch(labels, labels) == pytest.approx(expected, rel=1e-5)


def test_padding_alone_is_no_loss():
    _, logits = examples(7)
    value, gradient = value_and_gradient(SmoothedCrossEntropy(), np.zeros(logits.shape[:2], "int32"), logits)
    assert float(value) == 0
    assert not gradient.numpy().any()


def test_bfloat16_logits_are_taken_as_they_are():
    """Nothing is lost but the logits' own precision: the arithmetic is float32's."""
    labels, logits = examples(1000)
    logits = tf.cast(logits, tf.bfloat16)
    value, gradient = value_and_gradient(SmoothedCrossEntropy(), labels, logits)
    assert value.dtype == "float32"
    assert float(value) == pytest.approx(by_definition(labels, logits.numpy(), 0.1), rel=2e-6)
    assert gradient.dtype == tf.bfloat16
    wide = value_and_gradient(SmoothedCrossEntropy(), labels, tf.cast(logits, tf.float32))[1]
    np.testing.assert_array_equal(gradient.numpy(), tf.cast(wide, tf.bfloat16).numpy())


def test_a_model_in_mixed_bfloat16_trains():
    policy = keras.mixed_precision.DTypePolicy("mixed_bfloat16")
    model = keras.Sequential([keras.layers.Embedding(9, 8, dtype=policy), keras.layers.Dense(9, dtype=policy)])
    model.compile(keras.optimizers.Adam(0.1), SmoothedCrossEntropy(0), jit_compile=False)
    labels = np.array([[1, 2, 3, 4, 0, 0], [5, 6, 7, 8, 8, 8]])
    losses = model.fit(labels, labels, epochs=30, verbose=0).history["loss"]
    assert model(labels).dtype == "bfloat16"
    assert losses[0] > 1.5 and losses[-1] < 0.1


@pytest.mark.parametrize("label_smoothing", [0, 0.1])
def test_large_logits_stay_finite(label_smoothing):
    labels, logits = examples(11)
    huge = value_and_gradient(SmoothedCrossEntropy(label_smoothing), labels, logits * 1e30)
    for tensor in huge:
        assert np.isfinite(tensor).all()
    value = SmoothedCrossEntropy(label_smoothing)(labels, logits * 1e4)
    assert float(value) == pytest.approx(by_definition(labels, logits * 1e4, label_smoothing), rel=1e-5)
    # Only the logits' differences count.
    shifted = SmoothedCrossEntropy(label_smoothing)(labels, logits + 1000)
    assert float(shifted) == pytest.approx(by_definition(labels, logits, label_smoothing), rel=1e-3)


@settings(deadline=None, max_examples=100)
@given(
    vocabulary=st.integers(2, 60),
    label_smoothing=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0, 10),
)
def test_the_least_loss_is_the_entropy_of_the_smoothed_label(vocabulary, label_smoothing, seed, scale):
    random = np.random.default_rng(seed)
    label = random.integers(1, vocabulary)
    target = smoothed(label, vocabulary, label_smoothing)
    entropy = -np.sum(target * np.log(target))
    function = SmoothedCrossEntropy(label_smoothing)
    labels = np.array([[label]])

    value, gradient = value_and_gradient(function, labels, np.log(target).astype("float32")[None, None])
    assert float(value) == pytest.approx(entropy, abs=1e-5)
    np.testing.assert_allclose(gradient, np.zeros((1, 1, vocabulary)), atol=1e-6)

    logits = np.log(target) + scale * random.standard_normal(vocabulary)
    assert float(function(labels, logits.astype("float32")[None, None])) >= entropy - 1e-5


def test_it_survives_being_written_down():
    copy = keras.losses.deserialize(keras.losses.serialize(SmoothedCrossEntropy(0.3, name="xent")))
    assert isinstance(copy, SmoothedCrossEntropy)
    assert (copy.label_smoothing, copy.name) == (0.3, "xent")
    labels, logits = examples(7)
    assert float(copy(labels, logits)) == pytest.approx(by_definition(labels, logits, 0.3), rel=2e-6)


@pytest.mark.parametrize("label_smoothing", [-0.1, 1, 1.5, float("nan")])
def test_smoothing_must_leave_something_of_the_label(label_smoothing):
    with pytest.raises(ValueError, match=r"label_smoothing must be in \[0, 1\), got"):
        SmoothedCrossEntropy(label_smoothing)


@pytest.mark.parametrize("floatx", ["float16", "bfloat16"])
def test_half_precision_as_keras_default_rounds_no_label(floatx):
    """bfloat16 has no 257, float16 no 2,049; and neither counts much further by ones."""
    random = np.random.default_rng(6)
    labels = random.integers(2049, 4000, (15, 200)) | 1
    logits = np.zeros((15, 200, 4000), "float32")
    np.put_along_axis(logits, labels[..., None], 9.0, axis=-1)
    usual = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        value = SmoothedCrossEntropy(0.1)(labels, logits)
        metrics = [Perplexity(), TokenAccuracy(), TokenCount()]
        for metric in metrics:
            metric.update_state(labels, logits)
        perplexity, accuracy, tokens = (float(metric.result()) for metric in metrics)
    finally:
        keras.config.set_floatx(usual)
    assert float(value) == pytest.approx(by_definition(labels[:1, :5], logits[:1, :5], 0.1), rel=1e-5)
    assert perplexity == pytest.approx(1 + 3999 * np.exp(-9), rel=1e-5)
    assert (accuracy, tokens) == (1, 3000)
