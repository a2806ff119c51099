import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_transformer import MultiHeadAttention, look_ahead_mask, padding_mask
from tf_transformer.layers.masks import FORBIDDEN, additive_mask, combine_masks

T, F = True, False


def test_padding_mask_forbids_padding_wherever_it_stands():
    mask = padding_mask([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])
    assert mask.dtype == "bool"
    assert mask.numpy().tolist() == [[[T, T, F, F, T]], [[T, T, T, F, F]], [[F, F, F, T, T]]]


def test_padding_mask_broadcasts_over_heads_and_queries():
    ids = np.array([[7, 6, 0, 0, 1], [1, 2, 3, 0, 0], [0, 0, 0, 4, 5]])
    x = np.random.default_rng(0).standard_normal((3, 5, 8)).astype("float32")
    _, weights = MultiHeadAttention(8, 4)(x, x, attention_mask=padding_mask(ids), return_attention_scores=True)
    padded_keys = np.broadcast_to((ids == 0)[:, None, None, :], (3, 4, 5, 5))
    np.testing.assert_array_equal(weights.numpy() == 0, padded_keys)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3))
def test_padding_mask_is_true_exactly_at_real_tokens(ids):
    assert padding_mask(ids).numpy().tolist() == [[[token > 0 for token in row]] for row in ids]


def test_look_ahead_mask_of_length_3():
    mask = look_ahead_mask(3)
    assert mask.dtype == "bool"
    assert mask.numpy().tolist() == [[[T, F, F], [T, T, F], [T, T, T]]]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40))
def test_row_i_of_the_look_ahead_mask_allows_the_first_i_columns(length):
    (rows,) = look_ahead_mask(length).numpy().tolist()
    assert rows == [[column <= row for column in range(length)] for row in range(length)]


def test_look_ahead_mask_of_a_length_known_only_when_it_runs():
    @tf.function(input_signature=[tf.TensorSpec([None, None], "int32")])
    def mask_for(ids):
        return look_ahead_mask(keras.ops.shape(ids)[1])

    for length in (1, 4):
        np.testing.assert_array_equal(mask_for(np.zeros((2, length), "int32")), look_ahead_mask(length))


def test_combined_masks_allow_what_both_allow():
    per_sentence = np.array([[[T, T, F]], [[T, F, F]]])
    per_head = np.array([[[T, F, T]], [[T, T, T]]])[None]
    combined = combine_masks(per_sentence, per_head)
    expected = [[[[T, F, F]], [[T, T, F]]], [[[T, F, F]], [[T, F, F]]]]
    assert combined.numpy().tolist() == expected
    assert combine_masks(per_head, per_sentence).numpy().tolist() == expected


def test_no_mask_combines_to_the_other():
    mask = look_ahead_mask(2)
    assert combine_masks(None, None) is None
    assert combine_masks(mask, None) is mask
    assert combine_masks(None, mask) is mask


@pytest.mark.parametrize("shape", [(3,), (3, 3), (1, 1, 1, 3, 3)])
def test_a_mask_of_another_rank_is_refused_and_not_broadcast(shape):
    x = np.ones((3, 3, 8), "float32")
    with pytest.raises(ValueError, match=r"a mask must have shape .*got \(.*3.*\)"):
        MultiHeadAttention(8, 2)(x, x, attention_mask=np.ones(shape, bool))


@pytest.mark.parametrize("floatx", ["float16", "bfloat16", "float32", "float64"])
def test_what_is_added_to_logits_is_the_same_whatever_keras_s_default_type_is(floatx):
    usual = keras.config.floatx()
    keras.config.set_floatx(floatx)
    try:
        added = additive_mask([T, F])
    finally:
        keras.config.set_floatx(usual)
    assert added.dtype == "float32"
    np.testing.assert_array_equal(added, np.array([0.0, FORBIDDEN], "float32"))
