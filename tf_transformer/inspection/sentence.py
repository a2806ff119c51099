"""A model's attention as it translates a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_transformer.errors import check_is_list
from tf_transformer.inspection.kinds import KINDS
from tf_transformer.translation.loading import LoadSignature, load_function

# What the signature translate_with_attention is: strings (batch,) -> tokens, attention weights, alignment and more
Attend = Callable[[Any], dict[str, Any]]


class Inspection(NamedTuple):
    """What a model did with a sentence.

    `attention` has float32 arrays (layers, heads, rows, columns): "encoder" between source tokens, "decoder" between
    target tokens, "cross" from target tokens to source tokens. Row i of the last two is what the model attends to when
    it chooses `target_tokens[i]`; column j of "decoder" is its j-th input: the start, then `target_tokens[j - 1]`.
    `alignment[i]` is the source token aligned with it, or -1. `truncated` says whether the source was cut to the
    model's positions.

    Example:
        >>> attention = {"cross": np.array([[[[0.9, 0.1], [0.2, 0.8]]]], "float32")}  # one layer, one head
        >>> seen = Inspection("a dog", "ein Hund", ["a", "dog"], ["ein", "Hund"], attention, [0, 1], False)
        >>> seen.source_tokens[seen.alignment[1]]
        'dog'
    """

    source: str
    translation: str
    source_tokens: list[str]
    target_tokens: list[str]
    attention: dict[str, np.ndarray]
    alignment: list[int]
    truncated: bool


def load_attend(path: str | os.PathLike | Sequence[str | os.PathLike], load: LoadSignature | None = None) -> Attend:
    """Loads the function that `inspect` calls.

    Args:
        path: a run's folder or one of its checkpoints, or a SavedModel's folder; several of the former for an ensemble.
        load: what loads a SavedModel's signature; TensorFlow for Python unless given.

    Raises:
        UserError: nothing of the kind is there, or it is damaged.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = tt.export_saved_model(tt.Translator(model, tokenizers), f"{folder}/small")
        ...     attend = load_attend(path)
        >>> [seen] = inspect(attend, ["a dog"])
        >>> "".join(seen.source_tokens)
        '▁a▁dog</s>'
    """
    attend = load_function(path, "translate_with_attention", load)
    return lambda texts: attend(text=texts)


def inspect(attend: Attend, texts: Sequence[str]) -> list[Inspection]:
    """Translates texts, and returns what the model attended to.

    Args:
        attend: as `load_attend` gives it, or the function "translate_with_attention" of a `Translator`.
        texts: any number of texts.

    Returns:
        One for each text.

    Raises:
        UserError: `texts` is one string.

    Example:
        >>> import tf_transformer as tt
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> translator = tt.Translator(model, tokenizers)
        >>> [seen] = inspect(translator.functions["translate_with_attention"], ["a dog"])
        >>> rows, columns = seen.attention["cross"].shape[2:]
        >>> (rows, columns) == (len(seen.target_tokens), len(seen.source_tokens))
        True
    """
    check_is_list(texts, "texts")
    # One at a time: weights take the square of the longest sentence's length.
    return [_inspection(text, attend([text])) for text in texts]


def _inspection(text: str, output: dict[str, Any]) -> Inspection:
    output = {name: np.asarray(value)[0] for name, value in output.items()}
    return Inspection(
        text,
        output["translation"].decode("utf-8", "replace"),
        *([piece.decode("utf-8", "replace") for piece in output[f"{side}_tokens"]] for side in ("source", "target")),
        {kind: output[f"{kind}_attention"] for kind in KINDS if f"{kind}_attention" in output},
        output["alignment"].tolist(),
        bool(output["truncated"]),
    )
