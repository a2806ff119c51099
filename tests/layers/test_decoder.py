import keras
import numpy as np
import pytest

from tests import reference
from tf_transformer import Decoder, DecoderLayer

random = np.random.default_rng(0)


def normal(*shape):
    return random.standard_normal(shape).astype("float32")


def test_decoder_layer_of_the_base_model():
    x, context = keras.Input(batch_shape=(64, 50, 512)), keras.Input(batch_shape=(64, 43, 512))
    output, self_scores, cross_scores = DecoderLayer(512, 8, 2048)(x, context, return_attention_scores=True)
    assert output.shape == (64, 50, 512)
    assert self_scores.shape == (64, 8, 50, 50)
    assert cross_scores.shape == (64, 8, 50, 43)


def test_decoder_of_the_base_model():
    decoder = Decoder(num_layers=2, d_model=512, num_heads=8, dff=2048, vocab_size=8000)
    ids, context = keras.Input(batch_shape=(64, 26), dtype="int32"), keras.Input(batch_shape=(64, 62, 512))
    output, scores = decoder(ids, context, return_attention_scores=True)
    assert output.shape == (64, 26, 512)
    assert scores["cross"][-1].shape == (64, 8, 26, 62)
    assert [s.shape for s in scores["self"]] == [(64, 8, 26, 26)] * 2


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("sizes", [{}, {"key_dim": 3, "value_dim": 5}])
def test_decoder_layer_equals_the_reference(norm_first, sizes):
    layer = DecoderLayer(16, 4, 32, norm_first=norm_first, **sizes)
    x, context = normal(2, 5, 16), normal(2, 7, 12)
    layer(x, context)
    reference.randomise(layer)
    mask = random.random((2, 1, 7)) < 0.5
    mask[..., 0] = True
    got = layer(x, context, context_mask=mask, return_attention_scores=True)
    expected = reference.decoder_layer(
        reference.Part(reference.weights_of(layer)), x, context, 4, mask[:, None], reference.Options(norm_first)
    )
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_decoder_layer_sees_no_later_position_by_itself():
    layer = DecoderLayer(16, 4, 32)
    x, context = normal(1, 6, 16), normal(1, 3, 16)
    before = layer(x, context).numpy()
    for position in range(1, 6):
        changed = x.copy()
        changed[:, position:] = normal(1, 6 - position, 16)
        after = layer(changed, context).numpy()
        np.testing.assert_allclose(after[:, :position], before[:, :position], atol=1e-6)
        assert (np.abs(after - before)[:, position:].max(axis=-1) > 1e-3).all()


@pytest.mark.parametrize("with_heads", [False, True])
def test_further_masks_of_self_attention_come_on_top_of_the_look_ahead(with_heads):
    decoder = Decoder(2, 16, 4, 32, vocab_size=20)
    near = np.abs(np.arange(6)[:, None] - np.arange(6)) <= 1
    mask = np.broadcast_to(near, (1, 4, 6, 6)).copy() if with_heads else near[None]
    if with_heads:
        mask[:, 0] = True
    _, scores = decoder(
        random.integers(1, 20, (2, 6)), normal(2, 3, 16), attention_mask=mask, return_attention_scores=True
    )
    allowed = np.broadcast_to(np.tril(np.ones((6, 6), bool)) & mask, (2, 4, 6, 6))
    for weights in scores["self"]:
        np.testing.assert_array_equal(weights.numpy() > 0, allowed)


@pytest.mark.parametrize("shape", [(2, 1, 3), (2, 5, 3), (2, 4, 1, 3), (2, 4, 5, 3)])
def test_context_masks_with_and_without_heads(shape):
    decoder = Decoder(2, 16, 4, 32, vocab_size=20)
    mask = random.random(shape) < 0.5
    mask[..., 1] = True
    _, scores = decoder(
        random.integers(1, 20, (2, 5)), normal(2, 3, 16), context_mask=mask, return_attention_scores=True
    )
    allowed = np.broadcast_to(mask if mask.ndim == 4 else mask[:, None], (2, 4, 5, 3))
    for weights in scores["cross"]:
        np.testing.assert_array_equal(weights.numpy() > 0, allowed)
