"""Alignments, against their definition one token at a time."""

import numpy as np
import pytest

from tf_transformer.decoding import align

PAD, END = 0, 3
LAYERS, HEADS = 2, 3


def align_by_hand(weights, source, target):
    """Of one pair without padding; `weights` is (layers, heads, target_len, source_len)."""
    places = []
    for i, token in enumerate(target):
        mean = [sum(weights[m][h][i][j] for m in range(LAYERS) for h in range(HEADS)) for j in range(len(source))]
        allowed = [j for j, other in enumerate(source) if (other == END) == (token == END)]
        places.append(max(allowed, key=mean.__getitem__, default=-1))
    return places


@pytest.fixture(scope="module")
def batch():
    """Random weights between sentences of all lengths; what stands at padding is the highest."""
    random = np.random.default_rng(0)
    lengths = [(1 + row % 7, row % 5) for row in range(35)]
    weights = random.random((35, LAYERS, HEADS, 6, 9)).astype("float32")
    sources, targets = np.zeros((35, 9), "int32"), np.zeros((35, 6), "int32")
    for row, (source_len, target_len) in enumerate(lengths):
        sources[row, :source_len] = random.integers(4, 20, source_len)
        sources[row, source_len - 1] = END
        targets[row, :target_len] = random.integers(4, 20, target_len)
        if row % 2 and target_len:  # the others were cut at their limit
            targets[row, target_len - 1] = END
        weights[row, ..., source_len:] = 5
    return lengths, weights, sources, targets


def test_it_is_the_highest_of_the_mean_weights(batch):
    lengths, weights, sources, targets = batch
    aligned = np.asarray(align(weights, sources, targets, END))
    assert aligned.dtype == np.int32
    for row, (source_len, target_len) in enumerate(lengths):
        source, target = sources[row, :source_len].tolist(), targets[row, :target_len].tolist()
        expected = align_by_hand(weights[row].tolist(), source, target)
        assert aligned[row].tolist() == expected + [-1] * (6 - target_len)


def test_a_pair_s_alignment_is_its_own(batch):
    lengths, weights, sources, targets = batch
    together = np.asarray(align(weights, sources, targets, END))
    for row, (i, j) in enumerate(lengths):
        alone = align(weights[row : row + 1, :, :, :j, :i], sources[row : row + 1, :i], targets[row : row + 1, :j], END)
        assert np.asarray(alone)[0].tolist() == together[row, :j].tolist()


def test_the_highest_weight_counts_over_all_heads():
    # One head is sure of the first token, but the others together prefer the second.
    weights = np.array([[[[[0.9, 0.1, 0.0]], [[0.2, 0.8, 0.0]], [[0.1, 0.9, 0.0]]]]])
    assert np.asarray(align(weights, np.array([[7, 8, END]]), np.array([[9]]), END)).tolist() == [[1]]


def test_only_the_closing_token_is_aligned_to_the_closing_token():
    weights = np.array([[[[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]]]])
    sources, targets = np.array([[7, 8, END]]), np.array([[9, END]])
    assert np.asarray(align(weights, sources, targets, END)).tolist() == [[1, 2]]


def test_where_the_source_is_empty_nothing_is_aligned_but_the_closing_tokens():
    weights = np.ones((1, 1, 1, 3, 1))
    assert np.asarray(align(weights, np.array([[END]]), np.array([[9, END, PAD]]), END)).tolist() == [[-1, 0, -1]]


def test_in_an_empty_batch_nothing_is_aligned():
    nothing = np.zeros((0, 0), "int32")
    assert np.asarray(align(np.zeros((0, 1, 1, 0, 0)), nothing, nothing, END)).shape == (0, 0)
