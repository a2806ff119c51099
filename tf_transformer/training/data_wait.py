"""Measures how long training waits for its data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from tf_transformer.layers.masks import PAD_ID
from tf_transformer.training.alignment import labels_and_alignment, with_alignment

if TYPE_CHECKING:
    import tensorflow as tf


class DataWait(keras.callbacks.Callback):
    """Adds `data_wait` to the figures of each epoch: the share of the training time spent waiting for the next batch.

    And `padding`: the share of the batches' source and target positions that hold no token. With XLA, which compiles a
    step for each shape of batch, also `new_shapes` and `new_shapes_seconds`: how many there were for the first time,
    and how long their steps took.

    A step that begins before its batch is ready waits for it. A GPU may be at work on the step before for some of
    that time, since steps are started ahead of it; the share is then more than what the GPU loses. Keras fetches
    the batch inside its compiled step, so the two times are recorded on both sides: here when a step begins, in the
    dataset when a batch is ready. The first step is left out: in it the model is traced, before the first batch is
    requested, and its time is reported separately.

    It is for one `fit` on endless batches (`make_batches(repeat=True)`); another `fit` needs another one.

    Example:
        >>> import tf_transformer as tt
        >>> from tf_transformer.training import DataWait
        >>> pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
        >>> tokenizers = tt.train_tokenizers(pairs, vocab_size=290)
        >>> batches = tt.make_batches(pairs, tokenizers, batch_tokens=64, max_length=32, repeat=True)
        >>> model = tt.Transformer(1, 8, 2, 16, input_vocab_size=290, target_vocab_size=290)
        >>> model.compile(tt.TransformerAdam(0.001), tt.SmoothedCrossEntropy(0.1), jit_compile=False)
        >>> wait = DataWait()
        >>> batches = wait.watch(batches)
        >>> history = model.fit(batches, steps_per_epoch=3, callbacks=[wait], shuffle=False, verbose=0)
        >>> sorted(history.history)
        ['data_wait', 'loss', 'padding']
    """

    def __init__(self) -> None:
        super().__init__()
        # Keras begins again after a few batches that it throws away; what comes then has the same numbers.
        self._ready: dict[int, _Batch] = {}
        self._used = 0  # how many of these have been trained on
        self._shapes: set[tuple[int, ...]] = set()

    def watch(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the same batches, each of which records when it is ready. They must be what `fit` is given."""
        import tensorflow as tf

        def note(number: np.ndarray, source_ids: np.ndarray, labels: np.ndarray) -> np.ndarray:
            tokens = sum(np.count_nonzero(ids != PAD_ID) for ids in (source_ids, labels))
            shape = (*source_ids.shape, *labels.shape)
            self._ready[int(number)] = _Batch(tokens, source_ids.size + labels.size, shape, time.perf_counter())
            return labels

        def pass_on(number: Any, batch: Any) -> Any:
            inputs, y = batch
            labels, alignment = labels_and_alignment(y)
            noted = tf.numpy_function(note, [number, inputs[0], labels], labels.dtype)
            return inputs, with_alignment(tf.ensure_shape(noted, labels.shape), alignment)

        # Without it a batch would be taken from the queue before this only when its step asks for it.
        return batches.enumerate().map(pass_on).prefetch(1)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._executions: list[_Execution] = []

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._first, self._now = batch, time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Several begin at once where `steps_per_execution` says so.
        self._executions.append(_Execution(batch - self._first + 1, self._now, time.perf_counter()))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        tokens = positions = new_shapes = 0
        spent = waited = compiling = 0.0
        for steps, began, ended in self._executions:
            batches = [self._ready.pop(self._used + i) for i in range(steps)]
            first, self._used = self._used == 0, self._used + steps
            tokens += sum(batch.tokens for batch in batches)
            positions += sum(batch.positions for batch in batches)
            new = {batch.shape for batch in batches} - self._shapes
            self._shapes |= new
            if first:
                continue
            spent += ended - began
            # Of steps that begin at once, the last one's wait holds the earlier ones'.
            waited += max(0.0, batches[-1].ready - began)
            if new:
                new_shapes, compiling = new_shapes + len(new), compiling + ended - began
        logs["padding"] = 1 - tokens / positions
        logs["data_wait"] = waited / spent if spent else 0.0
        if self.model.jit_compile:
            logs["new_shapes"], logs["new_shapes_seconds"] = new_shapes, compiling


class _Batch(NamedTuple):
    tokens: int  # of both sides
    positions: int  # padding included
    shape: tuple[int, ...]
    ready: float  # when


class _Execution(NamedTuple):
    steps: int
    began: float
    ended: float
