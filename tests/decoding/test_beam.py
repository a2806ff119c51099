"""Beam search against the same search in plain Python, and against a search through all there is."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from tests.decoding import by_hand
from tests.decoding.by_hand import END, LONGEST, ROWS, START, VOCABULARY, of_row, padded, tokens_of
from tf_transformer import Transformer
from tf_transformer.decoding import Stepper, beam_search, greedy_search, length_penalty

NOT_POSSIBLE = -float("inf")


def search(rows, limits, beam_size, alpha, wanted, min_length, prefix):
    model = by_hand.TableModel()
    cache = model.start_cache(rows, beam_size)
    return beam_search(model, cache, limits, START, END, beam_size, alpha, wanted, min_length, prefix)


INTS, INT, FLOAT = tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.int32), tf.TensorSpec((), tf.float32)
IDS = tf.TensorSpec((None, None), tf.int32)


@functools.cache
def compiled(function, *signature):
    return tf.function(function, autograph=False, input_signature=signature)


def in_a_graph(rows, limits, beam_size, alpha, wanted, min_length, prefix):
    """With no length, and no setting, known before it runs."""
    graph = compiled(search, INTS, INTS, INT, FLOAT, INT, INT, IDS)
    return graph(
        *(np.asarray(x, "int32") for x in (rows, limits, beam_size)), np.float32(alpha), wanted, min_length, prefix
    )


@functools.cache
def expected(row, limit, beam_size, alpha, wanted, min_length, prefix):
    return by_hand.beam(of_row(row), limit, beam_size, alpha, wanted, min_length, prefix)


def check(search, rows, limits, beam_size=4, alpha=0.6, wanted=1, min_length=1, prefixes=None):
    prefixes = [()] * len(rows) if prefixes is None else prefixes
    prefix = padded(prefixes, max(map(len, prefixes), default=0))
    rows, limits = np.array(rows, "int32"), np.array(limits, "int32")
    ids, scores = (x.numpy() for x in search(rows, limits, beam_size, alpha, wanted, min_length, prefix))
    assert ids.dtype == "int32" and scores.dtype == "float32"
    assert ids.shape == (len(rows), wanted, max([0, *limits])) and scores.shape == (len(rows), wanted)
    for row, limit, prefix, got, got_scores in zip(rows, limits, prefixes, ids, scores, strict=True):
        found = expected(int(row), int(limit), beam_size, alpha, wanted, min_length, prefix).hypotheses
        missing = wanted - len(found)
        assert [tokens_of(x) for x in got] == [tokens for _, tokens in found] + [[]] * missing
        np.testing.assert_allclose(got_scores, [score for score, _ in found] + [NOT_POSSIBLE] * missing, atol=1e-4)


BEAMS = [(1, 1, 1), (2, 1, 1), (2, 2, 3), (3, 1, 1), (4, 4, 1), (4, 2, 4), (5, 3, 1), (9, 9, 2)]


@pytest.mark.parametrize(
    ("beam_size", "wanted", "min_length", "alpha"),
    [
        # Each beam with one alpha; with the others it is thorough.
        pytest.param(*beam, alpha, marks=[] if place % 3 == number else pytest.mark.thorough)
        for place, beam in enumerate(BEAMS)
        for number, alpha in enumerate([0.6, 1.0, 0.0])
    ],
)
def test_it_finds_what_plain_python_finds(beam_size, wanted, min_length, alpha):
    """All rows in one batch, short and long limits among them; the other search never stops before the limit."""
    for shift in (0, 5):
        limits = [(row + shift) % (LONGEST + 1) for row in range(ROWS)]
        check(in_a_graph, range(ROWS), limits, beam_size, alpha, wanted, min_length)


@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_the_length_penalty_may_have_another_offset(offset):
    """With 0 it is a power of the length, as in MarianMT. Rows of limit 0 are empty, and their score is a number."""
    model, rows = by_hand.TableModel(), np.arange(0, ROWS, 3, dtype="int32")
    limits = (rows % 9).astype("int32")
    ids, scores = beam_search(model, model.start_cache(rows, 3), limits, START, END, 3, alpha=1.0, length_offset=offset)
    for row, limit, got, score in zip(rows, limits, ids.numpy()[:, 0], scores.numpy()[:, 0], strict=True):
        found = by_hand.beam(of_row(row), limit, 3, 1.0, 1, offset=offset).hypotheses
        best, tokens = found[0] if found else (NOT_POSSIBLE, [])
        assert tokens_of(got) == tokens
        np.testing.assert_allclose(score, best, atol=1e-4)


def test_the_table_is_a_test():
    """What the searches above must have met."""
    settings = (LONGEST, 4, 0.6, 2, 1, ())
    outcomes = [expected(row, *settings) for row in range(ROWS)]
    bests = [found.hypotheses[0][1] for found in outcomes]
    assert {1, 2, 4, 8} <= {len(tokens) for tokens in bests if tokens[-1] == END}
    assert any(tokens[-1] != END for tokens in bests)
    assert {2, 5, LONGEST} <= {found.steps for found in outcomes}
    # Closed ones that score below what was cut, closed ones before longer likelier ones, a greedy search that fails.
    lasts = [[(score, tokens[-1] == END) for score, tokens in found.hypotheses] for found in outcomes]
    assert any(a[1] and not b[1] and a[0] < b[0] for a, b in lasts)
    assert any(
        found.hypotheses != expected(row, LONGEST, 4, 0.0, 2, 1, ()).hypotheses for row, found in enumerate(outcomes)
    )
    assert sum(tokens != by_hand.greedy(of_row(row), LONGEST)[0] for row, tokens in enumerate(bests)) > ROWS / 4


class Counting(by_hand.TableModel):
    """Counts the rows of each of its steps."""

    def __init__(self):
        self.rows = tf.Variable(tf.zeros(LONGEST, "int32"))

    def step(self, ids, position, cache, history):
        self.rows.scatter_nd_add([[position]], [tf.shape(history)[0]])
        return super().step(ids, position, cache, history)


@pytest.fixture(scope="module")
def count():
    """Searches, and gives the number of rows in each step that was made."""
    model = Counting()

    @functools.partial(tf.function, autograph=False, input_signature=(INTS, INTS, INT, FLOAT, INT))
    def search(rows, limits, beam_size, alpha, wanted):
        return beam_search(model, model.start_cache(rows, beam_size), limits, START, END, beam_size, alpha, wanted)

    def count(*arguments):
        model.rows.assign(tf.zeros(LONGEST, "int32"))
        search(*arguments)
        return [rows for rows in model.rows.numpy().tolist() if rows]

    return count


@pytest.mark.parametrize(("beam_size", "alpha", "wanted"), [(1, 0.6, 1), (3, 0.6, 1), (3, 1.0, 2), (4, 0.0, 1)])
def test_it_stops_once_nothing_could_change(count, beam_size, alpha, wanted):
    for row in range(0, ROWS, 2):
        steps = expected(row, 9, beam_size, alpha, wanted, 1, ()).steps
        assert count([row], [9], beam_size, alpha, wanted) == [1] * steps


def test_rows_that_are_done_leave(count):
    ends = {row: expected(row, LONGEST, 2, 0.6, 1, 1, ()).steps for row in range(ROWS)}
    late, early = max(ends, key=ends.get), min(ends, key=ends.get)
    assert ends[late] == LONGEST and ends[early] < 3
    rows = count([early, late, late, late], [LONGEST, 0, LONGEST, 6], 2, 0.6, 1)
    assert len(rows) == LONGEST
    assert rows[0] == 3 and rows[-1] == 1
    assert sorted(rows, reverse=True) == rows


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, LONGEST)), max_size=6))
def test_a_row_s_outcome_is_its_own_in_any_batch(batch):
    """Any rows, in any order and company, each with its limit; 0 too, and no rows at all."""
    rows, limits = ([pair[i] for pair in batch] for i in range(2))
    check(in_a_graph, rows, limits, beam_size=3, wanted=2)


def test_eager_and_with_settings_that_are_known_beforehand():
    rows, limits, beam_size, alpha, wanted, min_length = range(0, ROWS, 4), [LONGEST] * 23, 3, 0.6, 2, 2
    check(search, rows, limits, beam_size, alpha, wanted, min_length)

    @functools.partial(tf.function, autograph=False)
    def static(rows, limits, prefix):
        return search(rows, limits, beam_size, alpha, wanted, min_length, prefix)

    def given(rows, limits, *settings):
        return static(rows, limits, settings[-1])

    check(given, rows, limits, beam_size, alpha, wanted, min_length)


def prefixes_of(rows):
    """Of 0 to 3 tokens that are no closing token, likely ones or not."""
    random = np.random.default_rng(3)
    return [tuple(random.choice([1, 2, 4, 5, 6], row % 4).tolist()) for row in rows]


@pytest.mark.parametrize(("beam_size", "wanted", "min_length"), [(1, 1, 1), (3, 2, 1), (4, 4, 5)])
def test_hypotheses_begin_with_the_prefix_and_go_on_as_is_best_then(beam_size, wanted, min_length):
    """The prefix's tokens count in the score; a limit below its length cuts it."""
    rows = range(ROWS)
    limits = [(7 * row) % (LONGEST + 1) for row in rows]
    check(in_a_graph, rows, limits, beam_size, 0.6, wanted, min_length, prefixes_of(rows))


