"""The log-probability that a model gives to a translation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras import ops

from tf_transformer.layers.masks import PAD_ID

if TYPE_CHECKING:
    from tf_transformer.models.ensemble import Ensemble
    from tf_transformer.models.sequence_model import SequenceModel


def shift_right(target_ids: Any, start_id: int) -> Any:
    """What the decoder reads to choose `target_ids`, int (batch, length): the start token, and all but the last.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.decoding import shift_right
        >>> shift_right(np.array([[7, 8, 3]]), start_id=2).numpy().tolist()
        [[2, 7, 8]]
    """
    target_ids = ops.convert_to_tensor(target_ids)
    return ops.concatenate([ops.full_like(target_ids[:, :1], start_id), target_ids[:, :-1]], axis=1)


def score_tokens(model: SequenceModel | Ensemble, source_ids: Any, target_ids: Any, start_id: int) -> Any:
    """Computes the log-probability of each token of a translation, given its source and the tokens before it.

    Args:
        model: a built model.
        source_ids: int (batch, source_len), with the closing token; 0 is padding.
        target_ids: int (batch, target_len), with the closing token; 0 is padding.
        start_id: the token that opens a sequence.

    Returns:
        float32 (batch, target_len), 0 at padding; a row's sum is the log-probability of its translation.

    Example:
        >>> import numpy as np, tf_transformer as tt
        >>> from tf_transformer.decoding import score_tokens
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=20, target_vocab_size=20)
        >>> score_tokens(model, np.array([[5, 6, 3]]), np.array([[7, 3]]), start_id=2).shape
        TensorShape([1, 2])
    """
    target_ids = ops.cast(target_ids, "int32")
    logits = ops.cast(model((source_ids, shift_right(target_ids, start_id)), training=False), "float32")
    # Not `pick`: of many long rows there are more logits than its int32 can count.
    chosen = ops.squeeze(ops.take_along_axis(logits, ops.expand_dims(target_ids, axis=2), axis=2), axis=2)
    return ops.where(ops.equal(target_ids, PAD_ID), 0.0, chosen - ops.logsumexp(logits, axis=-1))
