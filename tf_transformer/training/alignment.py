"""What one head of the attention learns from given alignments (Garg et al., 2019), and how a batch carries them."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

# What a weight counts as that is 0 or nearly, whose logarithm has no gradient that float16 or float32 can hold.
LEAST = {"float16": 1e-4}
LEAST_ELSE = 1e-30


def alignment_loss(weights: Any, alignment: Any, copies: int = 1) -> Any:
    """Sums `-log` of the attention weights at the source tokens that the target tokens are aligned to.

    It is Garg et al.'s equation 4 (2019, "Jointly learning to align and translate with Transformer models"), to be
    divided by the number of target tokens: a target token aligned to several source tokens takes the mean of their
    logarithms, and one that is aligned to none counts nothing.

    Args:
        weights: one head's, float (copies * batch, target_len, source_len).
        alignment: 1 where tokens are aligned, else 0: (batch, target_len, source_len). uint8 takes the least room; bool
            is none that TensorFlow's strategies can share out.
        copies: how often the batch went through the model, twice with R-Drop: first all, then all again. The sum is the
            mean of theirs.

    Returns:
        A float32 scalar.

    Example:
        >>> import numpy as np
        >>> weights = np.array([[[0.5, 0.5], [0.25, 0.75]]])
        >>> round(float(alignment_loss(weights, np.array([[[True, False], [False, False]]]))), 4)  # log(2)
        0.6931
    """
    weights = ops.convert_to_tensor(weights)
    least = LEAST.get(keras.backend.standardize_dtype(weights.dtype), LEAST_ELSE)
    of_each = ops.cast(alignment, "float32")
    of_each = of_each / ops.maximum(ops.sum(of_each, axis=-1, keepdims=True), 1.0)
    of_each = ops.concatenate([of_each] * copies) / copies
    logarithms = ops.log(ops.maximum(ops.cast(weights, "float32"), least))
    return -ops.sum(of_each * logarithms)


def with_alignment(labels: Any, alignment: Any | None) -> Any:
    """What a batch is to be learned from: labels, int (batch, target_len), and beside them an alignment, if any."""
    return labels if alignment is None else {"labels": labels, "alignment": alignment}


def labels_and_alignment(y: Any) -> tuple[Any, Any | None]:
    """The labels of a batch, and its alignment or None; the reverse of `with_alignment`.

    Example:
        >>> labels_and_alignment(with_alignment([[5, 3]], None))
        ([[5, 3]], None)
    """
    is_aligned = isinstance(y, dict) and set(y) == {"labels", "alignment"}
    return (y["labels"], y["alignment"]) if is_aligned else (y, None)
