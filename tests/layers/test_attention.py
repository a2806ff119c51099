import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tf_transformer import MultiHeadAttention, padding_mask, scaled_dot_product_attention

random = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return random.standard_normal(shape).astype(dtype)


KEYS = np.array([[10, 0, 0], [0, 10, 0], [0, 0, 10], [0, 0, 10]], "float32")
VALUES = np.array([[1, 0], [10, 0], [100, 5], [1000, 6]], "float32")


@pytest.mark.parametrize(
    ("query", "weights", "output"),
    [
        ([[0, 10, 0]], [[0, 1, 0, 0]], [[10, 0]]),
        ([[0, 0, 10]], [[0, 0, 0.5, 0.5]], [[550, 5.5]]),
        ([[10, 10, 0]], [[0.5, 0.5, 0, 0]], [[5.5, 0]]),
        # All three at once.
        (
            [[0, 0, 10], [0, 10, 0], [10, 10, 0]],
            [[0, 0, 0.5, 0.5], [0, 1, 0, 0], [0.5, 0.5, 0, 0]],
            [[550, 5.5], [10, 0], [5.5, 0]],
        ),
    ],
)
def test_a_query_picks_the_values_of_the_keys_it_matches(query, weights, output):
    got, got_weights = scaled_dot_product_attention(
        np.array(query, "float32")[None, None], KEYS[None, None], VALUES[None, None], return_attention_scores=True
    )
    np.testing.assert_allclose(got_weights[0, 0], weights, atol=1e-6)
    np.testing.assert_allclose(got[0, 0], output, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_equals_equation_1(dtype):
    query, key, value = (
        normal(2, 3, 4, 5, dtype=dtype),
        normal(2, 3, 6, 5, dtype=dtype),
        normal(2, 3, 6, 7, dtype=dtype),
    )
    mask = random.random((2, 3, 4, 6)) < 0.6
    mask[..., 0] = True
    output, weights = scaled_dot_product_attention(query, key, value, mask, return_attention_scores=True)
    assert output.dtype == weights.dtype == dtype
    tolerance = {"float32": 1e-6, "float64": 1e-14}[dtype]
    for batch, head in np.ndindex(2, 3):
        expected = reference.scaled_dot_product(*(x[batch, head] for x in (query, key, value, mask)))
        np.testing.assert_allclose(output[batch, head], expected[0], atol=tolerance)
        np.testing.assert_allclose(weights[batch, head], expected[1], atol=tolerance)


@pytest.mark.parametrize("shape", [(4, 6), (6,), (1, 6), (3, 4, 6), (2, 1, 1, 6), (1, 3, 1, 6), (2, 1, 4, 6)])
def test_attention_takes_any_mask_that_broadcasts(shape):
    query, key, value = normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 5)
    mask = random.random(shape) < 0.5
    mask[..., 2] = True
    full = np.broadcast_to(mask, (2, 3, 4, 6))
    _, weights = scaled_dot_product_attention(query, key, value, mask, return_attention_scores=True)
    np.testing.assert_array_equal(weights.numpy() > 0, full)
    np.testing.assert_allclose(
        weights, scaled_dot_product_attention(query, key, value, full, return_attention_scores=True)[1], atol=1e-7
    )


def test_a_padding_mask_is_given_its_axis_of_heads_and_refused_without():
    ids = np.array([[5, 6, 7], [5, 0, 0]])
    x = normal(2, 3, 3, 4)
    _, weights = scaled_dot_product_attention(x, x, x, padding_mask(ids)[:, None], return_attention_scores=True)
    np.testing.assert_array_equal(weights.numpy() > 0, np.broadcast_to((ids > 0)[:, None, None], (2, 3, 3, 3)))
    for heads in (1, 3):  # of one head, the batch would have become the heads
        told = rf"got \(2, 1, 3\) for {heads} heads; give .* as attention_mask\[:, None\]"
        with pytest.raises(ValueError, match=told):
            scaled_dot_product_attention(x[:, :heads], x[:, :heads], x[:, :heads], padding_mask(ids))


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool"])
def test_values_may_be_whole_numbers(dtype):
    query, key, value = normal(1, 2, 3, 4), normal(1, 2, 5, 4), random.integers(0, 9, (1, 2, 5, 6)).astype(dtype)
    output, weights = scaled_dot_product_attention(query, key, value, return_attention_scores=True)
    assert output.dtype == weights.dtype == "float32"
    np.testing.assert_array_equal(output, scaled_dot_product_attention(query, key, value.astype("float32")))


