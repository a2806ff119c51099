"""Reproducible random sampling of tokens."""

from __future__ import annotations

from typing import Any

from keras import ops

from tf_transformer.layers.lean_ops import shape_of


class RandomSampler:
    """Draws a token with the model's probabilities, sharpened by a temperature and cut to a nucleus.

    A row's draws follow from the seed and the row's key alone, so that they are the same in any batch, at any place in
    it, and on every backend.

    Args:
        temperature: above 0; 1 uses the model's probabilities, lower values favour likely tokens.
        top_p: only the likeliest tokens that have this probability together (Holtzman et al., 2020), never fewer
            than one.
        seed: an int or a scalar int tensor.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding import RandomSampler
        >>> log_probs = np.log([[0.7, 0.2, 0.1]]).astype("float32")
        >>> RandomSampler(top_p=0.5)(log_probs, np.array([7], "uint32"), 0).numpy()
        array([0], dtype=int32)
    """

    def __init__(self, temperature: Any = 1.0, top_p: Any = 1.0, seed: Any = 0) -> None:
        self.temperature = temperature
        self.top_p = top_p
        self.seed = seed

    def __call__(self, log_probs: Any, keys: Any, position: Any) -> Any:
        """Chooses a position in each row.

        Args:
            log_probs: float (rows, count), from the highest down; -inf is never drawn.
            keys: uint32 (rows,).
            position: scalar int.

        Returns:
            int32 (rows,).
        """
        # Nearer to 0 the quotient would overflow; as it is, the likeliest token is certain.
        probabilities = ops.softmax(log_probs / ops.maximum(self.temperature, 1e-6), axis=-1)
        before = ops.cumsum(probabilities, axis=-1) - probabilities
        probabilities = ops.where(before < self.top_p, probabilities, 0.0)
        reached = ops.cumsum(probabilities, axis=-1)
        draw = _uniform(keys, self.seed, position)[:, None] * reached[:, -1:]
        # The first place whose share is not used up; with rounding, the last that has a share at all.
        passed = ops.sum(ops.cast(reached <= draw, "int32"), axis=-1)
        last = ops.sum(ops.cast(probabilities > 0, "int32"), axis=-1) - 1
        return ops.minimum(passed, last)


def row_keys(source_ids: Any, copies: Any = 1) -> Any:
    """A key for each of the copies of each row, from the row's tokens: padding and the other rows don't matter.

    Args:
        source_ids: int (rows, length); 0 is padding.
        copies: how many of each row; an int or a scalar int tensor.

    Returns:
        uint32 (rows * copies,), the copies of a row one after the other.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding import row_keys
        >>> alone, padded = row_keys(np.array([[5, 3]])), row_keys(np.array([[7, 8, 3], [5, 3, 0]]))
        >>> bool(alone[0] == padded[1])
        True
    """
    ids = ops.cast(source_ids, "uint32")
    place = ops.cast(ops.arange(shape_of(ids)[1], dtype="int32"), "uint32")
    mixed = ops.where(ids > 0, _mix(ids + _mix(place + 1)), 0)
    keys = ops.repeat(ops.sum(mixed, axis=1), copies)
    copy = ops.arange(shape_of(ids)[0] * copies, dtype="int32") % copies
    return _mix(keys + _mix(ops.cast(copy, "uint32")))


def _uniform(keys: Any, seed: Any, position: Any) -> Any:
    """Numbers in [0, 1) that look drawn, float32, of the shape of `keys`."""
    seed, position = (ops.cast(ops.convert_to_tensor(x), "uint32") for x in (seed, position))
    bits = _mix(keys + _mix(seed + _mix(position + 1)))
    return ops.cast(ops.right_shift(bits, 8), "float32") * 2.0**-24  # as many bits as a float32 holds


def _mix(x: Any) -> Any:
    """Scrambles uint32: each bit of the input changes about half of the output's (the finalizer of MurmurHash3)."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = ops.bitwise_xor(x, ops.right_shift(x, shift))
        x = ops.multiply(x, ops.convert_to_tensor(factor, "uint32"))
    return ops.bitwise_xor(x, ops.right_shift(x, 16))
