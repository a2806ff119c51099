"""Searches in memory of a fixed size, compiled by XLA, against plain Python and against the model's own logits."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.decoding import by_hand
from tests.decoding.by_hand import END, FACTORS, LONGEST, ROWS, START, STATES, TABLE, of_row, tokens_of
from tf_transformer import RecurrentModel, Transformer
from tf_transformer.decoding import beam_search, greedy_search, history, rounds

SOURCE = np.array([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [3, 0, 0, 0, 0]], "int32")


class FixedTable:
    """The table as a model whose cache has a place for every entry from the start: its token times its factor."""

    def start_cache(self, rows, beams, steps):
        rows = tf.convert_to_tensor(rows, "int32")
        return {"row": rows, "weighted": tf.zeros((tf.size(rows), entries_of(steps, beams)), "int32")}

    def step(self, ids, position, cache, history):
        rows, beams, entries = history.shape
        first = entries - rounds.FIXED_ROUND * beams + position % rounds.FIXED_ROUND * beams
        place = tf.range(entries) - first
        new = tf.gather(tf.reshape(ids, (rows, beams)), tf.clip_by_value(place, 0, beams - 1), axis=1)
        now = (place >= 0) & (place < beams)
        weighted = tf.where(now, new * tf.constant(FACTORS)[position], cache["weighted"])
        # What is not written yet nobody descends from.
        states = tf.reduce_sum(tf.cast(history, "int32") * weighted[:, None], axis=2) % STATES
        logits = tf.gather(tf.gather(tf.constant(TABLE), cache["row"]), states, batch_dims=1)
        return tf.reshape(logits, (rows * beams, -1)), {**cache, "weighted": weighted}

    def settle(self, cache, rows, entries):
        assert rows is None
        kept = tf.gather(cache["weighted"], entries, batch_dims=1)
        places = cache["weighted"].shape[1] - entries.shape[1]
        junk = tf.fill((kept.shape[0], places), 12345)  # a round's entries are written again
        return {**cache, "weighted": tf.concat([kept, junk], axis=1)}


def entries_of(steps, beams):
    return rounds.settled_room(steps, beams) + rounds.FIXED_ROUND * beams


@functools.cache
def expected(row, limit, beam_size, alpha, wanted):
    return by_hand.beam(of_row(row), limit, beam_size, alpha, wanted, 1, ())


def compiled(function):
    return tf.function(function, jit_compile=True, autograph=False)


@pytest.mark.parametrize(
    ("beam_size", "wanted", "alpha"),
    [
        pytest.param(2, 1, 0.0, marks=pytest.mark.thorough),
        pytest.param(4, 1, 0.6, marks=pytest.mark.thorough),
        pytest.param(4, 4, 1.0, marks=pytest.mark.thorough),
        (5, 3, 0.6),
    ],
)
def test_beam_search_finds_what_plain_python_finds(beam_size, wanted, alpha):
    model, rows = FixedTable(), list(range(ROWS))
    limits = [row % (LONGEST + 1) for row in rows]

    @compiled
    def search():
        cache = model.start_cache(rows, beam_size, LONGEST)
        return beam_search(model, cache, limits, START, END, beam_size, alpha, wanted, steps=LONGEST)

    ids, scores, done = (output.numpy() for output in search())
    assert done.all()
    for row, limit in zip(rows, limits, strict=True):
        found = expected(row, limit, beam_size, alpha, wanted).hypotheses
        assert [tokens_of(each) for each in ids[row][: len(found)]] == [tokens for _, tokens in found]
        np.testing.assert_allclose(scores[row][: len(found)], [score for score, _ in found], atol=1e-4)
        assert not ids[row][len(found) :].any() and (scores[row][len(found) :] == -np.inf).all()


def test_greedy_search_finds_what_plain_python_finds():
    model, rows = FixedTable(), list(range(ROWS))
    limits = [(row + 5) % (LONGEST + 1) for row in rows]

    @compiled
    def search():
        cache = model.start_cache(rows, 1, LONGEST)
        return greedy_search(model, cache, limits, START, END, steps=LONGEST)

    ids, scores, done = (output.numpy() for output in search())
    assert done.all()
    for row, limit in zip(rows, limits, strict=True):
        tokens, log_probability = by_hand.greedy(of_row(row), limit)
        assert tokens_of(ids[row]) == tokens
        assert scores[row] == pytest.approx(log_probability, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_it_tells_which_rows_needed_more_steps(beam_size):
    """The others are as they would be with room for all; a limit counts as it is, not as far as there is room."""
    model, rows, room = FixedTable(), list(range(ROWS)), 4

    @compiled
    def search(steps):
        cache = model.start_cache(rows, beam_size, steps)
        limits = [LONGEST] * ROWS
        if beam_size == 1:
            return greedy_search(model, cache, limits, START, END, steps=steps)
        return beam_search(model, cache, limits, START, END, beam_size, 0.6, steps=steps)

    ids, scores, done = (output.numpy() for output in search(room))
    assert 10 < done.sum() < ROWS - 10
    for row in rows:
        if beam_size == 1:
            tokens, score = by_hand.greedy(of_row(row), LONGEST)
            assert done[row] == (len(tokens) <= room)
        else:
            ((score, tokens),) = expected(row, LONGEST, beam_size, 0.6, 1).hypotheses
        if done[row]:
            assert tokens_of(ids[row].reshape(-1)) == tokens
            assert scores[row].item() == pytest.approx(score, abs=1e-4)


def test_a_row_that_needs_more_entries_is_told(monkeypatch):
    """Hypotheses that have had little in common need an entry each at a position; the other rows are as ever."""
    for module in history, rounds:
        monkeypatch.setattr(module, "FIXED_ROUND", 4)
        monkeypatch.setattr(module, "settled_room", lambda steps, beams: 11)
    model, rows = FixedTable(), list(range(ROWS))

    @compiled
    def search():
        cache = model.start_cache(rows, 4, LONGEST)
        return beam_search(model, cache, [LONGEST] * ROWS, START, END, 4, 0.6, steps=LONGEST)

    ids, scores, done = (output.numpy() for output in search())
    assert 10 < done.sum() < ROWS - 10
    for row in np.flatnonzero(done):
        ((score, tokens),) = expected(row, LONGEST, 4, 0.6, 1).hypotheses
        assert tokens_of(ids[row].reshape(-1)) == tokens
        assert scores[row].item() == pytest.approx(score, abs=1e-4)


MODELS = {
    "post-norm": lambda: Transformer(2, 16, 4, 32, 23, 23, share_embeddings="all", max_length=32),
    "pre-norm": lambda: Transformer(1, 16, 4, 32, 23, 19, norm_first=True, key_dim=3, value_dim=5, max_length=32),
    "recurrent": lambda: RecurrentModel(1, 16, 23, 23, max_length=32),
}


@pytest.fixture(scope="module", params=MODELS, ids=str)
def model(request):
    model = MODELS[request.param]()
    model.build(((None, None), (None, None)))
    return model


def test_each_hypothesis_s_steps_equal_the_whole_of_its_own_tokens(model):
    """Hypotheses come and go, and no step disturbs the entries of the others, nor does a round's end."""
    steps, beams = 19, 3
    stepper = model.stepper()
    hypotheses = by_hand.Beams(len(SOURCE), beams, seed=4)
    cache = stepper.start_cache(SOURCE, beams, steps)
    room = rounds.settled_room(steps, beams)
    got, targets = [], []
    kept = np.full((len(SOURCE), room), -1)  # which of all entries ever made the settled places hold
    for position in range(steps):
        place = position % rounds.FIXED_ROUND
        if position and not place:
            made = np.arange(position - rounds.FIXED_ROUND, position)[:, None] * beams + np.arange(beams)
            kept = np.concatenate([kept, made.reshape(1, -1).repeat(len(SOURCE), axis=0)], axis=1)
            needed = np.take_along_axis(hypotheses.history, np.maximum(kept, 0)[:, None], axis=2).any(axis=1)
            needed &= kept >= 0
            assert (needed.sum(axis=1) <= room).all()
            entries = np.argsort(~needed, axis=1, kind="stable")[:, :room].astype("int32")
            cache = stepper.settle(cache, None, entries)
            kept = np.where(np.take_along_axis(needed, entries, axis=1), np.take_along_axis(kept, entries, axis=1), -1)
        made = np.arange(position - place, position + 1)[:, None] * beams + np.arange(beams)
        there = np.concatenate([kept, made.reshape(1, -1).repeat(len(SOURCE), axis=0)], axis=1)
        history = np.take_along_axis(hypotheses.history, np.maximum(there, 0)[:, None], axis=2) & (there >= 0)[:, None]
        history = np.pad(history, [(0, 0), (0, 0), (0, room + rounds.FIXED_ROUND * beams - history.shape[2])])
        tokens = np.minimum(hypotheses.tokens, 18)
        logits, cache = stepper.step(tokens[:, :, -1].reshape(-1), position, cache, history)
        got.append(logits)
        targets.append(by_hand.padded(tokens.reshape(-1, position + 1), steps))
        hypotheses.go_on()
    by_hand.assert_those_of_whole_passes(model, got, SOURCE.repeat(beams, axis=0), targets)


def test_what_is_worked_out_from_the_weights_can_be_held(model):
    """It takes the place of what a stepper works out, all of it: of another model it gives that one's logits."""
    other = model.__class__.from_config(model.get_config())
    other.build(((None, None), (None, None)))
    stepper, borrowed = model.stepper(), other.stepper()
    assert stepper.derived and len(stepper.derived) == len(borrowed.derived)
    seen, ids = np.ones((len(SOURCE), 1, 1), bool), np.full(len(SOURCE), 2)
    before, _ = stepper.step(ids, 0, stepper.start_cache(SOURCE), seen)
    own, stepper.derived = stepper.derived, borrowed.derived
    changed, _ = stepper.step(ids, 0, stepper.start_cache(SOURCE), seen)
    assert np.abs(changed - before).max() > 1e-5
    stepper.derived = own
    again, _ = stepper.step(ids, 0, stepper.start_cache(SOURCE), seen)
    np.testing.assert_array_equal(again, before)
