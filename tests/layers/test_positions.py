"""Position encodings: the paper's sinusoids, learned vectors, and sequences that are too long."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tf_transformer import PositionEncoding, positional_encoding

DEPTHS = (2, 8, 64)
LENGTH = 600
TABLES = {depth: positional_encoding(LENGTH, depth) for depth in DEPTHS}


@pytest.mark.parametrize("depth", [2, 6, 64, 512])
def test_sinusoids_are_the_papers_interleaved(depth):
    table = positional_encoding(70, depth)
    assert table.shape == (70, depth)
    assert table.dtype == "float32"
    np.testing.assert_allclose(table, reference.sinusoids(70, depth), atol=1e-7)


def test_far_sinusoids_keep_float64s_accuracy():
    """An angle worked out in float32 would be off by 1e-4 here."""
    row = positional_encoding(5001, 4)[5000]
    expected = [math.sin(5000), math.cos(5000), math.sin(50), math.cos(50)]
    np.testing.assert_allclose(row, expected, atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(depth=st.sampled_from(DEPTHS), pos=st.integers(0, LENGTH - 1), data=st.data())
def test_an_offset_is_one_linear_map_for_every_position(depth, pos, data):
    """PE(pos + k) = M_k PE(pos), where M_k turns each pair (sin, cos) by k times its frequency."""
    offset = data.draw(st.integers(-pos, LENGTH - 1 - pos))
    linear_map = np.zeros((depth, depth))
    for i in range(0, depth, 2):
        turn = offset / 10000 ** (i / depth)
        linear_map[i : i + 2, i : i + 2] = [[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]
    table = TABLES[depth]
    np.testing.assert_allclose(linear_map @ table[pos], table[pos + offset], atol=1e-6)
    # The map knows the offset only: it takes every position there.
    start, stop = max(0, -offset), LENGTH - max(0, offset)
    np.testing.assert_allclose(table[start:stop] @ linear_map.T, table[start + offset : stop + offset], atol=1e-6)


def test_a_map_solved_from_some_positions_holds_for_the_others():
    table = positional_encoding(200, 8).astype("float64")
    solved, *_ = np.linalg.lstsq(table[:50], table[13:63], rcond=None)
    np.testing.assert_allclose(table[50:187] @ solved, table[63:], atol=1e-4)


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_positions_are_added(position):
    layer = PositionEncoding(position, max_length=9)
    x = np.random.default_rng(0).standard_normal((2, 5, 6)).astype("float32")
    got = layer(x)
    table = reference.sinusoids(5, 6) if position == "sinusoidal" else layer.weights[0].numpy()[:5]
    np.testing.assert_allclose(got, x + table, atol=1e-6)
    assert len(layer.trainable_weights) == (position == "learned")


def test_learned_vectors_are_of_length_1_at_first():
    """As embeddings are; each number has a standard deviation of depth**-0.5."""
    layer = PositionEncoding("learned", max_length=512)
    layer.build((None, None, 64))
    (table,) = layer.get_weights()
    assert table.std() == pytest.approx(64**-0.5, rel=0.05)
    assert abs(table.mean()) < 0.01


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
@pytest.mark.parametrize("max_length", [1, 4])
def test_a_graph_that_knows_no_length_refuses_a_longer_sequence_too(position, max_length):
    layer = PositionEncoding(position, max_length)
    layer.build((None, None, 8))
    ids = [tf.TensorSpec([None, None, 8], tf.float32)]
    fitting, long = np.zeros((2, max_length, 8), "float32"), np.zeros((2, max_length + 1, 8), "float32")
    graph, compiled = (tf.function(layer.call, input_signature=ids, jit_compile=xla) for xla in (False, True))
    for function in graph, compiled:
        np.testing.assert_allclose(function(fitting), layer(fitting), atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"longer than the {max_length} positions.*max_length"):
        graph(long)
    with pytest.raises(tf.errors.InvalidArgumentError):  # XLA has no assertions: it says so in its own words
        compiled(long)


def test_a_sequence_longer_than_the_positions_is_refused():
    layer = PositionEncoding("sinusoidal", max_length=4)
    assert layer(np.zeros((1, 4, 2), "float32")).shape == (1, 4, 2)
    with pytest.raises(ValueError, match="5 tokens is longer than the 4 positions.*max_length"):
        layer(np.zeros((1, 5, 2), "float32"))


def test_sinusoids_of_odd_width_are_refused():
    with pytest.raises(ValueError, match="d_model.*got 5"):
        positional_encoding(3, 5)
