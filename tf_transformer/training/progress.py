"""Shows a training's progress on the terminal."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tf_transformer.console import tell
from tf_transformer.training.step_count import StepCounter, steps_taken

# How a line tells each figure, in their order.
FIGURES = {
    "loss": "loss {:.3f}",
    "perplexity": "perplexity {:8.2f}",
    "val_perplexity": "on validation {:8.2f}",
    "val_accuracy": "accuracy {:.3f}",
    "val_bleu": "BLEU {:.2f}",
    "val_f1": "F1 {:.2f}",
    "alignment_loss": "alignment loss {:.3f}",
    "tokens_per_second": "{:,.0f} tokens/s",
    "data_wait": "waited for data {:.1%}",
}


class ProgressBar(StepCounter):
    """Shows one bar for the whole training run, and a line at each validation.

    If the output is not a terminal, only the lines are written. A line has the figures that there are: the loss;
    `Perplexity`; on the validation set `Perplexity` and the accuracy of `TokenAccuracy`; and what the callbacks
    `ValidationBleu`, `Pace` (tokens a second, of the metric `TokenCount`) and `DataWait` work out, which must come
    before this one.

    Call `stop` when training has ended, even with an error; until then the bar keeps the terminal.

    Args:
        steps: how many steps the training run has.
        console: where to write.

    Example:
        >>> import keras
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> bar = ProgressBar(700, Console(width=200))
        >>> bar.set_model(model)
        >>> validation = {"val_perplexity": 9.25, "val_accuracy": 0.5}
        >>> speed = {"tokens_per_second": 4000.0, "data_wait": 0.01}
        >>> bar.on_epoch_end(0, {"loss": 3.1, "perplexity": 8.5, **validation, **speed})  # as `fit` calls it
        step 0 loss 3.100 perplexity 8.50 on validation 9.25 accuracy 0.500 4,000 tokens/s waited for data 1.0%
    """

    def __init__(self, steps: int, console: Console) -> None:
        super().__init__()
        self.steps = steps
        self.console = console
        self._since: tuple[float, int] | None = None  # the time after the first step, and which it was

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps  loss {task.fields[loss]:.3f}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        taken = steps_taken(self.model)
        self.task = self.progress.add_task("training", total=self.steps, completed=taken, loss=float("nan"))
        self.progress.start()
        self._began: float | None = time.perf_counter()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._loss: Any = None

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        if self._began is not None:
            seconds, self._began = time.perf_counter() - self._began, None
            done = "traced and compiled" if self.model.jit_compile else "traced"
            tell(self.console, f"first step: {seconds:.1f} s, in which the model was {done}")
            self._since = time.perf_counter(), self.taken
        if self.console.is_terminal:
            # The loss of the step before: the device may still be at work on this one.
            known = {} if self._loss is None else {"loss": float(self._loss)}
            self.progress.update(self.task, completed=self.taken, **known)
            self._loss = logs["loss"]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        new = logs.get("new_shapes")
        compiled = f"   compiled {new} batch shapes in {logs['new_shapes_seconds']:.1f} s" if new else ""
        told = "   ".join(form.format(logs[key]) for key, form in FIGURES.items() if key in logs)
        step = f"step {steps_taken(self.model):>7,}"
        tell(self.console, f"{step}   {told}{compiled}{self._left()}")

    def _left(self) -> str:
        """The time that the rest takes at the pace since the first step, validation and all."""
        if not self._since:
            return ""
        began, first = self._since
        if self.taken in (first, self.steps):
            return ""
        seconds = (time.perf_counter() - began) / (self.taken - first) * (self.steps - self.taken)
        if seconds < 100:
            return f"   {seconds:.0f} s left"
        return f"   {seconds / 60:.0f} min left" if seconds < 6000 else f"   {seconds / 3600:.1f} h left"

    def stop(self) -> None:
        """Removes the bar; it must be called when training ends, even with an error."""
        if hasattr(self, "progress"):
            self.progress.stop()
