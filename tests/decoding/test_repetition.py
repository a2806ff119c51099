"""No n-gram twice: against a plain search that looks at every hypothesis's n-grams."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding import by_hand
from tests.decoding.by_hand import END, LONGEST, ROWS, START, VOCABULARY, of_row, tokens_of
from tests.decoding.test_fixed_memory import FixedTable
from tf_transformer.decoding import RandomSampler, beam_search, greedy_search, row_keys, sample
from tf_transformer.decoding.repetition import ends_of_repeats

# Less likely to close than the table's own, so that hypotheses are long enough to repeat something.
LIMITS = [LONGEST - row % 3 for row in range(ROWS)]


def ngrams(tokens, size):
    return [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]


def repeats(tokens, size):
    found = ngrams(tokens, size)
    return len(set(found)) < len(found)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(1, 3), max_size=12), st.integers(1, 5), st.integers(0, 3))
def test_the_ends_of_repeats_are_those_that_would_repeat(tokens, size, behind):
    padded = np.array([[*tokens, *[2] * behind]], "int32")  # what stands behind the position is not read
    found = set(ends_of_repeats(padded, len(tokens), size).numpy().reshape(-1).tolist()) - {0}
    already = set(ngrams(tokens, size))
    assert found == {
        token for token in range(1, 5) if len(tokens) >= size and (*tokens[len(tokens) - size + 1 :], token) in already
    }


def without(next_log_probabilities, size):
    """The same with nothing that would repeat an n-gram."""

    def among(tokens):
        allowed = next_log_probabilities(tokens)
        return [-math.inf if repeats([*tokens, token], size) else each for token, each in enumerate(allowed)]

    return among


@functools.cache
def expected(row, size, beam_size):
    return by_hand.beam(without(of_row(row), size), LIMITS[row], beam_size, 0.6, 2).hypotheses


def test_the_table_is_a_test():
    """Without the limit, searches repeat."""
    plain = [by_hand.beam(of_row(row), LIMITS[row], 4, 0.6, 1).hypotheses[0][1] for row in range(ROWS)]
    assert sum(repeats(tokens, 2) for tokens in plain) > 10
    assert sum(repeats(tokens, 3) for tokens in plain) > 1


@functools.cache
def searching(fixed):
    """A search of all rows, which is traced once for sizes that are tensors."""
    model, steps = (FixedTable(), LONGEST) if fixed else (by_hand.TableModel(), None)
    more = () if steps is None else (steps,)

    @functools.partial(tf.function, autograph=False, jit_compile=fixed)
    def search(size):
        cache = model.start_cache(list(range(ROWS)), 4, *more)
        return beam_search(model, cache, LIMITS, START, END, 4, 0.6, 2, steps=steps, no_repeat_ngram_size=size)

    return search


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        *(("option is a tensor", size) for size in (1, 2, 3)),
        *((kind, 2) for kind in ("growing", "fixed and compiled")),
        *(
            pytest.param(kind, size, marks=pytest.mark.thorough)
            for kind in ("growing", "fixed and compiled")
            for size in (1, 3)
        ),
    ],
)
def test_beam_search_finds_what_plain_python_finds(kind, size):
    given = tf.constant(size) if kind == "option is a tensor" else size
    ids, scores, *_ = (output.numpy() for output in searching(kind == "fixed and compiled")(given))
    for row in range(ROWS):
        found = expected(row, size, 4)
        assert [tokens_of(each) for each in ids[row][: len(found)]] == [tokens for _, tokens in found]
        np.testing.assert_allclose(scores[row][: len(found)], [score for score, _ in found], atol=1e-4)
        assert not ids[row][len(found) :].any() and (scores[row][len(found) :] == -np.inf).all()


@pytest.mark.parametrize("size", [2, 3])
def test_greedy_search_finds_what_plain_python_finds(size):
    model = by_hand.TableModel()
    cache = model.start_cache(list(range(ROWS)), 1)
    ids, log_probs = greedy_search(model, cache, LIMITS, START, END, no_repeat_ngram_size=size)
    for row in range(ROWS):
        tokens, log_probability = by_hand.greedy(without(of_row(row), size), LIMITS[row])
        assert tokens_of(ids.numpy()[row]) == tokens
        assert log_probs.numpy()[row] == pytest.approx(log_probability, abs=1e-4)


def test_samples_have_no_repeats():
    def drawn(size):
        model, rows = by_hand.TableModel(), list(range(ROWS))
        keys = row_keys(np.array(rows)[:, None] + 1)
        arguments = LIMITS, START, END, RandomSampler(), keys, VOCABULARY
        ids, _ = sample(model, model.start_cache(rows, 1), *arguments, no_repeat_ngram_size=size)
        return [tokens_of(each) for each in ids.numpy()]

    assert sum(repeats(tokens, 2) for tokens in drawn(0)) > 20
    assert not any(repeats(tokens, 2) for tokens in drawn(2))


def test_no_limit_is_no_limit():
    """0, known beforehand or not, changes nothing to the last bit."""
    model = by_hand.TableModel()

    @functools.partial(tf.function, autograph=False)
    def search(size):
        cache = model.start_cache(list(range(ROWS)), 3)
        return beam_search(model, cache, LIMITS, START, END, 3, 0.6, no_repeat_ngram_size=size)

    for known, unknown in zip(search(0), search(tf.constant(0)), strict=True):
        np.testing.assert_array_equal(known, unknown)


def test_a_prefix_may_repeat():
    """What is forced stands there, whatever it repeats; what comes behind it repeats nothing of it."""
    model, prefix = by_hand.TableModel(), [[4, 5, 4, 5]] * ROWS
    cache = model.start_cache(list(range(ROWS)), 1)
    ids, _ = greedy_search(model, cache, LIMITS, START, END, 6, prefix, no_repeat_ngram_size=2)
    for row, found in enumerate(ids.numpy()):
        tokens = tokens_of(found)
        assert tokens[:4] == [4, 5, 4, 5]
        assert not repeats([5, *tokens[4:]], 2) and (5, 4) not in ngrams(tokens[3:], 2), row
