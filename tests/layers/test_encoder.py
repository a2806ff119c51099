import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tf_transformer import DecoderLayer, Encoder, EncoderLayer, TokenEmbedding, Transformer

random = np.random.default_rng(0)


def normal(*shape):
    return random.standard_normal(shape).astype("float32")


def small_encoder(position="sinusoidal", **arguments):
    encoder = Encoder(2, 16, 4, 32, vocab_size=20, position=position, max_length=16, **arguments)
    encoder(np.ones((1, 2), "int32"))
    return reference.randomise(encoder)


def test_encoder_layer_of_the_base_model():
    x = keras.Input(batch_shape=(64, 43, 512))
    output, weights = EncoderLayer(512, 8, 2048)(x, return_attention_scores=True)
    assert output.shape == (64, 43, 512)
    assert weights.shape == (64, 8, 43, 43)


def test_encoder_of_the_base_model():
    encoder = Encoder(num_layers=2, d_model=512, num_heads=8, dff=2048, vocab_size=8500)
    ids = keras.Input(batch_shape=(64, 62), dtype="int32")
    output, weights = encoder(ids, return_attention_scores=True)
    assert output.shape == (64, 62, 512)
    assert [w.shape for w in weights] == [(64, 8, 62, 62)] * 2


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("sizes", [{}, {"key_dim": 3, "value_dim": 5}])
def test_encoder_layer_equals_the_reference(norm_first, sizes):
    layer = EncoderLayer(16, 4, 32, norm_first=norm_first, **sizes)
    x = normal(2, 5, 16)
    layer(x)
    reference.randomise(layer)
    mask = random.random((2, 4, 5, 5)) < 0.5
    mask[..., 0] = True
    got = layer(x, attention_mask=mask, return_attention_scores=True)
    expected = reference.encoder_layer(
        reference.Part(reference.weights_of(layer)), x, 4, mask, reference.Options(norm_first)
    )
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_outputs_are_normalised_at_the_end(norm_first):
    encoder = Encoder(2, 64, 4, 32, vocab_size=20, norm_first=norm_first)
    output = encoder(random.integers(1, 20, (2, 6))).numpy()
    np.testing.assert_allclose(output.mean(axis=-1), 0, atol=1e-5)
    np.testing.assert_allclose(output.std(axis=-1), 1, atol=1e-3)


def compiled(encoder):
    """The encoder as one graph for all lengths, since properties are tried many times."""
    return tf.function(encoder, input_signature=[tf.TensorSpec([None, None], "int32")])


@pytest.fixture(scope="module")
def encoder_without_positions():
    encoder = small_encoder("learned")
    encoder.position_encoding.table.assign(np.zeros((16, 16)))
    return compiled(encoder)


@pytest.fixture(scope="module", params=["sinusoidal", "learned"])
def encoder_with_positions(request):
    return compiled(small_encoder(request.param))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 19), min_size=2, max_size=8), st.integers(0, 3), st.randoms(use_true_random=False))
def test_without_positions_the_encoder_commutes_with_permutations(encoder_without_positions, tokens, padding, chance):
    ids = np.array([tokens + [0] * padding])
    order = list(range(ids.shape[1]))
    chance.shuffle(order)
    straight, permuted = encoder_without_positions(ids).numpy(), encoder_without_positions(ids[:, order]).numpy()
    np.testing.assert_allclose(permuted, straight[:, order], atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 19), min_size=2, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_with_positions_it_does_not(encoder_with_positions, tokens, chance):
    order = list(range(len(tokens)))
    chance.shuffle(order)
    if order == sorted(order):
        order.reverse()
    ids = np.array([tokens])
    straight, permuted = encoder_with_positions(ids).numpy(), encoder_with_positions(ids[:, order]).numpy()
    assert np.abs(permuted - straight[:, order]).max() > 1e-2