def everything(next_log_probabilities, limit, alpha, min_length, prefix, size=VOCABULARY):
    """All hypotheses of a row, scores by tokens: those that close by the limit, and those that are cut at it."""
    closed, cut = {}, {}

    def visit(total, tokens):
        if tokens and tokens[-1] == END:
            closed[tuple(tokens)] = total / by_hand.penalty(len(tokens), alpha)
        elif len(tokens) == limit:
            cut[tuple(tokens)] = total / by_hand.penalty(limit, alpha)
        else:
            log_probabilities = next_log_probabilities(tokens)
            for token in by_hand.allowed(len(tokens), size, min_length, prefix):
                visit(total + log_probabilities[token], [*tokens, token])

    visit(0.0, [])
    return closed, cut


def check_all(ids, scores, closed, cut, wanted):
    """That a row's hypotheses are the best there are, in order, and that each has its own score."""
    best = sorted(closed.values(), reverse=True) + sorted(cut.values(), reverse=True)
    best = (best + [NOT_POSSIBLE] * wanted)[:wanted]
    np.testing.assert_allclose(scores, best, atol=2e-5)
    found = [(tuple(tokens_of(x)), score) for x, score in zip(ids, scores, strict=True) if score > NOT_POSSIBLE]
    assert len(dict(found)) == len(found)
    for tokens, score in found:
        assert score == pytest.approx((closed | cut)[tokens], abs=2e-5)


