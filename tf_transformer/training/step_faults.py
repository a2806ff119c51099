"""Reports faults in a training step, with the batch that caused them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from tf_transformer.errors import UserError, reason, telling_out_of_memory
from tf_transformer.training.optimizer import gradient_norm
from tf_transformer.training.step_count import StepCounter, steps_taken

if TYPE_CHECKING:
    import tensorflow as tf

ADVICE = (
    "earlier states and checkpoints are kept; start another run, new or from the last state with --resume, with a "
    "lower learning rate, more training.warmup_steps or training.clip_norm"
)
TOLD = 5  # pairs named in the message; the file has all


class StepFaults(StepCounter):
    """Stops a training whose loss or gradient is no number, or that runs out of memory, and says on which batch.

    It looks at a step when the next one has been started, so that a device need not wait between the two. It must come
    before all callbacks that save something at the end of an epoch; what saves in the middle of one must call `check`.

    Args:
        batches_from: gives the batches of the training after so many steps.
        find_pairs: gives the numbers of the pairs that a batch was made of, from 1 on, and the pairs.
        report: the file that gets the pairs of a batch whose loss or gradient is no number.
        tell: gets the line that says that these are being looked for, which takes a while in a large corpus.
    """

    def __init__(
        self,
        batches_from: Callable[[int], tf.data.Dataset],
        find_pairs: Callable[[Any], Iterable[tuple[int, tuple[str, str]]]],
        report: Path,
        tell: Callable[[str], Any],
    ) -> None:
        super().__init__()
        self.batches_from = batches_from
        self.find_pairs = find_pairs
        self.report = report
        self.tell = tell
        self._validates = False
        self._unread: tuple[int, Any, Any] | None = None  # a step, its loss, the length of its gradient

    @contextmanager
    def told(self, model: keras.Model) -> Iterator[None]:
        """Within it, running out of memory is an `OutOfMemory`."""

        def where() -> str:
            if self._validates:
                return "in validation"
            step = steps_taken(model) + 1
            (source_ids, target_ids), _ = self._batch(step)
            shapes = f"{_shape(source_ids)} source and {_shape(target_ids)} target ids"
            return f"at step {step:,}, whose batch has {shapes}"

        advice = (
            "lower data.batch_tokens, raise training.gradient_accumulation (which computes a batch in parts), or drop "
            "long pairs with data.max_length"
        )
        with telling_out_of_memory(where, advice):
            yield

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        self.check()
        self._unread = self.taken, logs["loss"], gradient_norm(self.model)

    def check(self) -> None:
        """Looks at the last step now, for which it waits until the device has done it.

        Raises:
            UserError: its loss or gradient is no number.
        """
        if self._unread is None:
            return
        (last, loss, norm), self._unread = self._unread, None
        # The loss is the epoch's mean so far, which one bad step spoils.
        loss, norm = float(loss), float(norm)
        if not math.isfinite(loss):
            value = f"the loss is {loss}"
        elif not math.isfinite(norm):
            value = f"the gradient is {norm}"
        else:
            return
        steps = range(last - self.model.steps_per_execution + 1, last + 1)
        where = f"step {last:,}" if len(steps) == 1 else f"one of the steps {steps[0]:,} to {last:,}"
        fault = f"{where}: {value}"
        self.tell(f"{fault}; looking for its pairs in data.train")
        try:
            found = [row for step in steps for row in self.find_pairs(self._batch(step))]
        except UserError as unreadable:  # the text may have changed, which the training itself no longer reads
            raise UserError(f"{fault} (its pairs can't be identified: {reason(unreadable)}); {ADVICE}") from unreadable
        rows = [f"{number}\t{source}\t{target}\n" for number, (source, target) in found]
        self.report.write_text("".join(rows), encoding="utf-8")
        numbers = [f"{number:,}" for number, _ in found]
        more = f" and {len(numbers) - TOLD:,} more" if len(numbers) > TOLD else ""
        raise UserError(
            f"{fault}, on the pairs {', '.join(numbers[:TOLD])}{more} of data.train ({self.report} lists all); {ADVICE}"
        )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.check()
        loss = logs.get("val_loss", 0.0)
        if not math.isfinite(loss):
            raise UserError(f"validation after step {steps_taken(self.model):,}: the loss is {loss}; {ADVICE}")

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.check()
        self._validates = True

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        self._validates = False

    def _batch(self, step: int) -> Any:
        return next(iter(self.batches_from(step - 1)))


def _shape(ids: Any) -> str:
    return " x ".join(map(str, ids.shape))