def test_padding_gets_no_weight_whatever_further_mask_there_is():
    encoder = small_encoder()
    ids = np.array([[3, 4, 5, 6, 0, 0], [7, 8, 9, 1, 2, 3]])
    near = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 1
    _, free = encoder(ids, return_attention_scores=True)
    _, narrow = encoder(ids, attention_mask=near[None], return_attention_scores=True)
    real_keys = (ids != 0)[:, None, None, :]
    for layer in range(2):
        np.testing.assert_array_equal(free[layer].numpy() > 0, np.broadcast_to(real_keys, (2, 4, 6, 6)))
        # The last position of the first sentence has only padding near it: its weights may be anything finite.
        allowed = np.broadcast_to(near & real_keys, (2, 4, 6, 6))
        some = allowed.any(axis=-1)
        np.testing.assert_array_equal((narrow[layer].numpy() > 0)[some], allowed[some])
        assert np.isfinite(narrow[layer]).all()


def test_a_mask_for_each_head_reaches_every_layer():
    encoder = small_encoder()
    mask = np.ones((1, 4, 1, 5), bool)
    mask[:, 1, :, 2:] = False
    _, scores = encoder(np.array([[3, 4, 5, 6, 7]]), attention_mask=mask, return_attention_scores=True)
    for layer in scores:
        np.testing.assert_array_equal(layer.numpy() > 0, np.broadcast_to(mask, (1, 4, 5, 5)))


def test_training_drops_out_of_the_embedding_sums():
    encoder = small_encoder(dropout_rate=0.3)
    ids = random.integers(1, 20, (40, 16))
    plain, dropped = encoder.embed(ids).numpy(), encoder.embed(ids, training=True).numpy()
    kept = dropped != 0
    assert kept.mean() == pytest.approx(0.7, abs=0.02)
    np.testing.assert_allclose(dropped[kept], plain[kept] / 0.7, rtol=1e-5)


def test_attention_weights_are_not_dropped_out():
    layer = EncoderLayer(16, 4, 32, dropout_rate=0.5)
    x = normal(2, 5, 16)
    output, weights = layer(x, return_attention_scores=True)
    dropped_output, dropped_weights = layer(x, return_attention_scores=True, training=True)
    np.testing.assert_array_equal(weights, dropped_weights)
    assert np.abs(output - dropped_output).max() > 0.1


def test_a_given_embedding_is_used_and_not_copied():
    embedding = TokenEmbedding(20, 16)
    encoder = Encoder(1, 16, 4, 32, vocab_size=20, embedding=embedding)
    encoder(np.array([[1, 2]]))
    assert encoder.embedding is embedding
    assert sum(weight.shape == (20, 16) for weight in encoder.weights) == 1


@pytest.mark.parametrize(
    ("rate", "places"),
    [
        ("dropout_rate", {"Encoder", "Decoder", "Residual"}),
        ("attention_dropout_rate", {"MultiHeadAttention"}),
        ("activation_dropout_rate", {"FeedForward"}),
    ],
)
def test_each_rate_reaches_its_dropouts(rate, places):
    ids = random.integers(1, 20, (4, 6)).astype("int32")
    model = Transformer(1, 16, 4, 32, 20, 20, **{"dropout_rate": 0.0, rate: 0.5}, max_length=16)
    rates = {
        (type(layer).__name__, layer.dropout.rate) for layer in model._flatten_layers() if hasattr(layer, "dropout")
    }
    everywhere = {"Encoder", "Decoder", "Residual", "MultiHeadAttention", "FeedForward"}
    assert rates == {(place, 0.5 if place in places else 0.0) for place in everywhere}
    outputs = [model((ids, ids), training=training).numpy() for training in (False, False, True, True)]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert np.abs(outputs[0] - outputs[2]).max() > 1e-3
    assert np.abs(outputs[2] - outputs[3]).max() > 1e-3


@pytest.mark.parametrize("rate", ["dropout_rate", "attention_dropout_rate", "activation_dropout_rate"])
def test_a_layer_hands_training_down(rate):
    x = normal(2, 5, 8)
    rates = {"dropout_rate": 0.0, rate: 0.5}
    for layer, inputs in (EncoderLayer(8, 2, 16, **rates), [x]), (DecoderLayer(8, 2, 16, **rates), [x, x]):
        layer(*inputs)
        assert np.abs(layer(*inputs, training=True) - layer(*inputs, training=False)).max() > 1e-3
