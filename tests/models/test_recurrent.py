"""The recurrent model: its equations, its steps, and that everything asked of a model works with it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.decoding import by_hand
from tests.models import recurrent_reference
from tf_transformer import RecurrentModel, SmoothedCrossEntropy, load_model
from tf_transformer.decoding import RecurrentStepper, beam_search, greedy_search, shift_right
from tf_transformer.layers.lstm import LSTM

# Unequal lengths on both sides; 0 is padding. The target starts with the start token.
SOURCE = np.array([[5, 9, 14, 22, 7, 3], [8, 17, 3, 0, 0, 0], [3, 0, 0, 0, 0, 0]], "int32")
TARGET = np.array([[2, 6, 11, 0, 0], [2, 19, 4, 4, 21], [2, 13, 0, 0, 0]], "int32")
VOCABULARY = 23


def small(**changes):
    """A small model with random weights."""
    options = {"num_layers": 3, "d_model": 16, "max_length": 12, **changes}
    model = RecurrentModel(**options, input_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY)
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


@pytest.fixture(scope="module", params=["all", "target", "none"])
def any_model(request):
    return small(share_embeddings=request.param, output_bias=request.param == "target")


@pytest.fixture(scope="module")
def model():
    return small()


def length(ids):
    return int((ids != 0).sum())


def test_logits_and_attention_equal_the_reference(any_model):
    """Of each sentence alone, without padding: so padding changes nothing."""
    logits, scores = any_model((SOURCE, TARGET), return_attention_scores=True)
    assert list(scores) == ["cross"]
    (weights,) = scores["cross"]
    assert weights.shape == (3, 1, 5, 6)
    for i, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        n, m = length(source), length(target)
        expected, attended = recurrent_reference.recurrent_model(
            reference.weights_of(any_model), source[:n], target[:m], 3, any_model.share_embeddings
        )
        np.testing.assert_allclose(logits[i, :m], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(weights[i, 0, :m, :n], attended, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(weights[i, 0, :, n:], 0)


@pytest.mark.parametrize("backward", [False, True])
def test_an_lstm_is_keras_s(backward):
    x = np.random.default_rng(0).standard_normal((3, 6, 5)).astype("float32")
    mask = SOURCE != 0
    layer = LSTM(4, backward=backward)
    layer.build(x.shape)
    reference.randomise(layer)
    other = keras.layers.LSTM(4, return_sequences=True, go_backwards=backward)
    other.build(x.shape)

    def in_keras_s_order(matrix):
        write, keep, read, new = np.split(np.asarray(matrix), 4, axis=-1)
        return np.concatenate([write, keep, new, read], axis=-1)

    projection = layer.input_projection
    other.set_weights([in_keras_s_order(w) for w in (projection.kernel, layer.recurrent_kernel, projection.bias)])
    expected = other(x, mask=mask).numpy()
    if backward:  # Keras gives what it has read first in front
        expected = expected[:, ::-1]
    np.testing.assert_allclose(layer(x, real=mask).numpy()[mask], expected[mask], rtol=0, atol=1e-6)


def test_an_lstm_in_a_functional_model():
    x, real = keras.Input((None, 5)), keras.Input((None,), dtype="bool")
    layer = LSTM(4, backward=True)
    output = layer(x, real=real)
    assert output.shape == (None, None, 4)
    numbers = np.random.default_rng(0).standard_normal((3, 6, 5)).astype("float32")
    model = keras.Model([x, real], output)
    np.testing.assert_allclose(model([numbers, SOURCE != 0]), layer(numbers, real=SOURCE != 0), atol=1e-6)


def test_the_forget_gates_are_open_at_first():
    layer = LSTM(4)
    layer.build((None, None, 5))
    np.testing.assert_array_equal(
        np.split(layer.input_projection.bias.numpy(), 4), [[0] * 4, [1] * 4, [0] * 4, [0] * 4]
    )


@pytest.mark.thorough
def test_with_xla_it_takes_the_same_steps():
    """As Keras compiles it on a GPU, if nothing else is said; against steps of which nothing is traced."""
    losses = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(0)
        model = RecurrentModel(1, 8, VOCABULARY, VOCABULARY, dropout_rate=0.0)
        how = {"jit_compile": jit_compile, "run_eagerly": not jit_compile}
        model.compile(keras.optimizers.SGD(0.5), SmoothedCrossEntropy(), **how)
        losses.append(model.fit((SOURCE, TARGET), TARGET, epochs=3, verbose=0).history["loss"])
    assert losses[0][2] < losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def half_dropped(kind, num_layers):
    """An encoder or a decoder with a dropout of a half.

    Returns the layers at its bottom, and what gives the output of its last layer, once it is told whether it trains.
    """
    ids = np.random.default_rng(0).integers(4, VOCABULARY, (8, 6)).astype("int32")
    model = small(num_layers=num_layers, dropout_rate=0.5)
    if kind == "encoder":
        return [model.encoder.forward, model.encoder.backward], lambda training: model.encoder(ids, training=training)
    kernel, bias = model.decoder.output_projection.weights
    kernel.assign(np.eye(*kernel.shape))  # of the last layer's output and what was found in the source, the former
    bias.assign(np.zeros(bias.shape))
    context = np.ones((8, 6, 16), "float32")
    return [model.decoder.bottom], lambda training: model.decoder(ids, context, ids, training=training)[0]


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_dropout_acts_on_the_embeddings_and_on_the_bottom_layer(kind):
    _, run = half_dropped(kind, 1)
    plain, trained = run(False).numpy(), run(True).numpy()
    np.testing.assert_array_equal(run(False), plain)
    assert plain.all()
    assert np.mean(trained == 0) == pytest.approx(0.5, abs=0.1)
    # What the bottom layer's dropout has left is twice what is there without it, unless the embeddings had theirs.
    assert np.abs(trained - 2 * plain)[trained != 0].max() > 0.01


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_dropout_acts_on_each_layer_above(kind):
    """Above a bottom layer of zeros, which is all that the residual connection adds."""
    bottom, run = half_dropped(kind, 2)
    for layer in bottom:
        layer.set_weights([np.zeros(weight.shape) for weight in layer.weights])
    plain, trained = run(False).numpy(), run(True).numpy()
    assert plain.all()
    assert np.mean(trained == 0) == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(trained[trained != 0], 2 * plain[trained != 0], rtol=1e-5)


def test_no_position_sees_a_later_one(model):
    other = TARGET.copy()
    other[:, 3:] = 9
    np.testing.assert_array_equal(model((SOURCE, TARGET))[:, :3], model((SOURCE, other))[:, :3])


def test_hypotheses_go_on_as_themselves_when_the_cache_is_settled(any_model):
    by_hand.check_hypotheses_when_settled(any_model, RecurrentStepper(any_model), SOURCE, steps=8, beams=3)


@pytest.mark.thorough
def test_searches_in_a_graph_find_what_plain_python_finds(model):
    """Through the loops, in which rows leave and entries are dropped."""
    source = np.random.default_rng(0).integers(4, VOCABULARY, (6, 5)).astype("int32")
    source[1, 2:] = 0
    limits = np.array([9, 7, 9, 4, 0, 8], "int32")

    @tf.function
    def search(source, limits):
        stepper = model.stepper()
        ids, _ = greedy_search(stepper, stepper.start_cache(source), limits, by_hand.START, by_hand.END)
        cache = stepper.start_cache(source, 4)
        return ids, *beam_search(stepper, cache, limits, by_hand.START, by_hand.END, 4, 0.6, num_hypotheses=2)

    greedy, best, scores = (output.numpy() for output in search(source, limits))
    next_log_probabilities = by_hand.whole_passes(model)
    for row, limit in enumerate(limits.tolist()):
        text = source[row, : length(source[row])]

        def of_row(tokens, text=text):
            return next_log_probabilities(text, tokens)

        tokens, _ = by_hand.greedy(of_row, limit)
        assert by_hand.tokens_of(greedy[row]) == tokens
        expected = by_hand.beam(of_row, limit, 4, 0.6, 2).hypotheses
        assert [by_hand.tokens_of(ids) for ids in best[row][: len(expected)]] == [tokens for _, tokens in expected]
        np.testing.assert_allclose(scores[row][: len(expected)], [score for score, _ in expected], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_it_learns_with_the_fused_loss_in_parts(tmp_path):
    """To copy a sentence backwards, which it can't without attending to the source; then it comes back from a file."""
    random = np.random.default_rng(0)
    source = random.integers(4, 12, (64, 4)).astype("int32")
    labels = np.concatenate([source[:, ::-1], np.full((64, 1), 3)], axis=1).astype("int32")
    model = RecurrentModel(2, 32, VOCABULARY, VOCABULARY, dropout_rate=0.0, share_embeddings="all", max_length=12)
    model.parallel_parts = 2
    model.compile(keras.optimizers.Adam(0.01), SmoothedCrossEntropy(0.0), jit_compile=False)
    inputs = source, shift_right(labels, 2).numpy()
    history = model.fit(inputs, labels, batch_size=64, epochs=60, verbose=0)
    assert history.history["loss"][-1] < 0.1 < history.history["loss"][0]
    stepper = model.stepper()
    ids, _ = greedy_search(stepper, stepper.start_cache(source), np.full(64, 5), 2, 3)
    assert (ids.numpy() == labels).mean() > 0.95
    model.save(tmp_path / "model.keras")
    np.testing.assert_allclose(load_model(tmp_path / "model.keras")(inputs), model(inputs), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"d_model": 15}, "d_model must be even, since the bottom layer reads in two directions, got 15"),
        ({"num_layers": 0}, "num_layers must be a positive integer, got 0"),
        ({"dropout_rate": 1.0}, r"dropout_rate must be in \[0, 1\), got 1.0"),
    ],
)
def test_sizes_that_can_t_be_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        small(**options)
