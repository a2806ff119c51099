"""Layers that are not trained."""

import keras
import numpy as np
import pytest

from tf_transformer import SmoothedCrossEntropy, Transformer, TransformerAdam, UserError, load_model
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
        (["encoder", "decoder", "projection"], "leaves nothing to train"),
        ("encoder", r"layers is a string; give a list: \['encoder'\]"),
    ],
)
def test_what_can_not_be_frozen_is_told(model, layers, told):
    with pytest.raises(UserError, match=told):
        freeze(model, layers)
    assert not model.non_trainable_weights


def test_a_model_that_has_no_weights_yet_is_told_so():
    with pytest.raises(UserError, match="the model is not built, so it has no weights yet; build it"):
        freeze(Transformer(2, 8, 2, 16, 20, 30), ["encoder"])


def test_what_is_frozen_stays_so_in_a_file_with_all_that_the_optimizer_has_learned(model, tmp_path):
    count = freeze(model, ["encoder"])
    model.compile(TransformerAdam(1e-3), SmoothedCrossEntropy(), jit_compile=False, run_eagerly=True)
    ids = np.array([[5, 6, 3], [7, 3, 0]])
    model.train_on_batch((ids, ids), ids)
    for number in range(2):  # a loaded model is saved and loaded as it was itself
        model.save(tmp_path / f"{number}.keras")
        loaded = keras.saving.load_model(tmp_path / f"{number}.keras")
        assert [weight.trainable for weight in loaded.weights] == [weight.trainable for weight in model.weights]
        for one, other in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
            np.testing.assert_array_equal(one, other)
        other = load_model(tmp_path / f"{number}.keras", "mixed_bfloat16")
        assert [weight.trainable for weight in other.weights] == [weight.trainable for weight in model.weights]
        assert freeze(loaded, ["encoder"]) == count  # again
        model = loaded
    with pytest.raises(UserError, match="leaves nothing to train"):
        freeze(model, ["decoder", "projection"])
    for weight in model.weights:
        weight.trainable = True
    assert not model.non_trainable_weights


def test_without_frozen_weights_a_file_is_as_before(model):
    assert list(model.get_build_config()) == ["input_shape"]