# Five tokens may follow one another and a sixth closes: 5^3 * 6 continuations at most by the fourth token.
WIDE_ENOUGH = 750


@pytest.mark.parametrize(
    ("alpha", "wanted", "min_length", "with_prefix"),
    [(0.0, 1, 1, False), (0.6, 1, 1, False), (0.6, 300, 1, False), (1.0, 40, 3, False), (0.6, 100, 1, True)],
)
def test_a_beam_that_holds_everything_finds_the_best_of_everything(alpha, wanted, min_length, with_prefix):
    rows, limits = [0, 4, 8, 1, 5, 6, 3], [4, 4, 4, 3, 2, 1, 0]
    prefixes = [(5,), (), (4, 6), (2, 5), (1,), (6,), ()] if with_prefix else [()] * 7
    ids, scores = in_a_graph(rows, limits, WIDE_ENOUGH, alpha, wanted, min_length, padded(prefixes, 2))
    for row, limit, prefix, got, got_scores in zip(rows, limits, prefixes, ids.numpy(), scores.numpy(), strict=True):
        closed, cut = everything(of_row(row), limit, alpha, min_length, prefix) if limit else ({}, {})
        check_all(got, got_scores, closed, cut, wanted)


@pytest.fixture(scope="module")
def model():
    model = Transformer(1, 16, 2, 24, 23, 6, max_length=24, share_embeddings="target")
    model.build(((None, None), (None, None)))
    return reference.randomise(model)


SOURCES = [[5, 9, 14, 22, 7, 3], [8, 17, 3], [3], [11, 12, 13, 3], [20, 3], [4, 4, 4, 4, 4, 4, 4, 4, 3]]


def translate(model):
    """Beam search over a Transformer with nothing known beforehand, as an export has it."""

    @functools.partial(tf.function, autograph=False, input_signature=(IDS, INTS, INT, FLOAT, INT))
    def translate(source_ids, limits, beam_size, alpha, wanted):
        stepper = Stepper(model)
        return beam_search(
            stepper, stepper.start_cache(source_ids, beam_size), limits, START, END, beam_size, alpha, wanted
        )

    return translate


@pytest.fixture(scope="module")
def translated(model):
    return translate(model)


@pytest.mark.parametrize(("alpha", "wanted"), [(0.6, 1), (0.6, 341), (1.0, 20)])
def test_a_transformer_s_best_of_everything(model, translated, alpha, wanted):
    """Its whole passes over all sequences of four tokens say what there is."""
    limit = 4
    sequences = np.array(list(itertools.product([1, 2, 3, 4, 5], repeat=limit)), "int32")
    targets = np.pad(sequences[:, :-1], ((0, 0), (1, 0)), constant_values=START)
    sources = SOURCES[:3]
    ids, scores = translated(padded(sources, 6), [limit] * len(sources), 320, alpha, wanted)
    for source, got, got_scores in zip(sources, ids.numpy(), scores.numpy(), strict=True):
        logits = model((np.repeat([source], len(targets), axis=0), targets))
        log_probabilities = by_hand.log_softmax(logits)
        after = {
            tuple(sequence[:length]): log_probabilities[i, length]
            for i, sequence in enumerate(sequences.tolist())
            for length in range(limit)
        }
        closed, cut = everything(lambda tokens, after=after: after[tuple(tokens)], limit, alpha, 1, (), size=6)
        check_all(got, got_scores, closed, cut, wanted)


