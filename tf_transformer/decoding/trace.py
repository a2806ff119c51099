"""A record of a beam search: every hypothesis that it had, and what became of each."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from tf_transformer.decoding.candidates import IMPOSSIBLE, length_penalty, pick
from tf_transformer.decoding.rounds import Rows
from tf_transformer.layers.lean_ops import shape_of

# What becomes of a hypothesis. `beam_search` gives the places of these names.
FATES = (
    "",  # there is none at this place
    "continued",  # at least one of its continuations is among the next step's hypotheses
    "closed",  # its last token is the closing one
    "dropped",  # the next step has other hypotheses in the place of its continuations, since those are likelier
    "overtaken",  # the search stopped here, since this could no longer come before the finished hypotheses
    "cut",  # it has as many tokens as it may have, and the closing one is not among them
)
NONE, CONTINUED, CLOSED, DROPPED, OVERTAKEN, CUT = range(len(FATES))

TRACED = ("traced_tokens", "traced_parents", "traced_log_probs")


class Record(NamedTuple):
    """What a beam search kept of each step, each (rows, steps, beams): last tokens, parents and log-probabilities."""

    tokens: Any
    parents: Any
    log_probs: Any


class Trace(NamedTuple):
    """What `read_trace` makes of a record; all are (rows, steps, beams), the likeliest hypothesis of a step first.

    `tokens`, int32, are the hypotheses' last tokens, 0 where there is no hypothesis. `parents`, int32, are their
    places among the hypotheses of the step before, -1 at the first step. `log_probs`, float32, are those of all tokens
    so far, -inf where there is none. `scores`, float32, are these over the length penalty at this length, and `bounds`
    over that at the row's limit: the highest score that a hypothesis can still reach. `fates`, int32, are places in
    `FATES`. `wins`, bool, tells which became the best hypothesis, step by step.
    """

    tokens: Any
    parents: Any
    log_probs: Any
    scores: Any
    bounds: Any
    fates: Any
    wins: Any


def start_trace(batch: Any, steps: Any, beams: Any) -> Rows:
    """What a search keeps of each row for its record, before the first step."""
    empty = ops.zeros((batch, steps, beams), "int32")
    return dict(zip(TRACED, (empty, empty, ops.full((batch, steps, beams), IMPOSSIBLE, "float32")), strict=True))


def trace_step(rows: Rows, position: Any, tokens: Any, parents: Any, log_probs: Any) -> Rows:
    """Adds a step's hypotheses, each (rows, beams), to the record among the rows."""
    here = ops.equal(ops.arange(shape_of(rows[TRACED[0]])[1], dtype="int32"), position)[:, None]
    new = zip(TRACED, (tokens, parents, log_probs), strict=True)
    return {name: ops.where(here, ops.expand_dims(value, axis=1), rows[name]) for name, value in new}


def read_trace(record: Record, best: Any, limits: Any, end_id: int, alpha: Any, length_offset: float = 5.0) -> Trace:
    """Tells what became of each hypothesis of a search.

    Args:
        record: as `beam_search` returns it.
        best: int (rows, steps), the best hypothesis of each row, padded with 0.
        limits: int32 (rows,), the most tokens of each row.
        end_id: the closing token.
        alpha: strength of the length penalty.
        length_offset: see `length_penalty`.
    """
    tokens, parents, log_probs = record
    limits = ops.cast(limits, "int32")
    real = log_probs > IMPOSSIBLE
    tokens = ops.where(real, tokens, 0)
    batch, steps, beams = shape_of(tokens)
    number = ops.arange(steps, dtype="int32")
    parents = ops.where(ops.logical_and(real, number[:, None] > 0), parents, -1)

    # Which hypothesis of a step each one of the next step goes on from; behind the last step there is none.
    of_next = ops.concatenate([parents[:, 1:], ops.full((batch, ops.minimum(steps, 1), beams), -1, "int32")], axis=1)
    place = ops.arange(beams, dtype="int32")
    continued = ops.any(ops.equal(ops.expand_dims(of_next, axis=3), place), axis=2)
    last = ops.sum(ops.cast(ops.any(real, axis=2), "int32"), axis=1)[:, None, None]
    length = (number + 1)[:, None]
    open_at_end = ops.where(length >= limits[:, None, None], CUT, OVERTAKEN)
    fates = ops.where(continued, CONTINUED, ops.where(length < last, DROPPED, open_at_end))
    fates = ops.where(real, ops.where(ops.equal(tokens, end_id), CLOSED, fates), NONE)
    return Trace(
        tokens,
        parents,
        log_probs,
        log_probs / length_penalty(length, alpha, length_offset),
        log_probs / length_penalty(limits, alpha, length_offset)[:, None, None],
        ops.cast(fates, "int32"),
        _winners(tokens, parents, best),
    )


def _winners(tokens: Any, parents: Any, best: Any) -> Any:
    """Which hypotheses, (rows, steps, beams), have the tokens of the best one up to theirs: one of each step."""
    batch, steps, beams = shape_of(tokens)
    of_best = ops.logical_and(ops.equal(tokens, best[:, :, None]), ops.not_equal(tokens, 0))
    wins = ops.zeros((batch, steps, beams), "bool")

    def follow(step: Any, before: Any, wins: Any) -> tuple[Any, Any, Any]:
        came = ops.logical_or(ops.equal(step, 0), pick(before, ops.maximum(parents[:, step], 0)))
        now = ops.logical_and(of_best[:, step], came)
        here = ops.equal(ops.arange(steps, dtype="int32"), step)[:, None]
        return step + 1, now, ops.where(here, now[:, None], wins)

    start = ops.convert_to_tensor(0, "int32"), ops.zeros((batch, beams), "bool"), wins
    return ops.while_loop(lambda step, *_: step < steps, follow, start)[2]
