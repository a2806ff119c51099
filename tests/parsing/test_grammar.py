"""The grammar of trees against a list of all trees, and a search that keeps to it against one through them all."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import by_hand
from tests.decoding.by_hand import END, ROWS, START, of_row, penalty, tokens_of
from tf_transformer.decoding import beam_search
from tf_transformer.parsing.grammar import MAX_DEPTH, TreeGrammar

# Two labels and two tokens for words, of which the table of tests.decoding has one each.
OPEN, CLOSE, WORD = 4, 5, 6
OTHER_OPEN, OTHER_CLOSE = 7, 8
OTHER_WORD = 9
OPENS, CLOSES = [0, 0, 0, 0, 1, 0, 0, 2, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0, 2, 0]
WORDS = [token in (WORD, OTHER_WORD) for token in range(10)]


@functools.cache
def forests(words, tokens, labels):
    """All sequences of trees over so many words in so many tokens; a bare word is a tree too. Of so many labels and,
    to spare an argument, as many tokens for words."""
    if words == 0 or tokens == 0:
        return [()] if words == tokens == 0 else []
    found = []
    for first_words, first_tokens in itertools.product(range(1, words + 1), range(1, tokens + 1)):
        for first in nodes(first_words, first_tokens, labels):
            found += [first + rest for rest in forests(words - first_words, tokens - first_tokens, labels)]
    return found


@functools.cache
def nodes(words, tokens, labels):
    bare = [(WORD,), (OTHER_WORD,)] if words == tokens == 1 else []
    return bare[: len(labels)] + constituents(words, tokens, labels)


@functools.cache
def constituents(words, tokens, labels):
    return (
        [(opening, *inside, closing) for opening, closing in labels for inside in forests(words, tokens - 2, labels)]
        if tokens > 2
        else []
    )


def trees(words, limit, labels):
    """All trees over so many words of at most so many tokens, the closing one counted."""
    return {(*tree, END) for tokens in range(1, limit) for tree in constituents(words, tokens, labels)}


def written(words, limit):
    """All that the grammar lets through."""
    grammar = TreeGrammar(OPENS, CLOSES, WORDS, END, np.array([words]))
    found, begun, state = set(), [()], grammar.start(1)
    for room in range(limit, 0, -1):  # all of one length side by side, as hypotheses
        allowed = grammar.allowed(state, np.array([room])).numpy()[0]
        assert allowed.any(axis=1).all()
        found |= {(*begun[place], END) for place in np.flatnonzero(allowed[:, END])}
        allowed[:, END] = False
        places, tokens = np.nonzero(allowed)
        if not len(places):
            return found
        begun = [(*begun[place], token) for place, token in zip(places, tokens.tolist(), strict=True)]
        state = {name: np.take(each, places, axis=1) for name, each in state.items()}
        state = grammar.after(state, tokens[None])
    raise AssertionError(f"{begun} is not closed")


@pytest.mark.parametrize(("words", "limit"), [(1, 4), (1, 8), (2, 5), (2, 8), (3, 9)])
def test_it_lets_all_trees_through_and_nothing_else(words, limit):
    everything = trees(words, limit, ((OPEN, CLOSE), (OTHER_OPEN, OTHER_CLOSE)))
    assert len(everything) > 1
    assert written(words, limit) == everything


def test_no_more_constituents_open_than_it_can_remember():
    grammar = TreeGrammar(OPENS, CLOSES, WORDS, END, np.array([3]))
    state, room = grammar.start(1), 10 * MAX_DEPTH
    for depth in range(MAX_DEPTH):
        assert np.flatnonzero(grammar.allowed(state, np.array([room - depth]))).tolist()[0] == OPEN
        state = grammar.after(state, np.array([[OPEN if depth else OTHER_OPEN]]))
    assert np.flatnonzero(grammar.allowed(state, np.array([room]))).tolist() == [WORD, OTHER_WORD]
    for _ in range(3):
        state = grammar.after(state, np.array([[WORD]]))
    for depth in range(MAX_DEPTH, 0, -1):
        closing = CLOSE if depth > 1 else OTHER_CLOSE
        assert np.flatnonzero(grammar.allowed(state, np.array([room]))).tolist() == [closing]
        state = grammar.after(state, np.array([[closing]]))
    assert np.flatnonzero(grammar.allowed(state, np.array([room]))).tolist() == [END]


@tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.int32)] * 3 + [tf.TensorSpec([], tf.int32)])
def search(rows, words, limits, beam_size):
    model = by_hand.TableModel()
    grammar = TreeGrammar(OPENS[:7], CLOSES[:7], WORDS[:7], END, words)
    cache = model.start_cache(rows, beam_size)
    return beam_search(model, cache, limits, START, END, beam_size, grammar=grammar)


def log_probability(row, tokens):
    next_log_probabilities = of_row(row)
    return sum(next_log_probabilities(list(tokens[:at]))[token] for at, token in enumerate(tokens))


@pytest.mark.parametrize(("beam_size", "certain"), [(1, False), (4, False), (64, True)])
def test_a_search_writes_trees(beam_size, certain):
    """Of every row, in one batch; a beam as wide as there are trees finds the best of them."""
    words = np.arange(ROWS, dtype="int32") % 4
    limits = np.where(words, words + 3 + np.arange(ROWS) % 5, 0).astype("int32")
    ids, scores = (x.numpy() for x in search(np.arange(ROWS), words, limits, beam_size))
    for row, (count, limit) in enumerate(zip(words.tolist(), limits.tolist(), strict=True)):
        tokens = tuple(tokens_of(ids[row, 0]))
        if not count:
            assert tokens == ()
            continue
        every = {
            tree: log_probability(row, tree) / penalty(len(tree), 0.6) for tree in trees(count, limit, ((OPEN, CLOSE),))
        }
        assert tokens in every
        np.testing.assert_allclose(scores[row, 0], every[tokens], rtol=1e-4)
        if certain:
            assert every[tokens] == max(every.values())
