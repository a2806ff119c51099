"""Decoding with one hypothesis per row: greedy search and sampling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from tf_transformer.decoding.candidates import forced_token, likeliest, pick
from tf_transformer.decoding.history import extend
from tf_transformer.decoding.interface import Stepping
from tf_transformer.decoding.repetition import without_repeats
from tf_transformer.decoding.rounds import Rows, run_rounds
from tf_transformer.layers.lean_ops import shape_of

# (log-probabilities (rows, count), from the highest down, each row's key, position) -> the chosen place in each row
Sampler = Callable[[Any, Any, Any], Any]


def greedy_search(
    model: Stepping,
    cache: Any,
    limits: Any,
    start_id: int,
    end_id: int,
    min_length: Any = 1,
    prefix: Any | None = None,
    steps: Any | None = None,
    no_repeat_ngram_size: Any = 0,
) -> tuple[Any, ...]:
    """Decodes a batch, taking the likeliest token at each step, until each row has closed or reached its limit.

    A row's outcome depends on that row alone. The padding token is never chosen.

    Args:
        model: gives the next tokens' logits; a `Stepper`, say.
        cache: the model's, for one hypothesis a row.
        limits: int (rows,), the most tokens a row may get, the closing one counted; a row of limit 0 stays empty.
        start_id: the token that opens a sequence.
        end_id: the token that closes it.
        min_length: the fewest tokens, the closing one counted.
        prefix: int (rows, prefix_len), tokens that the output must begin with, the closing one not among them; 0 is
            padding.
        steps: what the cache was started with, for one of fixed size.
        no_repeat_ngram_size: as `beam_search` has it.

    Returns:
        The tokens, int32 (rows, max(limits)), with the closing token and then padding; and each row's
        log-probability, float32 (rows,), the closing token included. With `steps` the tokens are (rows, steps), and a
        third tensor, bool (rows,), says which rows have closed or reached their limit in this many steps.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import Stepper, greedy_search
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> source = np.array([[5, 6, 3], [7, 3, 0]])
        >>> _ = model((source, source))
        >>> stepper = Stepper(model)
        >>> cache = stepper.start_cache(source)
        >>> ids, log_probs = greedy_search(stepper, cache, np.array([9, 8]), start_id=2, end_id=3)
        >>> ids.shape, log_probs.shape
        (TensorShape([2, 9]), TensorShape([2]))
    """
    return _search(
        model,
        cache,
        limits,
        start_id,
        end_id,
        sampler=_first,
        keys=ops.zeros_like(limits),
        candidates=1,
        min_length=min_length,
        prefix=prefix,
        no_repeat_ngram_size=no_repeat_ngram_size,
        steps=steps,
    )


def sample(
    model: Stepping,
    cache: Any,
    limits: Any,
    start_id: int,
    end_id: int,
    sampler: Sampler,
    keys: Any,
    candidates: Any,
    min_length: Any = 1,
    prefix: Any | None = None,
    no_repeat_ngram_size: Any = 0,
) -> tuple[Any, Any]:
    """Decodes a batch, drawing each token from the likeliest ones.

    Args:
        model: gives the next tokens' logits; a `Stepper`, say.
        cache: the model's, for one hypothesis a row.
        limits: as `greedy_search` has it.
        start_id: the token that opens a sequence.
        end_id: the token that closes it.
        sampler: chooses a token, such as a `RandomSampler`.
        keys: uint32 (rows,), which make one row's draws differ from another's.
        candidates: how many of the likeliest tokens to draw from.
        min_length: as `greedy_search` has it.
        prefix: as `greedy_search` has it.
        no_repeat_ngram_size: as `beam_search` has it.

    Returns:
        What `greedy_search` returns; the log-probabilities are the model's, whatever the sampler's temperature.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import RandomSampler, Stepper, row_keys, sample
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> source = np.array([[5, 6, 3], [7, 3, 0]])
        >>> _ = model((source, source))
        >>> stepper = Stepper(model)
        >>> options = {"sampler": RandomSampler(temperature=0.8), "keys": row_keys(source), "candidates": 20}
        >>> limits = np.array([9, 8])
        >>> ids, log_probs = sample(stepper, stepper.start_cache(source), limits, start_id=2, end_id=3, **options)
        >>> ids.shape, log_probs.shape
        (TensorShape([2, 9]), TensorShape([2]))
    """
    return _search(
        model,
        cache,
        limits,
        start_id,
        end_id,
        sampler=sampler,
        keys=keys,
        candidates=candidates,
        min_length=min_length,
        prefix=prefix,
        no_repeat_ngram_size=no_repeat_ngram_size,
    )


def _first(log_probs: Any, keys: Any, position: Any) -> Any:
    return ops.zeros_like(keys, dtype="int32")


def _search(
    model: Stepping,
    cache: Any,
    limits: Any,
    start_id: int,
    end_id: int,
    *,
    sampler: Sampler,
    keys: Any,
    candidates: Any,
    min_length: Any,
    prefix: Any | None,
    no_repeat_ngram_size: Any,
    steps: Any | None = None,
) -> tuple[Any, ...]:
    limits = ops.cast(limits, "int32")
    batch, longest = shape_of(limits)[0], ops.max(limits, initial=0) if steps is None else steps
    slots = ops.arange(longest, dtype="int32")

    def advance(position: Any, rows: Rows) -> Rows:
        history = extend(rows["history"], position, steps is not None)
        logits, cache = model.step(rows["tokens"], position, rows["cache"], history)
        forced = None if prefix is None else forced_token(rows["prefix"], position)
        among = without_repeats(logits, rows["outputs"], position, no_repeat_ngram_size)
        log_probs, ids = likeliest(logits, candidates, position, end_id, min_length, forced, among)
        log_probs, order = ops.top_k(log_probs, ops.minimum(candidates, shape_of(ids)[1]))
        place = ops.expand_dims(sampler(log_probs, rows["keys"], position), axis=1)
        chosen = pick(order, place)
        # A row that is done stays as it is until it leaves.
        done = rows["done"]
        tokens = ops.where(done, 0, ops.squeeze(pick(ids, chosen), axis=1))
        gain = ops.where(done, 0.0, ops.squeeze(pick(log_probs, place), axis=1))
        return {
            **rows,
            "tokens": tokens,
            "log_probs": rows["log_probs"] + gain,
            "outputs": ops.where(ops.equal(slots, position), ops.expand_dims(tokens, axis=1), rows["outputs"]),
            "history": history,
            "cache": cache,
            "done": ops.logical_or(done, ops.logical_or(ops.equal(tokens, end_id), position + 1 >= rows["limits"])),
        }

    rows = {
        "tokens": ops.full((batch,), start_id, "int32"),
        "log_probs": ops.zeros((batch,), "float32"),
        "outputs": ops.zeros((batch, longest), "int32"),
        "cache": cache,
        "keys": keys,
        "limits": limits,
        "done": ops.equal(limits, 0),
    }
    if prefix is not None:
        rows["prefix"] = ops.cast(prefix, "int32")
    outcome = run_rounds(model, advance, rows, 1, ("outputs", "log_probs"), steps)
    return tuple(outcome[name] for name in ("outputs", "log_probs", "done") if name in outcome)
