"""Draws against the distributions that they are drawn from, listed by hand.

Seeds are fixed: what is within its bound once always is.
"""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.decoding import by_hand
from tests.decoding.by_hand import END, LONGEST, ROWS, START, VOCABULARY, of_row, padded, tokens_of
from tf_transformer import Transformer
from tf_transformer.decoding import RandomSampler, Stepper, greedy_search, sample
from tf_transformer.decoding.samplers import _uniform, row_keys

INTS, IDS = tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None, None), tf.int32)
INT, FLOAT = tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.float32)


def draw(rows, limits, keys, candidates=VOCABULARY, temperature=1.0, top_p=1.0, seed=0, min_length=1, prefix=None):
    model = by_hand.TableModel()
    sampler = RandomSampler(temperature, top_p, seed)
    return sample(model, model.start_cache(rows), limits, START, END, sampler, keys, candidates, min_length, prefix)


KEYS = tf.TensorSpec((None,), tf.uint32)
compiled = tf.function(draw, autograph=False, input_signature=(INTS, INTS, KEYS, INT, FLOAT, FLOAT, INT, INT, IDS))


def in_a_graph(
    rows, limits, keys, candidates=VOCABULARY, temperature=1.0, top_p=1.0, seed=0, min_length=1, prefix=None
):
    prefix = np.zeros((len(rows), 0), "int32") if prefix is None else prefix
    return [x.numpy() for x in compiled(rows, limits, keys, candidates, temperature, top_p, seed, min_length, prefix)]


def shares(log_probabilities, allowed, temperature=1.0, top_k=0, top_p=1.0):
    """The probability of each token that can be drawn."""
    likely = sorted(allowed, key=log_probabilities.__getitem__, reverse=True)[: top_k or None]
    weights = np.exp(np.array([log_probabilities[token] for token in likely]) / temperature)
    weights /= weights.sum()
    nucleus = next(n for n in range(1, len(weights) + 1) if n == len(weights) or weights[:n].sum() >= top_p)
    return dict(zip(likely[:nucleus], weights[:nucleus] / weights[:nucleus].sum(), strict=True))


def outcomes(next_log_probabilities, limit, min_length=1, **options):
    """The probability of each whole output."""
    found, unfinished = {}, {(): 1.0}
    for position in range(limit):
        grown = {}
        for tokens, probability in unfinished.items():
            choices = by_hand.allowed(position, VOCABULARY, min_length, ())
            for token, share in shares(next_log_probabilities(list(tokens)), choices, **options).items():
                (found if token == END else grown)[(*tokens, token)] = probability * share
        unfinished = grown
    return found | unfinished


def check_counts(counts, probabilities):
    """Pearson's test: the draws are of this distribution, as far as their number can tell."""
    assert counts.keys() <= probabilities.keys()
    number = sum(counts.values())
    expected = np.array([number * probability for probability in probabilities.values()])
    got = np.array([counts.get(outcome, 0) for outcome in probabilities])
    often = expected >= 5
    statistic = ((got - expected) ** 2 / expected)[often].sum()
    freedom = max(1, often.sum() - 1)
    assert statistic < freedom + 4 * np.sqrt(2 * freedom)
    assert got[~often].sum() <= expected[~often].sum() + 4 * np.sqrt(expected[~often].sum() + 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 3},
        {"top_p": 0.6},
        {"top_p": 1e-3},
        {"temperature": 1.5, "top_k": 4, "top_p": 0.8},
        {"min_length": 2},
    ],
    ids=str,
)
def test_outputs_are_drawn_with_the_model_s_probabilities(options):
    """The nucleus is taken of what is among the top k, at the temperature."""
    number = 8000
    for row in (0, 4, 8):
        model_options = {"candidates" if name == "top_k" else name: value for name, value in options.items()}
        ids, log_probabilities = in_a_graph([row] * number, [2] * number, np.arange(number), **model_options)
        counts = {}
        for tokens, log_probability in zip(map(tokens_of, ids), log_probabilities, strict=True):
            counts[tuple(tokens)] = counts.get(tuple(tokens), 0) + 1
            # The score is the model's own, whatever the tokens were drawn from.
            next_log_probabilities = of_row(row)
            own = sum(next_log_probabilities(tokens[:i])[token] for i, token in enumerate(tokens))
            assert log_probability == pytest.approx(own, abs=1e-4)
        check_counts(counts, outcomes(of_row(row), 2, **options))


