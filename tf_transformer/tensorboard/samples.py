"""Sample translations in TensorBoard: the same few sentences at each validation, next to their references."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Any

from tf_transformer.tensorboard.event_file import EventFile
from tf_transformer.tensorboard.summary_callback import SummaryCallback


class SampleTranslations(SummaryCallback):
    """Writes translations of a few sentences as text for TensorBoard at the end of each epoch.

    Each is next to its reference; words that only one of them has are bold.

    Args:
        translate: maps texts to their translations.
        pairs: sentences and their references.
        log_dir: the folder of one of TensorBoard's runs; or its event file, where other callbacks write to it too.

    Example:
        >>> import tempfile
        >>> import keras
        >>> import numpy as np
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     samples = SampleTranslations(lambda texts: ["ein Hund"], [("a dog", "ein Hund")], folder)
        ...     _ = model.fit(np.ones((9, 1)), np.ones(9), callbacks=[samples], verbose=0)
        ...     len(os.listdir(folder))
        1
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str]], Sequence[str]],
        pairs: Sequence[tuple[str, str]],
        log_dir: str | os.PathLike | EventFile,
    ) -> None:
        super().__init__(log_dir)
        self.translate = translate
        self.pairs = pairs

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        import tensorflow as tf

        translations = self.translate([source for source, _ in self.pairs])
        lines = ["| source | reference | translation |", "| --- | --- | --- |"]
        for (source, reference), translation in zip(self.pairs, translations, strict=True):
            lines.append("| " + " | ".join([_cell(source), *_marked(reference, translation)]) + " |")
        with self.writing():
            tf.summary.text("translations", "\n".join(lines))


def _marked(reference: str, translation: str) -> tuple[str, str]:
    """Both as Markdown, the words that one has and the other has not in bold."""
    words = reference.split(), translation.split()
    texts: tuple[list[str], list[str]] = ([], [])
    for kind, *spans in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        for text, side, (start, end) in zip(texts, words, (spans[:2], spans[2:]), strict=True):
            if start < end:
                part = _cell(" ".join(side[start:end]))
                text.append(part if kind == "equal" else f"**{part}**")
    return " ".join(texts[0]), " ".join(texts[1])


def _cell(text: str) -> str:
    """Text as a cell of a Markdown table, in which nothing is markup."""
    text = re.sub(r"([\\`*_{}\[\]()#+\-.!|])", r"\\\1", text.replace("\n", " "))
    return html.escape(text, quote=False)
