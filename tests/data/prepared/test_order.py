"""The order of training: what each epoch has, how it is cut, and that every step is found without those before it."""

import itertools
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounded import SECONDS
from tf_transformer.data.prepared.order import TrainingOrder, cut

ROWS = [7, 5, 3, 2]


def order_of(buckets, sources=None, seed=1, rows=ROWS):
    buckets = np.array(buckets)
    return TrainingOrder(buckets, rows, sources or [(len(buckets), 1.0)], seed)


def pairs_of(epoch):
    """The pairs of each batch, in the order in which they come."""
    return [epoch.batch(place)[0].tolist() for place in range(len(epoch.order))]


some_buckets = st.lists(st.integers(0, len(ROWS) - 1), min_size=1, max_size=200)


@settings(max_examples=50, deadline=None)
@given(buckets=some_buckets, seed=st.integers(0, 2**32 - 1), number=st.integers(0, 1000))
def test_an_epoch_has_each_pair_once(buckets, seed, number):
    epoch = order_of(buckets, seed=seed).epoch(number)
    batches = pairs_of(epoch)
    assert sorted(itertools.chain(*batches)) == list(range(len(buckets)))
    for place, batch in enumerate(batches):
        _, bucket = epoch.batch(place)
        longest = max(buckets[pair] for pair in batch)
        assert longest == bucket and 1 <= len(batch) <= ROWS[bucket]


@settings(max_examples=100, deadline=None)
@given(counts=st.lists(st.integers(0, 40), min_size=4, max_size=4))
def test_the_cut_is_that_of_a_plain_loop(counts):
    """Batch by batch: full ones of a bucket; then what is left of it goes on, unless it would fill the next."""
    expected = []
    left = []  # the buckets of the pairs that are carried on
    for bucket, count in enumerate(counts):
        if not count:
            continue
        if left and len(left) >= ROWS[bucket]:
            expected.append((len(left), max(left)))
            left = []
        left += [bucket] * count
        while len(left) >= ROWS[bucket]:
            expected.append((ROWS[bucket], bucket))
            left = left[ROWS[bucket] :]
    if left:
        expected.append((len(left), max(left)))
    starts, buckets = cut(np.array(counts), ROWS)
    assert list(zip(np.diff(starts).tolist(), buckets.tolist(), strict=True)) == expected


def test_only_the_last_batches_of_buckets_are_small():
    """Of a corpus with all lengths: at most one for each bucket, and those well filled but for one."""
    counts = np.random.default_rng(0).integers(300, 400, 20)
    rows = [200 // length for length in range(4, 24)]
    starts, buckets = cut(counts, rows)
    filling = np.diff(starts) / np.array(rows)[buckets]
    assert np.count_nonzero(filling < 1) <= 20 and np.count_nonzero(filling < 0.7) <= 1


def test_epochs_differ_and_so_do_seeds():
    buckets = np.random.default_rng(0).integers(0, 4, 500)
    order, other = order_of(buckets), order_of(buckets, seed=2)
    drawn = [pairs_of(order.epoch(0)), pairs_of(order.epoch(1)), pairs_of(other.epoch(0))]
    for one, two in itertools.combinations(drawn, 2):
        assert one != two
        assert {tuple(sorted(batch)) for batch in one} != {tuple(sorted(batch)) for batch in two}


def test_every_order_is_equally_likely():
    """Of three pairs of one bucket, over the epochs: all six orders, each within five standard deviations."""
    order = TrainingOrder(np.zeros(3, int), [3], [(3, 1.0)], seed=1)
    counts = Counter(tuple(order.epoch(number).pairs.tolist()) for number in range(3000))
    assert len(counts) == 6
    assert all(abs(count - 500) < 5 * (3000 * 1 / 6 * 5 / 6) ** 0.5 for count in counts.values())


def test_batches_of_short_and_long_pairs_come_mixed():
    """Not sorted by length, as they are cut: neighbours are of one bucket no more often than chance has it."""
    epoch = order_of([0] * 700 + [3] * 200).epoch(0)  # 100 batches of either
    buckets = [epoch.batch(place)[1] for place in range(len(epoch.order))]
    alike = sum(a == b for a, b in itertools.pairwise(buckets))
    assert len(buckets) == 200 and abs(alike - 99.5) < 5 * (199 / 4) ** 0.5


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 1.0), (1.0, 0.3), (0.5, 0.01)], ids=str)
def test_going_on_at_any_step_gives_the_same_batches(weights):
    buckets = np.random.default_rng(0).integers(0, 4, 60)
    sources = list(zip((40, 20), weights, strict=True))
    whole = list(itertools.islice(order_of(buckets, sources).batches_from(0), 120))
    for step in (0, 1, 13, 50, 119):
        ahead = itertools.islice(order_of(buckets, sources).batches_from(step), 120 - step)
        for (pairs, bucket), (expected, its_bucket) in zip(ahead, whole[step:], strict=True):
            assert pairs.tolist() == expected.tolist() and bucket == its_bucket


