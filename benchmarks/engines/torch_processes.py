"""PyTorch's own way to use all cores: processes of `DistributedDataParallel`, each with a share of every batch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from protocol import memory
from training_worker import Batch, Options, Share, Training, load_batches

Make = Callable[[Options, list[Batch], Share], Training]


def in_processes(make: Make, options: Options, batches: list[Batch]) -> Training:
    """Trains in `options["processes"]` processes, of which this is the first; each has its share of the threads.

    Args:
        make: the training of a share; it is called in every process, with its group set up, and must be a function
            that a new process can import.
    """
    processes = options["processes"]
    options = {**options, "threads": options["threads"] // processes}
    meeting = Path(tempfile.mkdtemp()) / "meeting"
    context = torch.multiprocessing.get_context("spawn")
    others = []
    for rank in range(1, processes):
        ours, theirs = context.Pipe()
        arguments = make, options, Share(rank, processes), meeting, theirs
        context.Process(target=_follow, args=arguments, daemon=True).start()
        others.append(ours)
    _join(Share(0, processes), meeting)
    training = make(options, batches, Share(0, processes))
    peaks = [0.0] * len(others)

    def train() -> None:
        for other in others:
            other.send("round")
        training.train()
        peaks[:] = [other.recv() for other in others]

    return training._replace(train=train, peak_mib=lambda: memory("VmHWM") + sum(peaks))


def _follow(make: Make, options: Options, share: Share, meeting: Path, first: Connection) -> None:
    """Makes a round each time the first process says so, and answers with this one's peak of memory in MiB."""
    _join(share, meeting)
    training = make(options, load_batches(options["batches"]), share)
    while first.recv():
        training.train()
        first.send(memory("VmHWM"))


def _join(share: Share, meeting: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=share.rank, world_size=share.processes
    )