def test_the_scores_come_only_when_asked_for():
    x = normal(1, 2, 3, 4)
    alone = scaled_dot_product_attention(x, x, x)
    np.testing.assert_array_equal(alone, scaled_dot_product_attention(x, x, x, return_attention_scores=True)[0])


@pytest.mark.parametrize("depth", [4, 64, 256])
def test_scaling_undoes_the_growth_of_the_dot_products_variance(depth):
    query, key = normal(1, 8, 64, depth), normal(1, 8, 64, depth)
    dot_products = query @ np.swapaxes(key, -1, -2)
    assert dot_products.var() == pytest.approx(depth, rel=0.06)

    # The logits inside are the weights' logarithms up to a constant for each row.
    _, weights = scaled_dot_product_attention(query, key, key, return_attention_scores=True)
    logits = np.log(weights.numpy())
    within_rows = (logits - logits.mean(axis=-1, keepdims=True)).var() * 64 / 63
    assert within_rows == pytest.approx(1, rel=0.06)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_forbidden_weights_are_exactly_0_and_a_row_of_them_is_finite(dtype):
    query, key, value = (tf.cast(30 * normal(1, 2, 4, 8), dtype) for _ in range(3))
    mask = np.ones((1, 1, 4, 4), bool)
    mask[..., 1, :] = False
    mask[..., 2, 1:] = False
    with tf.GradientTape() as tape:
        tape.watch([query, key, value])
        output, weights = scaled_dot_product_attention(query, key, value, mask, return_attention_scores=True)
    assert output.dtype == weights.dtype == dtype
    weights = tf.cast(weights, "float32").numpy()
    assert (weights[..., 2, 1:] == 0).all()
    # Some processors multiply by a rounded reciprocal where others divide.
    np.testing.assert_allclose(weights[..., 2, 0], 1, rtol=0, atol=2**-23)
    for x in (output, weights, *tape.gradient(output, [query, key, value])):
        assert np.isfinite(tf.cast(x, "float32")).all()


@pytest.mark.parametrize("seen", [0, 3])
def test_a_forbidden_value_can_be_anything_finite(seen):
    """Whatever lies behind a mask has no part in the output."""
    query, key, value = normal(1, 1, 2, 4), normal(1, 1, 4, 4), normal(1, 1, 4, 4)
    mask = np.arange(4) == seen
    hidden = ~mask
    expected = scaled_dot_product_attention(query, key, value, mask)
    key[:, :, hidden], value[:, :, hidden] = 1e15, -1e15
    np.testing.assert_array_equal(scaled_dot_product_attention(query, key, value, mask), expected)
    np.testing.assert_allclose(expected, np.broadcast_to(value[:, :, [seen]], expected.shape), atol=1e-6)


def test_multi_head_attention_of_the_base_model():
    x = normal(1, 60, 512)
    output, weights = MultiHeadAttention(d_model=512, num_heads=8)(x, x, return_attention_scores=True)
    assert output.shape == (1, 60, 512)
    assert weights.shape == (1, 8, 60, 60)
    np.testing.assert_allclose(weights.numpy().sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("key_dim", "value_dim", "widths"),
    [(None, None, (3, 3)), (5, None, (5, 3)), (None, 7, (3, 7)), (5, 7, (5, 7)), (1, 1, (1, 1))],
)
def test_multi_head_attention_equals_the_reference(key_dim, value_dim, widths):
    attention = MultiHeadAttention(12, 4, key_dim=key_dim, value_dim=value_dim)
    query, value, key = normal(2, 5, 12), normal(2, 6, 9), normal(2, 6, 8)
    mask = random.random((2, 5, 6)) < 0.6
    mask[..., 0] = True
    attention(query, value, key)
    reference.randomise(attention)
    weights = reference.weights_of(attention)
    key_width, value_width = widths
    assert {path: weight.shape for path, weight in weights.items()} == {
        "query/kernel": (12, 4 * key_width),
        "query/bias": (4 * key_width,),
        "key/kernel": (8, 4 * key_width),
        "key/bias": (4 * key_width,),
        "value/kernel": (9, 4 * value_width),
        "value/bias": (4 * value_width,),
        "output/kernel": (4 * value_width, 12),
        "output/bias": (12,),
    }
    got = attention(query, value, key, attention_mask=mask, return_attention_scores=True)
    expected = reference.multi_head_attention(reference.Part(weights), query, value, 4, allowed=mask[:, None], key=key)
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-5)


