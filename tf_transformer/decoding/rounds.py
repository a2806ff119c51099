"""What all searches share: the loop over positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from tf_transformer.decoding.history import FIXED_ROUND, pick_entries, settled_room, unknown_zero
from tf_transformer.decoding.interface import Stepping
from tf_transformer.layers.lean_ops import shape_of, take

# The tensors of a search by name, or several of them under one; the first axis of each is one row for each sentence.
Rows = dict[str, Any]

# Steps between two tidyings. Fewer would copy the cache more often, more would carry what is no longer needed along.
ROUND = 4


def run_rounds(
    model: Stepping,
    advance: Callable[[Any, Rows], Rows],
    rows: Rows,
    beams: Any,
    outcome: tuple[str, ...],
    steps: Any | None = None,
) -> Rows:
    """Advances all rows, one position after the other, until each is done.

    Every few steps the rows that are done leave, and so do the entries of the cache that no hypothesis descends from
    any more: a step costs what its unfinished rows cost. Where the cache has a fixed size, all rows stay to the end:
    then no shape changes, so that XLA can compile the whole search.

    Args:
        model: whose cache it is.
        advance: one step of the search; it maps a position, scalar int, and the rows to the rows after it.
        rows: what the search keeps of each row; the "cache" and "done", bool (rows,), are among it.
        beams: hypotheses a row.
        outcome: names of what is wanted of the rows.
        steps: the most steps, for a cache of fixed size; None for one that grows.

    Returns:
        These, for all rows as they were when they were done; with `steps` also "done", bool (rows,), since a row may
        need more of them, or more entries than there is room for.
    """
    batch = shape_of(rows["done"])[0]

    def unfinished(position: Any, rows: Rows, *_: Any) -> Any:
        return ops.logical_not(ops.all(rows["done"]))

    def one_step(position: Any, rows: Rows) -> tuple[Any, Rows]:
        return position + 1, advance(position, rows)

    position = ops.convert_to_tensor(0, "int32")
    if steps is not None:
        return _run_in_fixed_memory(model, one_step, rows, beams, outcome, steps)
    wanted = {name: rows[name] for name in outcome}
    history = ops.zeros((batch, beams, unknown_zero()), "bool")
    rows = {**rows, "row": ops.arange(batch, dtype="int32"), "history": history}

    def tidy(rows: Rows) -> Rows:
        (kept,) = ops.nonzero(ops.logical_not(rows["done"]))
        kept = ops.cast(kept, "int32")
        others = {name: rows[name] for name in rows if name != "cache"}
        others = keras.tree.map_structure(lambda each: take(each, kept), others)
        needed = _needed(others["history"])
        # The row that needs most says how many stay.
        _, entries = ops.top_k(needed, ops.max(ops.sum(needed, axis=1), initial=0))
        history = pick_entries(others["history"], entries)
        return {**others, "history": history, "cache": model.settle(rows["cache"], kept, entries)}

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

    *_, wanted = ops.while_loop(unfinished, one_round, (position, tidy(rows), wanted))
    return wanted


def _run_in_fixed_memory(
    model: Stepping, one_step: Callable, rows: Rows, beams: int, outcome: tuple[str, ...], steps: Any
) -> Rows:
    """The same with a cache of fixed size, in which a row that needs too many entries is lost."""
    batch = shape_of(rows["done"])[0]
    fresh = ops.zeros((batch, beams, FIXED_ROUND * beams), "bool")
    history = ops.concatenate([ops.zeros((batch, beams, settled_room(steps, beams)), "bool"), fresh], axis=2)
    rows = {**rows, "history": history, "lost": ops.zeros_like(rows["done"])}

    def goes_on(position: Any, rows: Rows) -> Any:
        unfinished = ops.logical_not(ops.all(ops.logical_or(rows["done"], rows["lost"])))
        return ops.logical_and(position < steps, unfinished)

    def tidy(rows: Rows) -> Rows:
        needed = _needed(rows["history"])
        room = shape_of(needed)[1] - FIXED_ROUND * beams  # known in the loop where it is known before it
        _, entries = ops.top_k(needed, room)
        history = ops.concatenate([pick_entries(rows["history"], entries), fresh], axis=2)
        lost = ops.logical_and(ops.sum(needed, axis=1) > room, ops.logical_not(rows["done"]))
        lost = ops.logical_or(rows["lost"], lost)
        return {**rows, "history": history, "lost": lost, "cache": model.settle(rows["cache"], None, entries)}

    def one_round(position: Any, rows: Rows) -> tuple[Any, Rows]:
        end = position + FIXED_ROUND
        position, rows = ops.while_loop(
            lambda position, rows: ops.logical_and(position < end, goes_on(position, rows)), one_step, (position, rows)
        )
        return position, tidy(rows)

    _, rows = ops.while_loop(goes_on, one_round, (ops.convert_to_tensor(0, "int32"), rows))
    done = ops.logical_and(rows["done"], ops.logical_not(rows["lost"]))
    return {**{name: rows[name] for name in outcome}, "done": done}


def _needed(history: Any) -> Any:
    """Which entries some hypothesis descends from: 1 or 0, int32 (rows, entries)."""
    return ops.cast(ops.any(history, axis=1), "int32")
