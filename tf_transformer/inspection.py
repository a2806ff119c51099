"""Looking into a model: what it attends to as it translates a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tf_transformer.tokenizers.base import END_ID, START_ID

if TYPE_CHECKING:
    from tf_transformer.model import Transformer
    from tf_transformer.tokenizers import TokenizerPair


class Attention(NamedTuple):
    """A sentence's attention weights and the tokens they are between.

    "encoder" has shape (layers, heads, source_len, source_len), "decoder" (layers, heads, target_len, target_len) and
    "cross" (layers, heads, target_len, source_len). Row i of the last two is what the model attends to when it
    chooses `target_tokens[i]`.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray


def attention_of(model: Transformer, tokenizers: TokenizerPair, source: str, target: str) -> Attention:
    """Works out all attention weights for a sentence and its translation.

    Args:
        model: a built Transformer.
        tokenizers: the tokenizers it was trained with.
        source: the sentence.
        target: its translation, the model's own or any other.

    Returns:
        The weights, with the tokens of both sides.
    """
    source_ids = [*tokenizers.source.tokenize([source])[0].numpy().tolist(), END_ID]
    target_ids = tokenizers.target.tokenize([target])[0].numpy().tolist()
    inputs = np.array([source_ids], "int32"), np.array([[START_ID, *target_ids]], "int32")
    _, scores = model(inputs, return_attention_scores=True)
    return Attention(
        tokenizers.source.pieces(source_ids),
        tokenizers.target.pieces([*target_ids, END_ID]),
        *(np.stack([layer[0] for layer in scores[kind]]) for kind in ("encoder", "decoder", "cross")),
    )