def test_the_key_is_the_value_unless_given():
    attention = MultiHeadAttention(8, 2)
    query, value = normal(1, 2, 8), normal(1, 3, 8)
    np.testing.assert_array_equal(attention(query, value), attention(query, value, value))


@pytest.mark.parametrize("shape", [(2, 1, 6), (2, 5, 6), (1, 5, 6), (2, 1, 1, 6), (2, 4, 5, 6), (1, 4, 1, 6)])
def test_masks_with_and_without_heads(shape):
    """(batch, query_len or 1, key_len), or (batch, heads or 1, query_len or 1, key_len)."""
    attention = MultiHeadAttention(12, 4)
    query, value = normal(2, 5, 12), normal(2, 6, 12)
    mask = random.random(shape) < 0.5
    mask[..., 3] = True
    full = np.broadcast_to(mask if mask.ndim == 4 else mask[:, None], (2, 4, 5, 6))
    output, weights = attention(query, value, attention_mask=mask, return_attention_scores=True)
    np.testing.assert_array_equal(weights.numpy() > 0, full)
    expected = reference.multi_head_attention(
        reference.Part(reference.weights_of(attention)), query, value, 4, allowed=full
    )
    np.testing.assert_allclose(output, expected[0], atol=1e-5)


def test_one_heads_mask_touches_no_other_head():
    attention = MultiHeadAttention(12, 4)
    x = normal(2, 5, 12)
    mask = np.ones((2, 4, 5, 5), bool)
    mask[:, 2, :, 1:] = False
    _, free = attention(x, x, return_attention_scores=True)
    _, masked = attention(x, x, attention_mask=mask, return_attention_scores=True)
    assert not masked.numpy()[:, 2, :, 1:].any()
    np.testing.assert_allclose(masked[:, 2, :, 0], 1, rtol=0, atol=2**-23)
    for head in (0, 1, 3):
        np.testing.assert_allclose(masked[:, head], free[:, head], atol=1e-7)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_training_drops_attention_weights(rate):
    """Seen through values that are 1 for one key each: what comes out are the weights that were used."""
    length = 32
    attention = MultiHeadAttention(2 * length, 2, value_dim=length, attention_dropout_rate=rate)
    query, value = normal(8, length, 4), np.broadcast_to(np.eye(length, dtype="float32"), (8, length, length))
    attention(query, value)
    weights = reference.weights_of(attention)
    weights["value/kernel"] = np.hstack([np.eye(length)] * 2)
    weights["output/kernel"] = np.eye(2 * length)
    attention.set_weights([weights[weight.path.partition("/")[2]] for weight in attention.weights])

    mask = np.arange(length) < length - 5
    output, shown = attention(
        query, value, attention_mask=mask[None, None], return_attention_scores=True, training=True
    )
    used = np.reshape(output, (8, length, 2, length)).transpose(0, 2, 1, 3)
    shown = shown.numpy()
    np.testing.assert_allclose(shown.sum(axis=-1), 1, atol=1e-5)  # those before dropout
    dropped = (used == 0) & mask
    assert dropped[..., mask].mean() == pytest.approx(rate, abs=0.02)
    np.testing.assert_allclose(used, np.where(dropped, 0, shown / (1 - rate)), rtol=1e-4, atol=1e-6)
    # Each head's, query's and sentence's weights are dropped on their own.
    for axis in (0, 1, 2):
        assert (dropped != np.roll(dropped, 1, axis)).any()

    for without in ({"training": False}, {}):
        np.testing.assert_allclose(
            attention(query, value, attention_mask=mask[None, None], **without),
            shown.transpose(0, 2, 1, 3).reshape(8, length, 2 * length),
            atol=1e-6,
        )


def test_without_a_rate_training_changes_no_bit():
    attention = MultiHeadAttention(12, 4)
    x = normal(2, 5, 12)
    np.testing.assert_array_equal(attention(x, x, training=True), attention(x, x, training=False))
    assert len(attention.variables) == len(attention.weights)  # no state of a random generator
