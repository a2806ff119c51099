"""Greedy search against the same search in plain Python, a row and a token at a time."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.decoding import by_hand
from tests.decoding.by_hand import END, LONGEST, ROWS, START, TABLE, VOCABULARY, of_row, padded, tokens_of
from tf_transformer import Transformer
from tf_transformer.decoding import Stepper, greedy_search


@functools.cache
def expected(row, limit, min_length=1, prefix=()):
    return by_hand.greedy(of_row(row), limit, min_length, prefix)


def search(rows, limits, min_length=1, prefix=None):
    model = by_hand.TableModel()
    return greedy_search(model, model.start_cache(rows), limits, START, END, min_length, prefix)


INTS, IDS = tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None, None), tf.int32)
search_in_a_graph = tf.function(search, autograph=False, input_signature=(INTS, INTS, tf.TensorSpec((), tf.int32), IDS))


def check(search, batch, min_length=1, prefixes=None):
    prefixes = [()] * len(batch) if prefixes is None else prefixes
    prefix = padded(prefixes, max(map(len, prefixes), default=0))
    rows, limits = (np.array([pair[i] for pair in batch], "int32") for i in range(2))
    ids, scores = (tensor.numpy() for tensor in search(rows, limits, min_length, prefix))
    assert ids.dtype == "int32" and scores.dtype == "float32"
    assert ids.shape == (len(batch), max([0, *limits])) and scores.shape == (len(batch),)
    for got, score, row, limit, prefix in zip(ids, scores, rows, limits, prefixes, strict=True):
        tokens, log_probability = expected(int(row), int(limit), min_length, prefix)
        assert tokens_of(got) == tokens
        assert score == pytest.approx(log_probability, abs=1e-4)


def test_the_table_is_a_test():
    """Rows close early, late and not at all, and padding would have been chosen."""
    outcomes = [expected(row, LONGEST)[0] for row in range(ROWS)]
    closed = {len(tokens) for tokens in outcomes if END in tokens}
    assert {1, 2, 5, 6} <= closed and any(END not in tokens for tokens in outcomes)
    assert (TABLE.argmax(axis=-1) == 0).mean() > 0.1


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, LONGEST)), max_size=6))
def test_each_row_is_as_by_hand_in_any_batch(batch):
    """Any rows, in any order and company, each with its limit; 0 too, and no rows at all."""
    check(search_in_a_graph, batch)


@pytest.mark.parametrize("search", [search, search_in_a_graph], ids=["eager", "graph"])
def test_all_rows_at_once(search):
    check(search, [(row, LONGEST) for row in range(ROWS)])
    check(search, [(row, row % (LONGEST + 1)) for row in range(ROWS)])


@pytest.mark.parametrize("min_length", [2, 5, LONGEST + 1])
def test_nothing_closes_before_the_minimum(min_length):
    batch = [(row, LONGEST - row % 3) for row in range(ROWS)]
    assert any(len(expected(*pair)[0]) < min_length for pair in batch)
    check(search_in_a_graph, batch, min_length)


@pytest.mark.parametrize("min_length", [1, 4])
def test_an_output_begins_with_its_prefix(min_length):
    """Which counts in its log-probability, and is cut at the limit; each row has its own."""
    random = np.random.default_rng(0)
    batch = [(row, row % 5 if row % 4 == 0 else LONGEST) for row in range(ROWS)]
    prefixes = [tuple(random.choice([1, 2, 4, 5, 6], row % 6).tolist()) for row in range(ROWS)]
    check(search_in_a_graph, batch, min_length, prefixes)
    # Further padding behind the prefixes says nothing.
    ids, scores = search_in_a_graph(*np.transpose(batch), min_length, padded(prefixes, 5))
    wider_ids, wider_scores = search_in_a_graph(*np.transpose(batch), min_length, padded(prefixes, 14))
    np.testing.assert_array_equal(ids, wider_ids)
    np.testing.assert_array_equal(scores, wider_scores)


class Script:
    """Closes each of its rows at a step of its own, and writes down what it is asked."""

    def __init__(self, closing):
        self.closing = np.array(closing)
        self.calls = []

    def start_cache(self):
        return {"row": tf.range(len(self.closing))}

    def step(self, ids, position, cache, history):
        rows = cache["row"].numpy()
        self.calls.append((int(position), rows.tolist(), ids.numpy().tolist()))
        assert history.shape == (len(rows), 1, position + 1) and history.numpy().all()
        tokens = np.where(self.closing[rows] == position + 1, END, 5)
        return tf.one_hot(tokens, VOCABULARY), cache

    def settle(self, cache, rows, entries):
        assert (entries.numpy() == np.arange(entries.shape[1])).all()  # there is no other hypothesis's to drop
        return {"row": tf.gather(cache["row"], rows)}


@pytest.mark.parametrize("limits, steps", [([3, 5], 5), ([9, 9], 6), ([9, 0], 4), ([0, 0], 0), ([1, 2], 2)])
def test_it_stops_when_all_rows_have(limits, steps):
    """The first row closes at its 4th step, the second at its 6th."""
    script = Script([4, 6])
    ids, _ = greedy_search(script, script.start_cache(), limits, START, END)
    assert [position for position, *_ in script.calls] == list(range(steps))
    assert ids.shape == (2, max(limits))


def test_rows_that_are_done_leave_and_those_that_are_left_go_on_as_themselves():
    script = Script([2, 30, 1, 7, 3, 30])
    ids, _ = greedy_search(script, script.start_cache(), [40, 14, 40, 40, 0, 40], START, END)
    assert [tokens_of(x) for x in ids.numpy()] == [
        [5, END],
        [5] * 14,
        [END],
        [5] * 6 + [END],
        [],
        [5] * 29 + [END],
    ]
    rows_at = {position: rows for position, rows, _ in script.calls}
    assert list(rows_at) == list(range(30))
    # Not at once, but soon; what never had anything to say not for a step.
    assert rows_at[0] == [0, 1, 2, 3, 5]
    assert rows_at[6] == [1, 3, 5]
    assert rows_at[12] == [1, 5]
    assert rows_at[20] == rows_at[29] == [5]
    assert script.calls[0][2] == [START] * 5 and script.calls[20][2] == [5]


def test_the_score_does_not_count_what_padding_would_have_got():
    """The likeliest real token's probability stays what the model gave it."""

    class Always:
        def step(self, ids, position, cache, history):
            return tf.math.log([[0.5, 0.1, 0.1, 0.3]]), cache

        def settle(self, cache, rows, entries):
            return cache

    ids, scores = greedy_search(Always(), {}, [5], START, END)
    assert ids.numpy().tolist() == [[END, 0, 0, 0, 0]]
    assert float(scores[0]) == pytest.approx(np.log(0.3), rel=1e-6)


