"""Batches of prepared pairs: those of the order, put together as the text has them."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from tests.data.prepared.small import numbered, prepare
from tests.data.test_batching import CHARACTERS, seen
from tf_transformer.data.batching import make_batches, padding_share
from tf_transformer.data.mixture import Mixture, WeightedSource
from tf_transformer.data.prepared.batches import PreparedBatches

LIMITS = {"batch_tokens": 240, "max_length": 30}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return prepare(numbered(400), tmp_path_factory.mktemp("store") / "train")


def arrays(dataset, number=None):
    return list(dataset.take(-1 if number is None else number).as_numpy_iterator())


def epochs(batches, pairs):
    """Endless batches by epoch, each of which has all pairs."""
    stream = iter(batches)
    while True:
        epoch, rows = [], 0
        while rows < pairs:
            epoch.append(next(stream))
            rows += np.count_nonzero(epoch[-1][1].any(axis=1))
        yield epoch


def test_validation_has_each_pair_once_the_shortest_first(prepared):
    dataset = PreparedBatches(prepared, **LIMITS).once()
    batches = arrays(dataset)
    assert Counter(seen(batches)) == Counter(numbered(400))
    assert dataset.cardinality() == len(batches)
    widths = [max(source.shape[1], labels.shape[1]) for (source, _), labels in batches]
    assert widths == sorted(widths)


def test_training_has_each_pair_once_an_epoch(prepared):
    """In batches that are full, as wide as their longest sentence, and different ones in each epoch."""
    dataset = PreparedBatches(prepared, **LIMITS).endless(seed=1).from_step(0)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    found = list(itertools.islice(epochs(dataset.as_numpy_iterator(), 400), 3))
    for epoch in found:
        assert Counter(seen(epoch)) == Counter(numbered(400))
        for (source_ids, target_ids), labels in epoch:
            assert source_ids.size <= 240 and labels.size <= 240 and target_ids.shape == labels.shape
            assert {ids.dtype for ids in (source_ids, target_ids, labels)} == {np.dtype(np.int32)}
            assert all(ids[:, -1].any() for ids in (source_ids, labels))
    assert seen(found[0]) != seen(found[1])


@pytest.mark.parametrize("multiple", [2, 4])
def test_rows_are_a_multiple_and_what_is_missing_is_padding(prepared, multiple):
    batches = PreparedBatches(prepared, **LIMITS, row_multiple=multiple)
    epoch = next(epochs(batches.endless(seed=1).from_step(0).as_numpy_iterator(), 400))
    whole = []
    for (source_ids, target_ids), labels in epoch:
        assert len(labels) % multiple == 0 and source_ids.size <= 240 and labels.size <= 240
        real = labels.any(axis=1)
        # The rows of padding come last, in all three.
        for ids in (source_ids, target_ids, labels):
            assert (ids.any(axis=1) == real).all() and (np.diff(real.astype(int)) <= 0).all()
        whole.append(((source_ids[real], target_ids[real]), labels[real]))
    assert Counter(seen(whole)) == Counter(numbered(400))


def test_fixed_shapes_are_one_for_each_bucket(prepared):
    batches = PreparedBatches(prepared, **LIMITS, fixed_shapes=True)
    for epoch in (
        next(epochs(batches.endless(seed=1).from_step(0).as_numpy_iterator(), 400)),
        arrays(batches.once()),
    ):
        shapes = {(*source.shape, *target.shape, *labels.shape) for (source, target), labels in epoch}
        widths = {shape[1] for shape in shapes}
        assert len(shapes) == len(widths) and all(
            len(set(shape[::2])) == len(set(shape[1::2])) == 1 for shape in shapes
        )
        assert all(shape[0] == 240 // shape[1] for shape in shapes)
        real = [((s[r], t[r]), lab[r]) for (s, t), lab in epoch for r in [lab.any(axis=1)]]
        assert Counter(seen(real)) == Counter(numbered(400))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("step", [1, 37, 500])
def test_batches_from_a_step_are_those_that_come_there(prepared, step, fixed):
    batches = PreparedBatches(prepared, **LIMITS, fixed_shapes=fixed).endless(seed=3)
    expected = arrays(batches.from_step(0).skip(step), 5)
    for found, other in zip(arrays(batches.from_step(step), 5), expected, strict=True):
        for one, two in zip(tf.nest.flatten(found), tf.nest.flatten(other), strict=True):
            np.testing.assert_array_equal(one, two)


def test_each_iterator_begins_at_the_step(prepared):
    """Keras begins again after a few batches that it throws away."""
    dataset = PreparedBatches(prepared, **LIMITS).endless(seed=3).from_step(7)
    assert seen(arrays(dataset, 3)) == seen(arrays(dataset, 3))


def test_the_padding_that_is_told_is_that_of_the_batches(prepared):
    for options in ({}, {"fixed_shapes": True}, {"row_multiple": 4}):
        batches = PreparedBatches(prepared, **LIMITS, **options).endless(seed=1)
        epoch = next(epochs(batches.from_step(0).as_numpy_iterator(), 400))
        sides = [(ids == 0) for (source_ids, _), labels in epoch for ids in (source_ids, labels)]
        expected = sum(side.sum() for side in sides) / sum(side.size for side in sides)
        assert batches.padding_share() == pytest.approx(expected)


def test_there_is_no_more_padding_than_in_streamed_batches(prepared):
    """By more than the batches that are left over, of which there are few."""
    streamed = make_batches(numbered(400) * 10, CHARACTERS, **LIMITS, shuffle_buffer=4000, seed=1)
    epoch = next(epochs(PreparedBatches(prepared, **LIMITS).endless(seed=1).from_step(0).as_numpy_iterator(), 400))
    sides = [(ids == 0) for (source_ids, _), labels in epoch for ids in (source_ids, labels)]
    share = sum(side.sum() for side in sides) / sum(side.size for side in sides)
    assert share < padding_share(streamed) + 0.02


def test_sources_come_as_often_as_they_weigh(tmp_path):
    clean = [(f"c{n}", f"d{n}") for n in range(60)]
    crawled = [(f"x{n}", f"y{n}") for n in range(40)]
    prepared = prepare(Mixture([WeightedSource("a", clean), WeightedSource("b", crawled)]), tmp_path / "train")
    batches = PreparedBatches(prepared, **LIMITS).endless(seed=1, weights=(2.0, 0.5))
    # An epoch has 120 and 20; two have each clean pair four times, and each crawled one once.
    stream = batches.from_step(0).as_numpy_iterator()
    found = Counter(seen(list(itertools.chain(*itertools.islice(epochs(stream, 140), 2)))))
    assert found == Counter(clean * 4 + crawled)


def test_pairs_of_a_batch_are_mixed_of_all_sources(tmp_path):
    sources = [WeightedSource("a", [("aa", "aa")] * 300), WeightedSource("b", [("bb", "bb")] * 300)]
    prepared = prepare(Mixture(sources), tmp_path / "train")
    batches = PreparedBatches(prepared, **LIMITS).endless(seed=1, weights=(1.0, 1.0))
    for batch in arrays(batches.from_step(0), 5):
        share = np.mean([source == "aa" for source, _ in seen([batch])])
        assert 0.2 < share < 0.8  # of 60 pairs, five standard deviations
