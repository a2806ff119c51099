"""The record of a beam search against the same search in plain Python, hypothesis by hypothesis."""

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import by_hand
from tests.decoding.by_hand import END, LONGEST, ROWS, START, of_row, padded, penalty
from tf_transformer.decoding import beam_search
from tf_transformer.decoding.trace import FATES, Trace, read_trace


@pytest.fixture(scope="module")
def traced():
    """Searches in a graph that knows no length and no setting before it runs."""
    ints, int_ = tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.int32)
    signature = ints, ints, int_, tf.TensorSpec((), tf.float32), int_, int_, tf.TensorSpec((None, None), tf.int32)

    @tf.function(autograph=False, input_signature=signature)
    def search(rows, limits, beam_size, alpha, wanted, min_length, prefix):
        model = by_hand.TableModel()
        cache = model.start_cache(rows, beam_size)
        ids, scores, record = beam_search(
            model, cache, limits, START, END, beam_size, alpha, wanted, min_length, prefix, trace=True
        )
        return ids, scores, read_trace(record, ids[:, 0], limits, END, alpha)

    def run(rows, limits, beam_size, alpha, wanted, min_length, prefixes):
        prefix = padded(prefixes, max(map(len, prefixes), default=0))
        rows, limits = np.asarray(rows, "int32"), np.asarray(limits, "int32")
        ids, scores, trace = search(rows, limits, beam_size, np.float32(alpha), wanted, min_length, prefix)
        return ids.numpy(), scores.numpy(), Trace(*(each.numpy() for each in trace))

    return run


def fate_of(found, step, tokens, limit):
    """What becomes of a hypothesis, told by the hypotheses of the next step."""
    if tokens[-1] == END:
        return "closed"
    if step + 1 < found.steps:
        return "continued" if any(after[:-1] == tokens for _, after in found.kept[step + 1]) else "dropped"
    return "cut" if len(tokens) == limit else "overtaken"


def check_row(trace, found, limit, alpha):
    """A row's record, (steps, beams) each, against what plain Python kept; gives the fates that it met."""
    best = found.hypotheses[0][1] if found.hypotheses else []
    met = set()
    for step in range(trace.tokens.shape[0]):
        kept = found.kept[step] if step < found.steps else []
        for place in range(trace.tokens.shape[1]):
            got = Trace(*(each[step, place] for each in trace))
            if place >= len(kept):
                assert (got.tokens, got.parents, FATES[got.fates], got.wins) == (0, -1, "", False)
                assert got.log_probs == -np.inf
                continue
            total, tokens = kept[place]
            before = [each for _, each in found.kept[step - 1]] if step else []
            assert got.tokens == tokens[-1]
            assert got.parents == (before.index(tokens[:-1]) if step else -1)
            assert got.log_probs == pytest.approx(total, abs=1e-4)
            assert got.scores == pytest.approx(total / penalty(step + 1, alpha), abs=1e-4)
            assert got.bounds == pytest.approx(total / penalty(limit, alpha), abs=1e-4)
            assert FATES[got.fates] == fate_of(found, step, tokens, limit)
            assert got.wins == (tokens == best[: step + 1])
            met.add(FATES[got.fates])
    return met


@pytest.mark.parametrize(
    ("beam_size", "alpha", "wanted", "min_length"),
    [(1, 0.6, 1, 1), (2, 0.0, 1, 1), (3, 0.6, 3, 1), (4, 0.6, 1, 3), (4, 1.0, 2, 1), (9, 0.6, 9, 2)],
)
@pytest.mark.parametrize("with_prefix", [False, True], ids=["free", "prefix"])
def test_every_hypothesis_is_the_one_that_plain_python_had(traced, beam_size, alpha, wanted, min_length, with_prefix):
    """All rows in one batch, of many limits: they leave at different steps."""
    limits = [(row + 5) % (LONGEST + 1) for row in range(ROWS)]
    prefixes = [(4, 6, 1)[: row % 4 if with_prefix and limits[row] > 3 else 0] for row in range(ROWS)]
    _, _, trace = traced(range(ROWS), limits, beam_size, alpha, wanted, min_length, prefixes)
    assert trace.tokens.shape == (ROWS, LONGEST, beam_size)
    met = set()
    for row, (limit, prefix) in enumerate(zip(limits, prefixes, strict=True)):
        found = by_hand.beam(of_row(row), limit, beam_size, alpha, wanted, min_length, prefix)
        met |= check_row(Trace(*(each[row] for each in trace)), found, limit, alpha)
    assert met >= {"continued", "closed", "overtaken", "cut"} - ({"overtaken"} if beam_size == 1 else set())
    assert ("dropped" in met) == (beam_size > 1)


def test_the_record_changes_nothing(traced):
    rows, limits = np.arange(ROWS, dtype="int32"), np.full(ROWS, LONGEST, "int32")
    ids, scores, trace = traced(rows, limits, 4, 0.6, 2, 1, [()] * ROWS)
    model = by_hand.TableModel()
    plain_ids, plain_scores = beam_search(model, model.start_cache(rows, 4), limits, START, END, 4, 0.6, 2)
    np.testing.assert_array_equal(ids, plain_ids)
    np.testing.assert_allclose(scores, plain_scores, rtol=1e-6)
    # The hypotheses that win, one after the other, are the best one.
    tokens = np.where(trace.wins, trace.tokens, 0).sum(axis=2)
    np.testing.assert_array_equal(tokens, ids[:, 0])


def test_no_row_and_no_room(traced):
    ids, _, trace = traced([], [], 3, 0.6, 1, 1, [])
    assert ids.shape == (0, 1, 0) and trace.tokens.shape == (0, 0, 3)
    _, _, trace = traced([1, 2], [0, 0], 3, 0.6, 1, 1, [(), ()])
    assert trace.fates.shape == (2, 0, 3)
