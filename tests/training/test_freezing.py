"""Layers that are not trained."""

import pytest

from tf_transformer import Transformer, UserError
from tf_transformer.training import freeze


@pytest.fixture
def model():
    model = Transformer(2, 8, 2, 16, 20, 30)
    model.build(((None, None), (None, None)))
    return model


def test_all_that_is_in_a_layer_is_frozen_and_nothing_else(model):
    # Four projections of 8 by 8 with biases, two norms, two matrices of the feed-forward network; the 30 by 8 beside.
    layer = 4 * (8 * 8 + 8) + 2 * 2 * 8 + (8 * 16 + 16 + 16 * 8 + 8)
    assert freeze(model, ["encoder/layer_1", "projection"]) == layer + 30 * 8
    frozen = {weight.path for weight in model.non_trainable_weights}
    assert frozen and all("/encoder/layer_1/" in path or "/projection/" in path for path in frozen)
    assert not any("/encoder/layer_1/" in weight.path for weight in model.trainable_weights)


@pytest.mark.parametrize(
    ("layers", "told"),
    [
        (["encode"], "the model has no encode; choose from encoder, decoder, projection"),
        (["encoder/layer_2"], "no encoder/layer_2; choose from encoder/embedding, encoder/layer_0, encoder/layer_1"),
        (["projection", "layer"], "the model has no layer; choose from"),
        (["encoder", "decoder", "projection"], "nothing is left to train"),
    ],
)
def test_what_can_not_be_frozen_is_told(model, layers, told):
    with pytest.raises(UserError, match=told):
        freeze(model, layers)
    assert not model.non_trainable_weights
