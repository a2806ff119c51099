"""How long training waits for its data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from tf_transformer.layers.masks import PAD_ID

if TYPE_CHECKING:
    import tensorflow as tf

# Keras and a distribution strategy take a few batches ahead, some of which they throw away.
MOST_AHEAD = 8


class DataWait(keras.callbacks.Callback):
    """Adds `data_wait` to the figures of each epoch: the share of the training time spent waiting for the next batch.

    And `padding`: the share of the batches' source and target positions that hold no token.

    A step that begins before its batch is ready waits for it. Keras fetches the batch inside its compiled step, so the
    two times are noted on both sides: here when a step begins, in the dataset when a batch is ready. Which batch a step
    got is told by the tokens counted. The model must be compiled with the metric `TokenCount`.
    """

    def __init__(self) -> None:
        super().__init__()
        # Of each batch: its target tokens, both sides' tokens, both sides' positions, and when it was ready.
        self._ready: list[tuple[int, int, int, float]] = []
        self._used: int | None = None  # how many of these have been trained on, or thrown away

    def watch(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the same batches, each of which notes when it is ready. They must be what `fit` is given."""
        import tensorflow as tf

        def note(source_ids: np.ndarray, labels: np.ndarray) -> np.ndarray:
            tokens, source_tokens = (np.count_nonzero(ids != PAD_ID) for ids in (labels, source_ids))
            self._ready.append((tokens, tokens + source_tokens, labels.size + source_ids.size, time.perf_counter()))
            return labels

        def pass_on(inputs: Any, labels: Any) -> Any:
            return inputs, tf.ensure_shape(tf.numpy_function(note, [inputs[0], labels], labels.dtype), labels.shape)

        return batches.map(pass_on)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun: list[float] = []  # when the step of each batch began
        self._spent = 0.0

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._first, self._now = batch, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._spent += time.perf_counter() - self._now
        # Several begin at once where `steps_per_execution` says so.
        self._begun += [self._now] * (batch - self._first + 1)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._used is None:
            self._used = self._thrown_away(logs["tokens"])
        used = self._ready[self._used :][: len(self._begun)]
        # Of steps that begin at once, a later one's wait holds the earlier ones'.
        waits = {begun: max(0.0, ready - begun) for begun, (*_, ready) in zip(self._begun, used, strict=False)}
        self._used += len(used)
        logs["padding"] = 1 - sum(filled for _, filled, _, _ in used) / sum(size for _, _, size, _ in used)
        logs["data_wait"] = sum(waits.values()) / self._spent

    def _thrown_away(self, tokens: float) -> int:
        """How many batches came before those of the first epoch, by their tokens."""
        counts = [tokens for tokens, *_ in self._ready]
        for start in range(MOST_AHEAD):
            if sum(counts[start : start + len(self._begun)]) == tokens:
                return start
        return 0