def test_the_nucleus_is_the_fewest_that_have_the_probability_together():
    log_probs = np.log([[0.4, 0.3, 0.2, 0.1]] * 4000).astype("float32")
    keys = np.arange(4000).astype("uint32")
    for top_p, count in ((0.01, 1), (0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.91, 4), (1.0, 4)):
        places = RandomSampler(top_p=top_p)(log_probs, keys, 0).numpy()
        assert set(places.tolist()) == set(range(count))
        check_counts(
            dict(enumerate(np.bincount(places).tolist())),
            dict(enumerate(np.array([0.4, 0.3, 0.2, 0.1][:count]) / sum([0.4, 0.3, 0.2, 0.1][:count]))),
        )


def test_what_is_impossible_is_never_drawn():
    possible = np.array([[0.0, -1.0, -30.0, -float("inf")], [0.0] + [-float("inf")] * 3], "float32")
    keys = np.arange(100_000).astype("uint32")
    for row, most in zip(possible, (2, 0), strict=True):
        for temperature in (1e-3, 1.0, 1e6):
            places = RandomSampler(temperature)(np.tile(row, (len(keys), 1)), keys, 3).numpy()
            assert places.dtype == "int32" and places.min() == 0 and places.max() <= most


def test_limits_prefixes_and_minimal_lengths_hold_and_padding_is_never_drawn():
    random = np.random.default_rng(0)
    rows, min_length = np.arange(ROWS), 4
    limits = rows % (LONGEST + 1)
    prefixes = [tuple(random.choice([1, 2, 4, 5, 6], row % 4).tolist()) for row in rows]
    keys = np.arange(ROWS).astype("uint32")
    ids, _ = in_a_graph(rows, limits, keys, temperature=3.0, min_length=min_length, prefix=padded(prefixes, 3))
    assert ids.shape == (ROWS, LONGEST)
    lengths = set()
    for got, limit, prefix in zip(ids, limits, prefixes, strict=True):
        tokens = tokens_of(got)
        assert tuple(tokens[: len(prefix)]) == prefix[:limit]
        assert len(tokens) == limit or (min_length <= len(tokens) < limit and tokens[-1] == END)
        assert END not in tokens[:-1] and END not in tokens[: min_length - 1]
        lengths.add(len(tokens) if len(tokens) < limit else 0)
    assert {0, 4, 6} <= lengths