@pytest.fixture(scope="module")
def model():
    model = Transformer(1, 16, 2, 24, 23, 23, max_length=16, share_embeddings="target")
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


def test_a_transformer_s_steps_find_what_its_whole_passes_find(model):
    sources = [[5, 9, 14, 22, 7, 3], [8, 17, 3], [3], [11, 12, 13, 3], [20, 3]]
    limits = [11, 4, 2, 0, 9]

    @tf.function(autograph=False, input_signature=(IDS, INTS))
    def translate(source_ids, limits):
        stepper = Stepper(model)
        return greedy_search(stepper, stepper.start_cache(source_ids), limits, START, END)

    ids, scores = translate(padded(sources, 6), limits)
    next_log_probabilities = by_hand.whole_passes(model)
    for source, limit, got, score in zip(sources, limits, ids.numpy(), scores.numpy(), strict=True):
        tokens, log_probability = by_hand.greedy(functools.partial(next_log_probabilities, source), limit)
        assert tokens_of(got) == tokens
        assert score == pytest.approx(log_probability, abs=1e-4)

    order = [4, 1, 2, 0, 0, 3]
    again, again_scores = translate(np.pad(padded(sources, 6)[order], ((0, 0), (0, 5))), np.array(limits)[order])
    np.testing.assert_array_equal(again, ids.numpy()[order])
    np.testing.assert_allclose(again_scores, scores.numpy()[order], atol=1e-4)
