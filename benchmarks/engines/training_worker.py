"""The engine's side of the training benchmark: makes a model once, then times a round over the batches when told to.

It runs under each engine's own Python: beside the standard library it takes NumPy alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from protocol import Options, begin, memory, requests

# How all engines learn. Adam's rate is constant, and small enough for a model without warm-up.
LABEL_SMOOTHING = 0.1
DROPOUT = 0.1
ADAM = {"learning_rate": 1e-4, "beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9}

# So many sentences of the first batch have their loss told; few, so that it takes no memory worth counting.
CHECKED_ROWS = 4


class Batch(NamedTuple):
    """Padded ids, int32, 0 for padding.

    Attributes:
        source: (rows, source length), tokens + END.
        target: (rows, target length), START + tokens.
        labels: (rows, target length), tokens + END.
    """

    source: np.ndarray
    target: np.ndarray
    labels: np.ndarray


class Share(NamedTuple):
    """A process's part of all batches.

    Attributes:
        rank: its number, from 0.
        processes: how many there are.
    """

    rank: int
    processes: int

    def rows(self, batch: Batch) -> Batch:
        """Its rows of a batch, which has rows of like length."""
        return Batch(*(ids[self.rank :: self.processes] for ids in batch))

    def weight(self, batch: Batch) -> float:
        """What its mean loss a token is multiplied by, so that the mean over the processes is that of all tokens."""
        return float((self.rows(batch).labels != 0).sum() / (batch.labels != 0).sum() * self.processes)


class Training(NamedTuple):
    """A model under training.

    Attributes:
        parameters: how many numbers are trained.
        train: makes one update with each batch, in their order, and returns when the last one is done.
        loss: the smoothed loss a token of the checked rows, dropout off; None where nothing is learned.
        peak_mib: the most memory so far in MiB, of a GPU or of several processes; None for this process's own.
    """

    parameters: int
    train: Callable[[], None]
    loss: Callable[[], float | None]
    peak_mib: Callable[[], float] | None = None


def load_batches(file: str) -> list[Batch]:
    """Reads what `training_batches.save_batches` wrote."""
    with np.load(file) as arrays:
        return [Batch(*(arrays[f"{name}_{i}"] for name in Batch._fields)) for i in range(len(arrays) // 3)]


def checked_rows(batches: list[Batch]) -> Batch:
    """The rows whose loss is told."""
    return Batch(*(ids[:CHECKED_ROWS] for ids in batches[0]))


def serve(load: Callable[[Options, list[Batch]], Training], packages: list[str]) -> None:
    """Answers the driver until its requests end; each request after the options asks for a round.

    Args:
        load: makes the model with the weights that the options name.
        packages: whose versions to tell.
    """
    options, answer = begin()
    training = load(options, load_batches(options["batches"]))
    versions = {name: version(name) for name in packages}
    answer(parameters=training.parameters, loss=training.loss(), loaded_mib=memory("VmRSS"), versions=versions)
    for _ in requests():
        began, began_cpu = time.perf_counter(), time.process_time()
        training.train()
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
        peak_mib = training.peak_mib() if training.peak_mib else memory("VmHWM")
        answer(seconds=seconds, cpu_seconds=cpu_seconds, peak_mib=peak_mib, loss=training.loss())
