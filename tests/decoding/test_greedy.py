"""Greedy search against the same search in plain Python, a row and a token at a time."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tf_transformer import Transformer
from tf_transformer.decoding import greedy_search

START, END = 2, 3
ROWS, LONGEST, VOCABULARY = 30, 8, 7


def make_table():
    """Logits of the next token for each row, position and token there: a stand-in for a model.

    Padding is often the likeliest token, to tempt the search.
    """
    table = np.random.default_rng(0).standard_normal((ROWS, LONGEST, VOCABULARY, VOCABULARY)).astype("float32")
    table[..., 0] += 1
    return 3 * table


TABLE = make_table()


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    return logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())


def by_hand(next_logits, limit):
    """The tokens of one row and their log-probability, for a function from the tokens so far to logits."""
    tokens, score = [], 0.0
    while len(tokens) < limit and END not in tokens:
        log_probabilities = log_softmax(next_logits([START, *tokens]))
        best = max(range(1, len(log_probabilities)), key=log_probabilities.__getitem__)
        tokens.append(best)
        score += log_probabilities[best]
    return tokens, score


@functools.cache
def expected(row, limit):
    return by_hand(lambda tokens: TABLE[row, len(tokens) - 1, tokens[-1]], limit)


def search(rows, limits):
    """The search over rows of the table; which row each one is travels in the cache."""

    def step(ids, position, cache):
        rows, (steps,) = cache["rows"], cache["steps"]
        places = tf.stack([rows, tf.fill(tf.shape(rows), position), ids], axis=1)
        tf.debugging.assert_equal(position, steps)
        return tf.gather_nd(TABLE, places), {"rows": rows, "steps": (steps + 1,)}

    return greedy_search(step, {"rows": rows, "steps": (tf.constant(0),)}, limits, START, END)


INTS = tf.TensorSpec((None,), tf.int32)
search_in_a_graph = tf.function(search, autograph=False, input_signature=(INTS, INTS))


def check(search, batch):
    rows, limits = (np.array([pair[i] for pair in batch], "int32") for i in range(2))
    ids, scores = (tensor.numpy() for tensor in search(tf.constant(rows), tf.constant(limits)))
    assert ids.dtype == "int32" and scores.dtype == "float32"
    assert ids.shape == (len(batch), max([1, *limits])) and scores.shape == (len(batch),)
    for got, score, row, limit in zip(ids, scores, rows, limits, strict=True):
        tokens, log_probability = expected(row, limit)
        assert got.tolist() == tokens + [0] * (len(got) - len(tokens))
        assert score == pytest.approx(log_probability, abs=1e-4)


def test_the_table_is_a_test():
    """Rows close early, late and not at all, and padding would have been chosen."""
    outcomes = [expected(row, LONGEST)[0] for row in range(ROWS)]
    closed = {len(tokens) for tokens in outcomes if END in tokens}
    assert {1, 2, 5} <= closed and any(END not in tokens for tokens in outcomes)
    assert (TABLE[:, 0, START].argmax(axis=-1) == 0).sum() > ROWS / 10


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, LONGEST)), max_size=6))
def test_each_row_is_as_by_hand_in_any_batch(batch):
    """Any rows, in any order and company, each with its limit; 0 too, and no rows at all."""
    check(search_in_a_graph, batch)


@pytest.mark.parametrize("search", [search, search_in_a_graph], ids=["eager", "graph"])
def test_all_rows_at_once(search):
    check(search, [(row, LONGEST) for row in range(ROWS)])
    check(search, [(row, row % (LONGEST + 1)) for row in range(ROWS)])


@pytest.mark.parametrize("limits, steps", [([3, 5], 5), ([9, 9], 6), ([9, 0], 4), ([0, 0], 0), ([1, 2], 2)])
def test_it_stops_when_all_rows_have(limits, steps):
    """The first row closes at its 4th step, the second at its 6th."""
    calls = []

    def step(ids, position, cache):
        calls.append(ids.numpy().tolist())
        tokens = [END if len(calls) == closing else 5 for closing in (4, 6)]
        return tf.one_hot(tokens, VOCABULARY), cache

    ids, _ = greedy_search(step, (), np.array(limits), START, END)
    assert len(calls) == steps
    assert ids.shape == (2, max(*limits, 1))
    assert not calls or calls[0] == [START, START]


def test_the_score_does_not_count_what_padding_would_have_got():
    """The likeliest real token's probability stays what the model gave it."""

    def step(ids, position, cache):
        return tf.math.log([[0.5, 0.1, 0.1, 0.3]]), cache

    ids, scores = greedy_search(step, (), np.array([5]), START, END)
    assert ids.numpy().tolist() == [[END, 0, 0, 0, 0]]
    assert float(scores[0]) == pytest.approx(np.log(0.3), rel=1e-6)


@pytest.fixture(scope="module")
def model():
    model = Transformer(2, 16, 2, 24, 23, 23, max_length=16, share_embeddings="target")
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


def test_a_transformer_s_steps_find_what_its_whole_passes_find(model):
    sources = [[5, 9, 14, 22, 7, 3], [8, 17, 3], [3], [11, 12, 13, 3], [20, 3]]
    limits = [6, 4, 2, 0, 5]
    padded = tf.ragged.constant(sources, dtype=tf.int32).to_tensor()

    @tf.function(autograph=False, input_signature=(tf.TensorSpec((None, None), tf.int32), INTS))
    def translate(source_ids, limits):
        def step(ids, position, cache):
            return model.step(ids, position, cache, source_ids)

        return greedy_search(step, model.start_cache(source_ids, tf.reduce_max(limits)), limits, START, END)

    ids, scores = translate(padded, tf.constant(limits))
    for source, limit, got, score in zip(sources, limits, ids.numpy(), scores.numpy(), strict=True):
        # The reference knows no padding, no cache and no batch.
        tokens, log_probability = by_hand(functools.partial(next_logits, model, source), limit)
        assert got.tolist() == tokens + [0] * (len(got) - len(tokens))
        assert score == pytest.approx(log_probability, abs=1e-3)


def next_logits(model, source, tokens):
    """What a model makes of one sentence and its translation so far."""
    return model((np.array([source]), np.array([tokens]))).numpy()[0, -1]
