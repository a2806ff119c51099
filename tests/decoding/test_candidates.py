import numpy as np
import pytest
import tensorflow as tf

from tests.decoding.by_hand import END, PAD, log_softmax
from tf_transformer.decoding import length_penalty
from tf_transformer.decoding.candidates import forced_token, likeliest, pick, top_k

NOT_POSSIBLE = -float("inf")

# Sizes with chunks of 128, of less, of hardly anything, and with none; and vocabularies of every day.
SIZES = [1, 2, 7, 64, 97, 100, 1024, 1009, 6000, 6007, 7 * 911, 37_000]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["distinct", "few values", "one value", "with -inf"])
def test_top_k_is_that_of_numpy(size, kind):
    random = np.random.default_rng(size)
    x = random.standard_normal((3, size)).astype("float32")
    if kind == "few values":
        x = np.round(x)
    elif kind == "one value":
        x[:] = 1.5
    elif kind == "with -inf":
        x[random.random((3, size)) < 0.9] = NOT_POSSIBLE
    for k in sorted({1, min(4, size), min(130, size), size}):
        values, places = (tensor.numpy() for tensor in top_k(tf.constant(x), k))
        assert values.shape == places.shape == (3, k) and places.dtype == "int32"
        np.testing.assert_array_equal(values, -np.sort(-x, axis=-1)[:, :k])
        np.testing.assert_array_equal(np.take_along_axis(x, places, axis=1), values)
        assert all(len(set(row)) == k for row in places.tolist())


def test_top_k_of_the_largest_values_all_in_one_chunk_and_one_in_each():
    x = np.tile(np.linspace(0, 1, 1024, dtype="float32"), (3, 1))
    x[1, 500:530] += 10
    x[2, ::100] += 10
    for k in (3, 11, 40):
        values, places = top_k(tf.constant(x), k)
        np.testing.assert_array_equal(values, -np.sort(-x, axis=-1)[:, :k])
        np.testing.assert_array_equal(places, np.argsort(-x, axis=-1, kind="stable")[:, :k])


def test_top_k_with_rows_and_k_that_are_known_when_it_runs():
    compiled = tf.function(top_k, input_signature=(tf.TensorSpec((None, 6000)), tf.TensorSpec((), tf.int32)))
    x = np.random.default_rng(0).standard_normal((4, 6000)).astype("float32")
    for rows, k in ((4, 6), (1, 300), (0, 2)):
        values, places = compiled(x[:rows], k)
        np.testing.assert_array_equal(values, -np.sort(-x[:rows], axis=-1)[:, :k])
        assert places.shape == (rows, k)


@pytest.mark.parametrize("size", [6, 23, 6000])
@pytest.mark.parametrize("position", [0, 2])
@pytest.mark.parametrize("min_length", [1, 2, 4])
def test_the_likeliest_are_those_that_are_allowed(size, position, min_length):
    """Padding and the closing token are often the likeliest; the others' log-probabilities are the model's."""
    logits = 2 * np.random.default_rng(size).standard_normal((40, size)).astype("float32")
    logits[::2, PAD] += 5
    logits[::3, END] += 5
    count = 4
    values, ids = (tensor.numpy() for tensor in likeliest(tf.constant(logits), count, position, END, min_length))
    assert values.shape == ids.shape == (40, min(count + 2, size)) and ids.dtype == "int32"
    allowed = np.ones(size, bool)
    allowed[PAD] = False
    allowed[END] = position + 1 >= min_length
    for row, row_values, row_ids in zip(log_softmax(logits), values, ids, strict=True):
        possible = row_values > NOT_POSSIBLE
        np.testing.assert_array_equal(possible, allowed[row_ids])
        best = -np.sort(-row[allowed])[:count]
        np.testing.assert_allclose(row_values[possible][:count], best, atol=1e-5)
        np.testing.assert_allclose(row_values[possible], row[row_ids[possible]], atol=1e-5)


def test_a_forced_token_is_the_only_one_and_has_the_model_s_probability():
    logits = np.random.default_rng(0).standard_normal((3, 40)).astype("float32")
    forced = np.array([17, 0, int(logits[2].argmin())], "int32")
    values, ids = (x.numpy() for x in likeliest(tf.constant(logits), 3, 0, END, 1, tf.constant(forced)))
    free_values, free_ids = (x.numpy() for x in likeliest(tf.constant(logits), 3, 0, END))
    for row in (0, 2):
        assert ids[row, 0] == forced[row]
        assert values[row, 0] == pytest.approx(log_softmax(logits)[row, forced[row]], abs=1e-5)
        assert (values[row, 1:] == NOT_POSSIBLE).all()
    np.testing.assert_array_equal(values[1], free_values[1])
    np.testing.assert_array_equal(ids[1], free_ids[1])


def test_logits_of_any_size_and_of_half_a_float():
    """No exponential may overflow, nor a sum of many be worked out in few bits."""
    logits = np.random.default_rng(0).standard_normal((2, 6000)) * [[1], [100]] + [[0], [3000]]
    values, ids = (x.numpy() for x in likeliest(tf.constant(logits, "bfloat16"), 4, 0, END))
    assert values.dtype == "float32"
    rounded = tf.cast(tf.constant(logits, "bfloat16"), "float64").numpy()
    np.testing.assert_allclose(values, np.take_along_axis(log_softmax(rounded), ids, axis=1), atol=1e-4)
    assert (values <= 0).all()


def test_forced_tokens_are_the_prefix_s_and_none_behind_it():
    prefix = tf.constant([[5, 6, 7], [8, 0, 0], [0, 0, 0]])
    got = [forced_token(prefix, position).numpy().tolist() for position in range(4)]
    assert got == [[5, 8, 0], [6, 0, 0], [7, 0, 0], [0, 0, 0]]
    assert forced_token(tf.zeros((2, 0), "int32"), 0).numpy().tolist() == [0, 0]


def test_pick():
    x, places = np.arange(12).reshape(3, 4), np.array([[3, 0], [1, 1], [2, 3]], "int32")
    np.testing.assert_array_equal(pick(x, places), np.take_along_axis(x, places, axis=1))


def test_the_length_penalty_is_the_paper_s():
    np.testing.assert_allclose(length_penalty(np.array([1, 7, 25]), 0.6), [1, 2**0.6, 5**0.6], rtol=1e-6)
    np.testing.assert_allclose(length_penalty(np.array([0, 1, 25]), 0), [1, 1, 1])
