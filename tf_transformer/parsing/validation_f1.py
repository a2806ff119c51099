"""A callback that computes F1 on some validation sentences at each validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tf_transformer.parsing.sentences import ParseFunction, evaluate_parses
from tf_transformer.parsing.tree import Tree


class ValidationF1(keras.callbacks.Callback):
    """Adds `val_f1` to the figures of each epoch, before TensorBoard writes them.

    Args:
        function: what parses; see `load_parse`.
        trees: the treebank's, cleaned.
        streams: batches at once.

    Example:
        >>> import tensorflow as tf
        >>> from tf_transformer.parsing import read_tree
        >>> from tf_transformer.parsing.sentences import ParseFunction
        >>> def parse(texts):
        ...     return {"translation": tf.constant(["(S (XX It) (XX rains))"]), "score": [0.0], "truncated": [False]}
        >>> parse_all = lambda texts: {key: tf.constant(value) for key, value in parse(texts).items()}
        >>> f1 = ValidationF1(ParseFunction(parse_all, grammar=True), [read_tree("(S (PRP It) (VBZ rains))")])
        >>> logs = {}
        >>> f1.on_epoch_end(0, logs)  # as `fit` calls it
        >>> logs["val_f1"]
        100.0
    """

    def __init__(self, function: ParseFunction, trees: Sequence[Tree], streams: int = 1) -> None:
        super().__init__()
        self.function = function
        self.trees = trees
        self.streams = streams

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs["val_f1"] = evaluate_parses(self.function, self.trees, streams=self.streams)["f1"]
