"""The searches in plain Python, one row and one hypothesis at a time, and a stand-in for a model to search with.

Rows, lists and floats are all there is here: no batch, no cache, no padding, nothing of the package.
"""

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

PAD, UNKNOWN, START, END = range(4)
ROWS, LONGEST, VOCABULARY, STATES = 90, 11, 7, 97


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def make_table():
    """Logits of the next token in each state of each row. Rows are flat or sharp, and close early or late.

    Padding is often the likeliest token, to tempt the search.
    """
    table = np.random.default_rng(0).standard_normal((ROWS, STATES, VOCABULARY))
    row = np.arange(ROWS)
    table[..., PAD] += 0.5
    table *= np.array([0.5, 1.5, 3.0])[row % 3][:, None, None]
    table[..., END] += np.array([-2.0, 0.0, 1.5])[row // 3 % 3][:, None]
    return table.astype("float32")


TABLE = make_table()
LOG_PROBABILITIES = log_softmax(TABLE)
# All tokens so far, the start token first, make the state: each by its own factor at each position.
FACTORS = np.random.default_rng(1).integers(1, STATES, LONGEST + 4).astype("int32")


def of_row(row):
    """The log-probabilities of the next token in a row of the table, as a function of the tokens so far."""

    def next_log_probabilities(tokens):
        state = sum(factor * token for factor, token in zip(FACTORS.tolist(), [START, *tokens], strict=False))
        return LOG_PROBABILITIES[row, state % STATES].tolist()

    return next_log_probabilities


class TableModel:
    """The table as a model. Which row each one is, and all tokens it was ever given, travel in its cache.

    A hypothesis's state is worked out from the tokens that its history picks, so that a wrong one shows.
    """

    def start_cache(self, rows, beams=1):
        rows = tf.convert_to_tensor(rows, "int32")
        # A graph's loop lets nothing grow whose length it knows.
        unknown_zero = tf.while_loop(lambda zero: zero < 0, lambda zero: (zero + 1,), (0,))[0]
        nothing = tf.zeros((tf.size(rows), unknown_zero), "int32")
        return {"row": rows, "tokens": nothing, "positions": nothing}

    def step(self, ids, position, cache, history):
        rows, beams = tf.size(cache["row"]), tf.shape(history)[1]
        tokens = tf.concat([cache["tokens"], tf.reshape(ids, (rows, beams))], axis=1)
        positions = tf.concat([cache["positions"], tf.fill((rows, beams), position)], axis=1)
        tf.debugging.assert_equal(tf.shape(history), [rows, beams, tf.shape(tokens)[1]])
        own = tf.broadcast_to(tf.eye(beams, dtype="bool"), (rows, beams, beams))
        tf.debugging.assert_equal(history[:, :, -beams:], own, "its own entry at this position")
        chosen = tf.cast(history, "int32")
        at = tf.one_hot(positions, position + 1, dtype="int32")  # (rows, entries, positions)
        tf.debugging.assert_equal(tf.linalg.matmul(chosen, at), 1, "one entry at each position")
        weighted = tokens * tf.gather(tf.constant(FACTORS), positions)
        states = tf.linalg.matvec(chosen, weighted) % STATES
        logits = tf.gather(tf.gather(tf.constant(TABLE), cache["row"]), states, batch_dims=1)
        return tf.reshape(logits, (-1, VOCABULARY)), {"row": cache["row"], "tokens": tokens, "positions": positions}

    def settle(self, cache, rows, entries):
        kept = {name: tf.gather(cache[name], rows) for name in cache}
        return {"row": kept["row"]} | {
            name: tf.gather(kept[name], entries, batch_dims=1) for name in ("tokens", "positions")
        }


class Beams:
    """Hypotheses that come and go: each step's go on from any of the step before, in any order, and from some twice.

    Keeps what each of them is: its own tokens so far, and which of the cache's entries they left.
    """

    def __init__(self, batch, beams, seed):
        self.random = np.random.default_rng(seed)
        self.tokens = np.full((batch, beams, 1), 2)
        self.entries = np.arange(beams)[None, :, None].repeat(batch, axis=0)

    @property
    def history(self):
        batch, beams, length = self.entries.shape
        return (self.entries[..., None] == np.arange(beams)).reshape(batch, beams, length * beams)

    def go_on(self):
        batch, beams, _ = self.tokens.shape
        parents = self.random.integers(0, beams, (batch, beams, 1))
        new = self.random.integers(1, 23, (batch, beams, 1))
        self.tokens = np.concatenate([np.take_along_axis(self.tokens, parents, axis=1), new], axis=2)
        own = np.arange(beams)[None, :, None].repeat(batch, axis=0)
        self.entries = np.concatenate([np.take_along_axis(self.entries, parents, axis=1), own], axis=2)


def check_hypotheses_when_settled(model, stepper, source, steps, beams):
    """Each step equals the whole of each hypothesis's own tokens, with the cache settled again and again.

    Only the entries are kept that something descends from, as many as the neediest row has.
    """
    cache, hypotheses = stepper.start_cache(source, beams), Beams(len(source), beams, seed=1)
    rows = np.arange(len(source), dtype="int32")
    kept = np.zeros((len(source), 0), int)  # which of all entries ever made the cache still has
    got, targets = [], []
    for position in range(steps):
        new = np.arange(position * beams, (position + 1) * beams)[None].repeat(len(source), axis=0)
        kept = np.concatenate([kept, new], axis=1)
        history = np.take_along_axis(hypotheses.history, kept[:, None], axis=2)
        logits, cache = stepper.step(hypotheses.tokens[:, :, -1].reshape(-1), position, cache, history)
        got.append(logits)
        targets.append(padded(hypotheses.tokens.reshape(-1, position + 1), steps))
        if position % 3 == 2:
            needed = history.any(axis=1)
            entries = np.argsort(~needed, axis=1, kind="stable")[:, : needed.sum(axis=1).max()].astype("int32")
            cache, kept = stepper.settle(cache, rows, entries), np.take_along_axis(kept, entries, axis=1)
        hypotheses.go_on()
    assert kept.shape[1] < steps * beams
    assert_those_of_whole_passes(model, got, source.repeat(beams, axis=0), targets)


def assert_those_of_whole_passes(model, got, source, targets):
    """Of each step's logits, against all whole passes as one batch, with padding behind each step's tokens."""
    steps = len(got)
    whole = model((np.tile(source, (steps, 1)), np.concatenate(targets))).numpy()
    whole = whole.reshape(steps, len(source), steps, -1)
    for position in range(steps):
        np.testing.assert_allclose(got[position], whole[position, :, position], rtol=0, atol=1e-5)


def whole_passes(model):
    """What a model makes of one sentence and its translation so far, with no padding, no cache and no batch."""
    ids = tf.TensorSpec((None,), tf.int32)
    logits = tf.function(lambda source, target: model((source[None], target[None]))[0, -1], input_signature=(ids, ids))
    return lambda source, tokens: log_softmax(logits(source, [START, *tokens])).tolist()


def allowed(position, size, min_length, prefix):
    """The tokens that may stand at a position."""
    if position < len(prefix):
        return [prefix[position]]
    return [token for token in range(1, size) if token != END or position + 1 >= min_length]


def greedy(next_log_probabilities, limit, min_length=1, prefix=()):
    """The tokens of one row and their log-probability."""
    tokens, total = [], 0.0
    while len(tokens) < limit and END not in tokens:
        log_probabilities = next_log_probabilities(tokens)
        choices = allowed(len(tokens), len(log_probabilities), min_length, prefix)
        best = max(choices, key=log_probabilities.__getitem__)
        tokens = [*tokens, best]
        total += log_probabilities[best]
    return tokens, total


def penalty(length, alpha, offset=5):
    return ((offset + length) / (offset + 1)) ** alpha


@dataclass
class Found:
    """A row's hypotheses, (score, tokens) with the best first, and after how many steps nothing could change them.

    `kept` are those that each step kept, (log-probability, tokens) with the likeliest first.
    """

    hypotheses: list
    steps: int
    kept: list


def beam(next_log_probabilities, limit, beam_size, alpha, wanted, min_length=1, prefix=(), offset=5):
    """Beam search that always goes on to the limit."""
    live, closed, steps, kept_at = [(0.0, [])] if limit else [], [], 0, []
    settled = not limit
    for length in range(1, limit + 1):
        steps += not settled
        continuations = []
        for total, tokens in live:
            log_probabilities = next_log_probabilities(tokens)
            for token in allowed(length - 1, len(log_probabilities), min_length, prefix):
                if log_probabilities[token] == -math.inf:
                    continue  # not possible
                continuations.append((total + log_probabilities[token], [*tokens, token]))
        kept = sorted(continuations, reverse=True)[:beam_size]
        kept_at.append(kept)
        closed += [(total / penalty(length, alpha, offset), tokens) for total, tokens in kept if tokens[-1] == END]
        live = [(total, tokens) for total, tokens in kept if tokens[-1] != END]
        closed.sort(reverse=True)
        # The best that any could become: closed at the limit by certain tokens, where the penalty helps it most.
        hope = max((total / penalty(limit, alpha, offset) for total, _ in live), default=-math.inf)
        settled = settled or (closed[wanted - 1][0] if len(closed) >= wanted else -math.inf) >= hope
    cut = [(total / penalty(limit, alpha, offset), tokens) for total, tokens in live]
    return Found((closed + cut)[:wanted], steps, kept_at)


def padded(rows, width):
    """Lists of tokens as one array, with padding behind them."""
    ids = np.zeros((len(rows), width), "int32")
    for row, tokens in zip(ids, rows, strict=True):
        row[: len(tokens)] = tokens
    return ids


def tokens_of(ids):
    """A row of ids as a list, its padding gone: there may be none but at the end."""
    tokens = [token for token in ids.tolist() if token != PAD]
    assert ids.tolist() == tokens + [PAD] * (len(ids) - len(tokens))
    return tokens
