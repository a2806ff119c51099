"""Greedy search: the likeliest token at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from tf_transformer.layers.masks import PAD_ID

# (ids (batch,), position, cache) -> (logits (batch, vocabulary), cache)
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def greedy_search(step: Step, cache: Any, limits: Any, start_id: int, end_id: int) -> tuple[Any, Any]:
    """Decodes a batch, taking the likeliest token at each step, until each row has closed or met its limit.

    A row's outcome depends on that row alone. The padding token is never chosen.

    Args:
        step: the model's step: given the tokens, int (batch,), at a position, a scalar int, and the cache, it returns
            logits for the next tokens, float (batch, vocabulary), and the new cache.
        cache: tensors (in dicts, lists, tuples) for the first step; it must hold `max(limits)` steps.
        limits: int (batch,), the most tokens a row may get, the closing token included; a row of limit 0 stays empty.
        start_id: the token that opens a sequence.
        end_id: the token that closes it.

    Returns:
        The tokens, int32 (batch, at least 1 and at least max(limits)), with the closing token and then padding; and
        each row's log-probability, float32 (batch,), the closing token included.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding import greedy_search
        >>> def count_up(ids, position, cache):
        ...     return np.eye(6, dtype="float32")[np.minimum(ids + 1, 5)] * 100, cache
        >>> ids, score = greedy_search(count_up, (), np.array([10, 2]), start_id=2, end_id=5)
        >>> ids.numpy()[:, :4].tolist()
        [[3, 4, 5, 0], [3, 4, 0, 0]]
    """
    limits = ops.cast(limits, "int32")
    longest = ops.maximum(ops.max(limits, initial=0), 1)
    batch = ops.shape(limits)[0]
    slots = ops.arange(longest, dtype="int32")

    def unfinished(position: Any, ids: Any, outputs: Any, scores: Any, done: Any, cache: Any) -> Any:
        return ops.logical_not(ops.all(done))

    def advance(position: Any, ids: Any, outputs: Any, scores: Any, done: Any, cache: Any) -> tuple:
        logits, cache = step(ids, position, cache)
        logits = ops.cast(logits, "float32")
        log_normaliser = ops.logsumexp(logits, axis=-1)
        # Without the padding token, which stands for "no token" in the output.
        allowed = logits[:, 1:]
        ids = ops.where(done, PAD_ID, ops.cast(ops.argmax(allowed, axis=-1), "int32") + 1)
        scores = scores + ops.where(done, 0.0, ops.max(allowed, axis=-1) - log_normaliser)
        outputs = ops.where(ops.equal(slots, position), ids[:, None], outputs)
        position = position + 1
        done = ops.logical_or(done, ops.logical_or(ops.equal(ids, end_id), position >= limits))
        return position, ids, outputs, scores, done, cache

    _, _, outputs, scores, _, _ = ops.while_loop(
        unfinished,
        advance,
        (
            ops.convert_to_tensor(0, "int32"),
            ops.full((batch,), start_id, "int32"),
            ops.zeros((batch, longest), "int32"),
            ops.zeros((batch,), "float32"),
            ops.equal(limits, 0),
            cache,
        ),
    )
    return outputs, scores
