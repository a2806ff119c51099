"""TensorBoard's event files: one for each run and process, cut to the saved state when a training resumes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# What a TFRecord file holds of a record beside its bytes: their number, and a checksum of each.
AROUND_A_RECORD = 8 + 4 + 4


class EventFile:
    """A file of summaries for TensorBoard, which several callbacks share; it is made when the first of them writes.

    A folder is one of TensorBoard's runs. It reads the files of a folder in turn, and what is added to one after the
    next has begun, it does not show: so a process has one for each.

    Args:
        folder: where the file goes.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)

    @cached_property
    def writer(self) -> tf.summary.SummaryWriter:
        """TensorFlow's writer of the file."""
        import tensorflow as tf

        return tf.summary.create_file_writer(str(self.folder))

    @contextmanager
    def writing(self, step: int) -> Iterator[None]:
        """Within it, summaries go to the file, under this step; at its end they lie there."""
        with self.writer.as_default(step=step):
            yield


def forget_after(log_dir: str | os.PathLike, step: int) -> None:
    """Cuts off what event files hold of later steps, for a training that goes on from this one and writes it again.

    Args:
        log_dir: the folder below which they lie, in each of which steps only grow.
        step: the last one that is kept.
    """
    import tensorflow as tf
    from tensorboard.compat.proto.event_pb2 import Event

    for path in Path(log_dir).rglob("*tfevents*"):
        kept = 0
        # What a process that was killed left half-written is an error, and the end.
        for record in tf.data.TFRecordDataset(str(path)).ignore_errors().as_numpy_iterator():
            if Event.FromString(record).step > step:
                os.truncate(path, kept)
                break
            kept += len(record) + AROUND_A_RECORD
