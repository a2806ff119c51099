"""Stops a training cleanly on Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
from rich.console import Console

from tf_transformer.console import tell
from tf_transformer.errors import Preempted
from tf_transformer.runs.checkpoints import Checkpoints
from tf_transformer.runs.state import TrainingState

# A scheduler sends SIGTERM to each process of a job, and a sweep sends it on to its training: within so many seconds,
# it is one order that came twice.
ONE_ORDER_SECONDS = 1.0


class Interruption(keras.callbacks.Callback):
    """Ends a training between two steps once a signal has come, and saves its state before.

    In a validation it ends at once: the training then goes on from the state saved before that. After the last one it
    ends once the last state is saved, and is not scored. A second signal ends everything at once, but for a SIGTERM
    right after the first.

    Args:
        state: saves the state.
        checkpoints: saves the model.
        console: where it is told that a signal has come.
    """

    def __init__(self, state: TrainingState, checkpoints: Checkpoints, console: Console) -> None:
        super().__init__()
        self.state = state
        self.checkpoints = checkpoints
        self.console = console
        self.signal: signal.Signals | None = None
        self._signalled = 0.0

    @contextmanager
    def watching(self, chief: bool = True) -> Iterator[None]:
        """Within it, SIGINT and SIGTERM are waited for; only the main thread can do so.

        Args:
            chief: whether this process is the one that saves; of several workers, the others stop with it.
        """
        main = chief and threading.current_thread() is threading.main_thread()
        # What is ignored stays so: a shell turns Ctrl-C off for what it starts in the background.
        waited_for = (signal.SIGINT, signal.SIGTERM) if main else ()
        signals = [each for each in waited_for if signal.getsignal(each) != signal.SIG_IGN]
        before = {each: signal.signal(each, self._note) for each in signals}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
        # It came when all steps were done, while the last state was being written: no callback has seen it.
        if self.signal:
            self._stop()

    def _note(self, number: int, frame: Any) -> None:
        again, now = self.signal is not None, time.monotonic()
        if number == self.signal == signal.SIGTERM and now - self._signalled < ONE_ORDER_SECONDS:
            return
        self.signal, self._signalled = signal.Signals(number), now
        if again:
            self._stop()
        tell(
            self.console,
            f"{self.signal.name}: stopping after the current step; a second signal ends the process at once",
        )

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Where the epoch ends, its validation comes next, and no state can be saved between the two.
        if self.signal and not self.model.stop_training:
            if self.state.saves_within_epochs:
                self.state.save()
            self._end()

    def on_test_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.signal:
            self._end()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.signal:
            self._end()

    def _end(self) -> None:
        self.state.check()
        self.state.wait()
        if self.state.average:
            self.state.average.show_average()
        self.checkpoints.save_interrupted()
        self._stop()

    def _stop(self) -> None:
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise Preempted(f"stopped by {self.signal.name}; {self.state.place()}")
