"""What happens at each validation: figures, averaged weights, sample translations."""

from __future__ import annotations

import html
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from typing import Any

import keras

from tf_transformer.training.loss_scaling import LossScaling


def steps_taken(model: keras.Model) -> int:
    """How many steps the model has been trained for, each with a batch of its own."""
    optimizer = model.optimizer
    steps = optimizer.steps if isinstance(optimizer, LossScaling) else optimizer.iterations
    return int(keras.ops.convert_to_numpy(steps))


def gradient_norm(model: keras.Model) -> float | None:
    """How long the last step's gradient was, where the optimizer keeps it; on several devices it may not be known."""
    # Loss scaling wraps the optimizer that updates.
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    if not getattr(optimizer, "keep_gradient_norm", False):
        return None
    return float(keras.ops.convert_to_numpy(optimizer.gradient_norm)) or None


class Pace(keras.callbacks.Callback):
    """Adds `learning_rate` and `tokens_per_second` to the figures of each epoch, before TensorBoard writes them.

    Real target tokens are counted, and the time of training alone, without validation. The model must be compiled
    with the metric `TokenCount`. Where the optimizer keeps it, the last step's `gradient_norm` is added too.

    Attributes:
        seconds: of the epoch, before its training was broken off and, in its validation, up to that; else 0.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._start: float | None = None  # when the time that `seconds` does not hold yet began

    def spent(self) -> float:
        """The seconds of training in this epoch so far."""
        return self.seconds + (time.perf_counter() - self._start if self._start is not None else 0.0)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        # Validation is part of the epoch; the time ends where it begins.
        self.seconds, self._start = self.spent(), None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs["tokens_per_second"] = logs["tokens"] / self.spent()
        self.seconds, self._start = 0.0, None
        logs["learning_rate"] = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        norm = gradient_norm(self.model)
        if norm is not None:
            logs["gradient_norm"] = norm


class EpochEnds(keras.callbacks.Callback):
    """Ends Keras's epochs where validations are due, and training at its last step.

    A training that goes on from the middle of an epoch has less of it left than Keras thinks. This callback must come
    before all others that may stop the training.

    Args:
        steps: how many steps the training has.
        validate_every: how many steps an epoch has.
    """

    def __init__(self, steps: int, validate_every: int) -> None:
        super().__init__()
        self.steps = steps
        self.validate_every = validate_every

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        taken = steps_taken(self.model)
        # Keras stops after the epoch that this ends.
        self.model.stop_training = taken >= self.steps or taken % self.validate_every == 0

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.model.stop_training = steps_taken(self.model) >= self.steps


class AveragedWeights(keras.callbacks.Callback):
    """Shows the moving average of the weights wherever a model in training is looked at; training has its own weights.

    The average is in the model from the start of a validation, or the end of an epoch, to the start of the next epoch,
    and after training. Callbacks that look at the model at an epoch's end must come after this one. The model must be
    compiled with an optimizer that has `use_ema=True`.

    Keras's `SwapEMAWeights` rounds the weights that training goes on from, and leaves the wrong ones in the model where
    training ends before its last epoch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_training: list[Any] | None = None

    def show_average(self) -> None:
        """Puts the average into the model, if it isn't there."""
        if self._in_training is None:
            self._in_training = self.model.get_weights()
            self.model.optimizer.finalize_variable_values(self.model.trainable_variables)

    def hide_average(self) -> None:
        """Puts the weights in training back into the model, if they aren't there."""
        if self._in_training is not None:
            self.model.set_weights(self._in_training)
            self._in_training = None

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within it, the weights in training are in the model."""
        shown = self._in_training is not None
        self.hide_average()
        try:
            yield
        finally:
            if shown:
                self.show_average()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.hide_average()

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.show_average()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.show_average()


class ValidationBleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the figures of each epoch, before TensorBoard writes them.

    Args:
        translate: maps texts to their translations.
        pairs: sentences and their references.
        tokenize: how BLEU splits text into words, as in `score_translations`.
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
        from tf_transformer.evaluation import score_translations

        translations = self.translate(self.sources)
        logs["val_bleu"] = score_translations(translations, self.references, tokenize=self.tokenize).bleu


class SummaryCallback(keras.callbacks.Callback):
    """Writes summaries for TensorBoard, into one file for the whole training.

    TensorBoard reads several in a folder by the order of their names, which isn't always that of time.

    Args:
        log_dir: TensorBoard's folder.
    """

    def __init__(self, log_dir: str | os.PathLike) -> None:
        super().__init__()
        self.log_dir = str(log_dir)
        self._writer: Any | None = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Within it, summaries go to the file, under the number of updates made."""
        import tensorflow as tf

        self._writer = self._writer or tf.summary.create_file_writer(self.log_dir)
        with self._writer.as_default(step=steps_taken(self.model)):
            yield
        self._writer.flush()


class SampleTranslations(SummaryCallback):
    """Writes translations of a few sentences as text for TensorBoard at the end of each epoch.

    Beside each stands its reference; words that one has and the other has not are bold.

    Args:
        translate: maps texts to their translations.
        pairs: sentences and their references.
        log_dir: TensorBoard's folder.
    """

    def __init__(
        self,
        translate: Callable[[Sequence[str]], Sequence[str]],
        pairs: Sequence[tuple[str, str]],
        log_dir: str | os.PathLike,
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