def test_a_seed_s_draws_are_the_same_again_and_another_s_are_others():
    rows, limits, keys = np.arange(ROWS), np.full(ROWS, LONGEST), np.arange(ROWS).astype("uint32")
    first, again, other = (in_a_graph(rows, limits, keys, temperature=2.0, seed=seed)[0] for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any(axis=1).mean() > 0.8
    other = in_a_graph(rows, limits, keys + 1000, temperature=2.0, seed=5)[0]
    assert (first != other).any(axis=1).mean() > 0.8
    eager = draw(rows, limits, keys, VOCABULARY, 2.0, 1.0, 5)[0]
    np.testing.assert_array_equal(first, eager)


def test_a_row_s_draws_are_its_own_in_any_batch():
    rows, limits, keys = np.arange(ROWS), np.arange(ROWS) % (LONGEST + 1), np.arange(ROWS).astype("uint32")
    ids, log_probabilities = in_a_graph(rows, limits, keys, top_p=0.95)
    order = np.random.default_rng(0).permutation(ROWS)
    for places in (order, order[:7], order[7:10], order[:1], order[:0]):
        got, got_log_probabilities = in_a_graph(rows[places], limits[places], keys[places], top_p=0.95)
        np.testing.assert_array_equal(got, ids[places, : got.shape[1]])
        np.testing.assert_array_equal(got_log_probabilities, log_probabilities[places])


@pytest.mark.parametrize("options", [{"candidates": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}], ids=str)
def test_drawing_among_one_is_greedy_search(options):
    rows, limits = np.arange(ROWS), np.arange(ROWS) % (LONGEST + 1)
    model = by_hand.TableModel()
    expected, expected_log_probabilities = greedy_search(model, model.start_cache(rows), limits, START, END, 2)
    ids, log_probabilities = in_a_graph(rows, limits, np.arange(ROWS).astype("uint32"), min_length=2, **options)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(log_probabilities, expected_log_probabilities, rtol=1e-6)


def test_a_transformer_s_draws_do_not_depend_on_company_order_and_padding():
    model = Transformer(1, 16, 2, 24, 23, 23, max_length=16)
    model.build(((None, None), (None, None)))
    reference.randomise(model)

    @functools.partial(tf.function, autograph=False, input_signature=(IDS,))
    def translate(source_ids):
        stepper = Stepper(model)
        limits = tf.fill((tf.shape(source_ids)[0],), 10)
        keys = row_keys(source_ids)
        return sample(stepper, stepper.start_cache(source_ids), limits, START, END, RandomSampler(), keys, 23)

    sources = padded([[5, 9, 14, 22, 7, 3], [8, 17, 3], [3], [11, 12, 13, 3], [8, 17, 3]], 6)
    ids, log_probabilities = translate(sources)
    for places, wider in (([3, 0, 1], 0), ([2], 5), ([4, 3, 2, 1, 0], 2)):
        got, got_log_probabilities = translate(np.pad(sources[places], ((0, 0), (0, wider))))
        np.testing.assert_array_equal(got, ids.numpy()[places])
        np.testing.assert_allclose(got_log_probabilities, log_probabilities.numpy()[places], atol=1e-4)
    np.testing.assert_array_equal(ids[1], ids[4])


def test_keys_are_the_rows_own():
    sources = np.array([[5, 9, 3, 0], [9, 5, 3, 0], [5, 9, 3, 3], [5, 3, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]], "int32")
    keys = row_keys(sources).numpy()
    assert keys.dtype == "uint32" and keys.shape == (6,) and len(set(keys.tolist())) == 6
    np.testing.assert_array_equal(row_keys(np.pad(sources, ((0, 0), (0, 7)))), keys)
    np.testing.assert_array_equal(row_keys(sources[::-1]), keys[::-1])
    np.testing.assert_array_equal(row_keys(sources[3:4, :2]), keys[3:4])
    assert row_keys(sources[:0]).shape == (0,)


def test_keys_of_copies_differ_and_a_row_s_stand_together():
    sources = np.array([[5, 9, 3], [6, 3, 0]], "int32")
    keys = row_keys(sources, 4).numpy()
    assert len(set(keys.tolist())) == 8
    np.testing.assert_array_equal(keys.reshape(2, 4)[:, 0], row_keys(sources))
    np.testing.assert_array_equal(row_keys(sources[1:], 4), keys[4:])
    np.testing.assert_array_equal(row_keys(sources, 2), keys.reshape(2, 4)[:, :2].reshape(-1))
    dynamic = tf.function(row_keys, input_signature=(IDS, INT))
    np.testing.assert_array_equal(dynamic(sources, 4), keys)


def test_draws_are_uniform_and_neighbours_have_nothing_to_do_with_each_other():
    """Neighbouring keys, positions, seeds and copies, and sentences that differ in one token, or in their order."""
    number, positions, seeds = 2000, 5, 3
    pairs = np.stack(np.meshgrid(np.arange(4, 44), np.arange(4, 54)), axis=-1).reshape(number, 2).astype("int32")
    for keys in (np.arange(number).astype("uint32"), row_keys(pairs).numpy(), row_keys(pairs[:500], 4).numpy()):
        draws = np.array(
            [[_uniform(tf.constant(keys), seed, position) for position in range(positions)] for seed in range(seeds)]
        )
        assert draws.dtype == "float32" and draws.min() >= 0 and draws.max() < 1
        uniform = dict.fromkeys(range(20), 1 / 20)
        check_counts(dict(enumerate(np.bincount((draws * 20).astype(int).ravel(), minlength=20).tolist())), uniform)
        neighbours = {
            "key": (draws[..., :-1], draws[..., 1:]),
            "position": (draws[:, :-1], draws[:, 1:]),
            "seed": (draws[:-1], draws[1:]),
            "seed and position": (draws[1:, :-1], draws[:-1, 1:]),
            "a few keys on": (draws[..., :-4], draws[..., 4:]),
        }
        for name, (a, b) in neighbours.items():
            squares = (a * 6).astype(int) * 6 + (b * 6).astype(int)
            counts = np.bincount(squares.ravel(), minlength=36).tolist()
            check_counts(dict(enumerate(counts)), dict.fromkeys(range(36), 1 / 36))
            assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / np.sqrt(a.size), name


def test_a_draw_is_the_same_with_settings_that_are_known_when_it_runs():
    uniform = tf.function(_uniform, input_signature=(KEYS, INT, INT))
    keys = np.arange(5).astype("uint32")
    for seed, position in itertools.product((0, 7, 2**31 - 1), (0, 3)):
        np.testing.assert_array_equal(uniform(keys, seed, position), _uniform(tf.constant(keys), seed, position))
