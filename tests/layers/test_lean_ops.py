"""Operations made of few of TensorFlow's give what Keras's do."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tf_transformer.layers.lean_ops import shape_of, take


@pytest.mark.parametrize("known", [(3, 5), (None, 5), (3, None), (None, None)])
def test_shape_of_is_what_keras_gives(known):
    """Numbers where the lengths are known, and what they are at the call where they are not."""
    x = np.zeros((3, 5), "float32")
    kinds = []

    @tf.function(input_signature=[tf.TensorSpec(known)], autograph=False)
    def both(x):
        lean, whole = shape_of(x), ops.shape(x)
        kinds.extend(zip(map(type, lean), map(type, whole), strict=True))
        return [tf.convert_to_tensor(length) for length in (*lean, *whole)]

    assert [length.numpy() for length in both(x)] == [3, 5, 3, 5]
    assert all(lean is whole for lean, whole in kinds)
    assert [lean is int for lean, _ in kinds] == [length is not None for length in known]


@pytest.mark.parametrize("kind", [np.asarray, list, keras.Variable, tf.constant])
def test_shape_of_takes_what_keras_takes(kind):
    x = kind(np.zeros((2, 3)))
    assert shape_of(x) == ops.shape(x) == (2, 3)


def test_shape_of_a_symbolic_tensor_has_no_length_where_it_is_not_known():
    assert shape_of(keras.Input((None, 4))) == (None, None, 4)


def test_all_lengths_take_two_operations():
    """One for the shape and one to take it apart, however many lengths are unknown."""

    @tf.function(input_signature=[tf.TensorSpec([None] * 4)], autograph=False)
    def lengths(x):
        before = len(tf.compat.v1.get_default_graph().get_operations())
        shape_of(x)
        made.append(len(tf.compat.v1.get_default_graph().get_operations()) - before)
        return x

    made = []
    lengths.get_concrete_function()
    assert made == [2]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [2, [0, 2, 2], [[1], [0]], np.zeros((0,), "int32")], ids=str)
def test_take_is_what_keras_gives(axis, indices):
    x = np.arange(27).reshape(3, 3, 3)
    indices = np.asarray(indices, "int32")
    np.testing.assert_array_equal(take(x, indices, axis), np.take(x, indices, axis))
    np.testing.assert_array_equal(take(x, indices, axis), ops.take(x, indices, axis=axis))