@settings(max_examples=30, deadline=None)
@given(weight=st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 1.0, 1.5, 2.0, 3.7]), number=st.integers(1, 30))
def test_a_weight_is_how_often_each_pair_comes(weight, number):
    """After any number of epochs no pair has come more often than another, but for one time; and the other source's
    pairs have come once an epoch."""
    order = order_of([0] * (number + 10), [(number, weight), (10, 1.0)])
    counts = np.zeros(number + 10, int)
    for epoch in range(1, 13):
        counts += np.bincount(order.epoch(epoch - 1).pairs, minlength=number + 10)
        assert counts[:number].max() - counts[:number].min() <= 1
        assert counts[:number].sum() == int(epoch * weight * number)
        assert (counts[number:] == epoch).all()


def test_half_a_source_differs_from_one_round_to_the_next():
    order = order_of([0] * 40, [(40, 0.5)])
    halves = [frozenset(order.epoch(number).pairs.tolist()) for number in range(8)]
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert not first & second and len(first | second) == 40
    assert len(set(halves)) == 8


def test_a_permutation_is_made_once_for_all_epochs_that_draw_from_it(monkeypatch):
    """And gives what it gave when each epoch made it again."""
    buckets, sources = np.random.default_rng(0).integers(0, 4, 300), [(200, 0.03), (60, 0.4), (40, 2.5)]
    expected = [pairs_of(order_of(buckets, sources).epoch(number)) for number in range(60)]
    made, permutation = Counter(), TrainingOrder._permutation
    monkeypatch.setattr(TrainingOrder, "_permutation", lambda *given: made.update([given[2:]]) or permutation(*given))
    order = order_of(buckets, sources)
    assert [pairs_of(order.epoch(number)) for number in range(60)] == expected
    of_sources = {stream: times for stream, times in made.items() if stream[0] == 2}
    assert len(of_sources) == 2 + 24 + 30 and set(of_sources.values()) == {1}
    made.clear()
    assert order_of(buckets, sources).find(sum(map(len, expected))) == (60, 0)
    assert set(made.values()) == {1}


def test_another_process_draws_the_same():
    """With another hash seed, and without NumPy's global state: only the seed decides."""
    program = (
        "import numpy as np; from tf_transformer.data.prepared.order import TrainingOrder\n"
        "order = TrainingOrder(np.arange(99) % 4, [7, 5, 3, 2], [(90, 1.0), (9, 0.5)], seed=5)\n"
        "print([pairs.tolist() for pairs, _ in (order.epoch(3).batch(place) for place in range(9))])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=True
    ).stdout
    order = TrainingOrder(np.arange(99) % 4, ROWS, [(90, 1.0), (9, 0.5)], seed=5)
    assert out.strip() == str(pairs_of(order.epoch(3))[:9])


def permutation_by_hand(stream, length):
    """From the raw numbers of the generator, worked out with Python's integers."""
    state = np.random.PCG64(np.random.SeedSequence(stream)).state["state"]
    number, increment, raw = state["state"], state["inc"], []
    for _ in range(length):  # PCG XSL RR 128/64 (O'Neill, 2014)
        number = (number * 0x2360ED051FC65DA44385DF649FCCF645 + increment) % 2**128
        folded, turn = (number >> 64) ^ (number % 2**64), number >> 122
        raw.append(((folded >> turn) | (folded << (-turn % 64))) % 2**64)
    return sorted(range(length), key=lambda place: raw[place])


def test_the_random_numbers_are_those_that_pcg64_is_known_for():
    """Each use of them has its stream: the seed, the use, and what of it; else a run that goes on gets others."""
    pairs = TrainingOrder(np.zeros(3, int), [3], [(3, 1.0)], seed=1).epoch(0).pairs
    assert pairs.tolist() == permutation_by_hand([1, 0, 0], 3)
    batches = TrainingOrder(np.zeros(5, int), [1], [(5, 1.0)], seed=1).epoch(2).order
    assert batches.tolist() == permutation_by_hand([1, 1, 2], 5)
    # In the third epoch two sources of which a half comes are in their second round.
    drawn = TrainingOrder(np.zeros(8, int), [8], [(4, 0.5), (4, 0.5)], seed=1).epoch(2).pairs
    first, second = (permutation_by_hand([1, 2, source, 1], 4)[:2] for source in (0, 1))
    assert sorted(drawn.tolist()) == sorted([*first, *(4 + pair for pair in second)])
