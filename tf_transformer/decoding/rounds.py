"""What all searches share: the loop over positions, and what they ask of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from keras import ops, tree

# The tensors of a search by name, the first axis of each one row for each sentence.
Rows = dict[str, Any]

# Steps between two tidyings. Fewer would copy the cache more often, more would carry finished rows along.
ROUND = 4


class StepModel(Protocol):
    """What a search asks of a model; a `Transformer` is one."""

    def step(self, ids: Any, position: Any, cache: Any, history: Any) -> tuple[Any, Any]:
        """Maps the tokens at a position, int (rows * beams,), to logits (rows * beams, vocabulary) and a new cache.

        `history`, bool (rows, beams, position + 1, beams), tells which entries of the cache, one for each beam at each
        position so far, each hypothesis descends from.
        """
        ...


def run_rounds(
    advance: Callable[[Any, Rows], Rows],
    rows: Rows,
    beams: Any,
    outcome: tuple[str, ...],
) -> Rows:
    """Advances all rows, one position after the other, until each is done.

    Every few steps the rows that are done leave, so that a step costs what its unfinished rows cost.

    Args:
        advance: one step of the search; it maps a position, scalar int, and the rows to the rows after it.
        rows: what the search keeps of each row; "limits", int (rows,), and "done", bool (rows,), are among it.
        beams: hypotheses a row.
        outcome: names of what is wanted of the rows.

    Returns:
        These, for all rows as they were when they were done.
    """
    batch = ops.shape(rows["done"])[0]
    wanted = {name: rows[name] for name in outcome}
    history = ops.zeros((batch, beams, unknown_zero(rows["limits"]), beams), "bool")
    rows = {**rows, "row": ops.arange(batch, dtype="int32"), "history": history}

    def tidy(rows: Rows) -> Rows:
        (unfinished,) = ops.nonzero(ops.logical_not(rows["done"]))
        return tree.map_structure(lambda tensor: ops.take(tensor, unfinished, axis=0), rows)

    def unfinished(position: Any, rows: Rows, *_: Any) -> Any:
        return ops.logical_not(ops.all(rows["done"]))

    def one_step(position: Any, rows: Rows) -> tuple[Any, Rows]:
        return position + 1, advance(position, rows)

    def one_round(position: Any, rows: Rows, wanted: Rows) -> tuple[Any, Rows, Rows]:
        end = position + ROUND
        position, rows = ops.while_loop(
            lambda position, rows: ops.logical_and(position < end, unfinished(position, rows)),
            one_step,
            (position, rows),
        )
        places = ops.expand_dims(rows["row"], axis=1)
        wanted = {name: ops.scatter_update(wanted[name], places, rows[name]) for name in outcome}
        return position, tidy(rows), wanted

    position = ops.convert_to_tensor(0, "int32")
    *_, wanted = ops.while_loop(unfinished, one_round, (position, tidy(rows), wanted))
    return wanted


def extend(history: Any) -> Any:
    """Adds to each hypothesis's history, bool (rows, beams, length, beams), its own entry at the next position."""
    rows, beams = ops.shape(history)[:2]
    beam = ops.arange(beams, dtype="int32")
    own = ops.reshape(ops.equal(beam[:, None], beam[None, :]), (1, beams, 1, beams))
    return ops.concatenate([history, ops.broadcast_to(own, (rows, beams, 1, beams))], axis=2)


def unknown_zero(counts: Any) -> Any:
    """0, the length of what a loop makes longer; a TensorFlow graph's loop would hold on to a length that it knows.

    Args:
        counts: int, of any shape; no negative number is among them, which a graph can't know.
    """
    (negative,) = ops.nonzero(ops.reshape(ops.less(counts, 0), (-1,)))
    return ops.shape(negative)[0]
