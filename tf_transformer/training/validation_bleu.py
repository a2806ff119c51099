"""A callback that computes BLEU on some validation sentences at each validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras


class ValidationBleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the figures of each epoch, before TensorBoard writes them.

    Args:
        translate: maps texts to their translations.
        pairs: sentences and their references.
        tokenize: how BLEU splits text into words, as in `score_translations`.

    Example:
        >>> from tf_transformer.training import ValidationBleu
        >>> bleu = ValidationBleu(lambda texts: ["Ein Hund schläft ."], [("A dog sleeps .", "Ein Hund schläft .")])
        >>> logs = {}
        >>> bleu.on_epoch_end(0, logs)  # as `fit` calls it
        >>> print(f"{logs['val_bleu']:.1f}")
        100.0
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str]], Sequence[str]],
        pairs: Sequence[tuple[str, str]],
        tokenize: str = "13a",
    ) -> None:
        super().__init__()
        self.translate = translate
        self.tokenize = tokenize
        self.sources, self.references = ([pair[side] for pair in pairs] for side in (0, 1))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        from tf_transformer.evaluation.scores import score_translations

        translations = self.translate(self.sources)
        logs["val_bleu"] = score_translations(translations, self.references, tokenize=self.tokenize).bleu
