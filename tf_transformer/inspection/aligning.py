"""Aligns the words of texts with those of their translations, by a model's cross-attention."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tf_transformer.data.links import as_pharaoh, word_links
from tf_transformer.errors import UserError, check_is_list
from tf_transformer.translation.loading import LoadSignature, load_function

# The weights of all layers and heads take the square of the longest sentence's length.
SENTENCES_AT_ONCE = 8

# Gives the alignments of source texts and their translations, in the form of the decoder Pharaoh
Align = Callable[[Sequence[str], Sequence[str]], Iterator[str]]


def load_align(path: str | os.PathLike | Sequence[str | os.PathLike], load: LoadSignature | None = None) -> Align:
    """Loads a function that aligns texts with their translations.

    Args:
        path: a run's folder or one of its checkpoints, or a SavedModel's folder; several runs for an ensemble.
        load: what loads a SavedModel's signature; TensorFlow for Python unless given.

    Returns:
        A function of source texts and translations, which aligns words by the model's cross-attention. It
        raises a UserError for one string in place of a list, and for lists of different lengths.

    Raises:
        UserError: nothing of the kind is there, or it is damaged.

    Example:
        >>> import tempfile
        >>> import tf_transformer as tt
        >>> tokenizers = tt.train_tokenizers([("a dog", "ein Hund")], vocab_size=280)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=280, target_vocab_size=280, max_length=64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     align = load_align(tt.export_saved_model(tt.Translator(model, tokenizers), f"{folder}/small"))
        ...     [line] = align(["dog"], ["ein Hund"])
        >>> line
        '0-0 0-1'
    """
    attention = load_function(path, "attention", load)

    def align(sources: Sequence[str], targets: Sequence[str]) -> Iterator[str]:
        check_is_list(sources, "sources")
        check_is_list(targets, "targets")
        if len(sources) != len(targets):
            raise UserError(
                f"there are {len(sources)} sources and {len(targets)} targets; give one translation for each source"
            )
        order = sorted(range(len(sources)), key=lambda i: len(sources[i]) + len(targets[i]))
        lines: dict[int, str] = {}
        for start in range(0, len(order), SENTENCES_AT_ONCE):
            batch = order[start : start + SENTENCES_AT_ONCE]
            output = attention(source=[sources[i] for i in batch], target=[targets[i] for i in batch])
            columns = [np.asarray(output[name]) for name in ("source_tokens", "target_tokens", "alignment")]
            for i, *row in zip(batch, *columns, strict=True):
                lines[i] = as_pharaoh(word_links(sources[i], targets[i], *row))
        return (lines[i] for i in range(len(sources)))

    return align