def test_a_transformer_s_beams_are_those_of_its_whole_passes(model, translated):
    """Beams come and go here, over more steps than there are between two tidyings."""
    limits = [12, 9, 5, 0, 7, 12]
    next_log_probabilities = by_hand.whole_passes(model)
    ids, scores = translated(padded(SOURCES, 9), limits, 3, 0.6, 2)
    for source, limit, got, got_scores in zip(SOURCES, limits, ids.numpy(), scores.numpy(), strict=True):
        found = by_hand.beam(functools.partial(next_log_probabilities, source), limit, 3, 0.6, 2).hypotheses
        assert [tokens_of(x) for x in got] == ([tokens for _, tokens in found] or [[], []])
        np.testing.assert_allclose(got_scores, [score for score, _ in found] or [NOT_POSSIBLE] * 2, atol=1e-4)


def test_company_order_and_padding_change_nothing(translated):
    limits = np.array([12, 9, 5, 0, 7, 12], "int32")
    sources = padded(SOURCES, 9)
    ids, scores = translated(sources, limits, 4, 0.6, 3)

    def same(places, sources):
        got, got_scores = translated(sources, limits[places], 4, 0.6, 3)
        width = got.shape[2]
        np.testing.assert_array_equal(got, ids.numpy()[places][..., :width])
        np.testing.assert_allclose(got_scores, scores.numpy()[places], atol=1e-5)

    for i, source in enumerate(SOURCES):
        same([i], padded([source], len(source)))
    order = [3, 5, 0, 2, 4, 1]
    same(order, sources[order])
    same([1, 1, 4], np.pad(sources[[1, 1, 4]], ((0, 0), (0, 6))))
    same([], sources[:0])


def test_one_beam_is_greedy_search(model, translated):
    limits = [12, 9, 5, 0, 7, 12]
    stepper = Stepper(model)
    greedy_ids, log_probabilities = greedy_search(stepper, stepper.start_cache(padded(SOURCES, 9)), limits, START, END)
    ids, scores = translated(padded(SOURCES, 9), limits, 1, 0.6, 1)
    check_greedy(ids, scores, greedy_ids, log_probabilities, limits, 0.6)


def test_one_beam_is_greedy_search_in_the_table():
    rows, limits = range(ROWS), [row % (LONGEST + 1) for row in range(ROWS)]
    prefix = padded(prefixes_of(rows), 3)
    model = by_hand.TableModel()
    greedy_ids, log_probabilities = greedy_search(model, model.start_cache(rows), limits, START, END, 3, prefix)
    ids, scores = in_a_graph(rows, limits, 1, 1.0, 1, 3, prefix)
    check_greedy(ids, scores, greedy_ids, log_probabilities, limits, 1.0)


def check_greedy(ids, scores, greedy_ids, log_probabilities, limits, alpha):
    np.testing.assert_array_equal(ids[:, 0], greedy_ids)
    lengths = np.count_nonzero(greedy_ids, axis=1)
    wanted = log_probabilities / length_penalty(lengths, alpha)
    np.testing.assert_allclose(scores[:, 0], np.where(np.array(limits) > 0, wanted, NOT_POSSIBLE), rtol=1e-5)


def test_in_a_graph_that_knows_everything_beforehand(model, translated):
    """Constants tempt TensorFlow to work out lengths that the loops then outgrow."""
    sources, limits = padded(SOURCES, 9), [12, 9, 5, 0, 7, 12]

    @tf.function(autograph=False)
    def constant():
        stepper = Stepper(model)
        cache = stepper.start_cache(tf.constant(sources), 4)
        greedy = greedy_search(stepper, stepper.start_cache(tf.constant(sources)), limits, START, END)
        return beam_search(stepper, cache, limits, START, END), greedy

    (ids, scores), (greedy_ids, _) = constant()
    expected, expected_scores = translated(sources, limits, 4, 0.6, 1)
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)
    np.testing.assert_array_equal(greedy_ids, translated(sources, limits, 1, 0.6, 1)[0][:, 0])
