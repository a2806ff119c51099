"""Training one model with several workers, each a process with its own devices.

Each runs the same program, and they meet in collective operations: a worker that left one out would keep the others
waiting for ever. So all train, validate and stop alike, and only what needs no other worker is the chief's alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_transformer.distributed.cluster import Cluster, read_cluster, wait_for_workers
from tf_transformer.errors import UserError, WorkerLost
from tf_transformer.layers.lean_ops import shape_of

MENDED_KERAS = "3.15."

# How TensorFlow's error begins to tell why an operation that needs all workers has ended.
ABORTED = "Collective ops is aborted"


class MultiWorkerStrategy(tf.distribute.MultiWorkerMirroredStrategy):
    """TensorFlow's strategy with a mend for Keras, whose `fit` can't be used with it (keras#20585).

    Keras calls `reduce` in two places where several workers make it fail. To see a batch's shapes before training it
    takes the mean of the batches of all workers, handed over as a tuple that `reduce` does not take apart. And it takes
    the mean of a step's figures, one number each, along their first axis, which they don't have.

    To be dropped when Keras has mended it, which a test will notice: `tests/distributed/test_multi_worker.py`.
    """

    def __init__(self, cluster: Cluster) -> None:
        if not keras.__version__.startswith(MENDED_KERAS):
            raise UserError(
                f"training with several workers needs Keras {MENDED_KERAS}x, whose fit this package patches for it; "
                f"this is {keras.__version__}: run pip install 'keras=={MENDED_KERAS}*'"
            )
        super().__init__()
        self.cluster = cluster

    def reduce(self, reduce_op: Any, value: Any, axis: int | None) -> Any:
        """As TensorFlow's, but for what Keras asks for."""
        if isinstance(value, tuple):
            return tf.nest.map_structure(lambda part: self.experimental_local_results(part)[0], value)
        return super().reduce(reduce_op, value, axis=reduced_axis(self, value, axis))


def reduced_axis(strategy: tf.distribute.Strategy, value: Any, axis: int | None) -> int | None:
    """The axis that a figure is reduced over: none of a scalar, of which each device of a worker may have its own."""
    return axis if strategy.experimental_local_results(value)[0].shape.rank else None


# Once a process, like its server.
@cache
def multi_worker_strategy(cluster: Cluster) -> tf.distribute.Strategy:
    """Waits for all workers and makes their strategy.

    Raises:
        UserError: the versions don't go together; or TensorFlow has done its first work already.
        WorkerLost: a worker is missing.
    """
    wait_for_workers(cluster)
    try:
        return MultiWorkerStrategy(cluster)
    except RuntimeError as error:
        if "program startup" not in str(error):
            raise
        raise UserError(
            "TensorFlow has already started in this process and can no longer connect to other workers; call "
            "make_strategy before any other TensorFlow operation"
        ) from None


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy has other workers."""
    return isinstance(strategy, MultiWorkerStrategy)


def worker_share(batches: tf.data.Dataset, strategy: tf.distribute.Strategy) -> Any:
    """Gives each worker its rows of each batch, for `fit`; without other workers the batches stay as they are.

    All workers go through the same text and make the same batches, of which each keeps its rows. So any number of
    workers takes the same steps. The price is that each worker tokenises everything. TensorFlow's own sharding would
    give each worker other sentences in other batches.

    Args:
        batches: of the whole job; their numbers of rows must be multiples of the number of devices, see `make_batches`.
        strategy: of `make_strategy`.

    Returns:
        What `fit` and `evaluate` take under the strategy.
    """
    if not is_multi_worker(strategy):
        return batches
    devices = strategy.num_replicas_in_sync

    def share(context: tf.distribute.InputContext) -> tf.data.Dataset:
        here = devices // context.num_input_pipelines
        first = context.input_pipeline_id * here

        def of_each_device(ids: tf.Tensor) -> tf.Tensor:
            return tf.reshape(ids, (devices, -1, *shape_of(ids)[1:]))[first : first + here]

        # This worker's devices take turns at what comes out: the rows that each would have if all were in one machine.
        return batches.map(lambda *batch: tf.nest.map_structure(of_each_device, batch)).unbatch()

    return strategy.distribute_datasets_from_function(share)


def check_agreement(strategy: tf.distribute.Strategy, **values: Any) -> None:
    """Has all workers compare what must be the same for them all; each must call it, and waits here for the others.

    Args:
        strategy: of `make_strategy`.
        **values: what to compare, by the name under which a difference is told; anything that its `repr` tells from
            others.

    Raises:
        UserError: a worker differs from the chief; all workers raise it.
    """
    if not is_multi_worker(strategy):
        return
    of_workers = _gathered(strategy, [_digest(name, value) for name, value in values.items()])
    for name, column in zip(values, of_workers.T, strict=True):
        others = np.flatnonzero(column != column[0])
        if len(others):
            raise UserError(
                f"{strategy.cluster.name(others[0])} and {strategy.cluster.name(0)} differ in their {name}; give all "
                "workers the same command, the same data and the same run folder"
            )


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns once all workers have called it."""
    check_agreement(strategy, call="")


def chief_first(strategy: tf.distribute.Strategy, function: Callable[[], Any]) -> Any:
    """Calls a function, on the other workers once it has returned on the chief; returns what it does here.

    Raises:
        UserError: the function found a mistake, on the chief, which ends the others too, or here.
    """
    if not is_multi_worker(strategy):
        return function()
    if strategy.cluster.index == 0:
        try:
            value = function()
        except UserError:
            # Told to the others, who would take the chief for lost and say that trying again may help.
            with suppress(tf.errors.OpError):
                _gathered(strategy, [1])
            raise
        _gathered(strategy, [0])
        return value
    if _gathered(strategy, [0])[0, 0]:
        raise UserError(
            f"{strategy.cluster.name(0)} has found a mistake; read its output, correct the mistake, then give all "
            "workers the same command again"
        )
    return function()


def _gathered(strategy: tf.distribute.Strategy, numbers: list[int]) -> np.ndarray:
    """The numbers of each worker, a row each; all must call it, and wait here for the others."""

    @tf.function(autograph=False)
    def gather() -> tf.Tensor:
        return strategy.gather(strategy.run(lambda: tf.constant([numbers], tf.int64)), axis=0)

    gathered = gather().numpy()
    return gathered[:: len(gathered) // len(strategy.cluster.tasks)]


@contextmanager
def telling_lost_workers() -> Iterator[None]:
    """Within it, or in a function that it decorates, the end of another worker is a `WorkerLost`.

    TensorFlow's own error comes at once where a worker's process ends, and after some ten seconds of silence where its
    machine does.
    """
    try:
        yield
    except tf.errors.OpError as error:
        told = str(error)
        cluster = read_cluster()
        if not cluster or not (isinstance(error, tf.errors.UnavailableError) or ABORTED in told):
            raise
        found = re.search(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", told.partition(ABORTED)[2])
        task = f"{found[1]} {found[2]}" if found else ""
        name = cluster.name(cluster.tasks.index(task)) if task in cluster.tasks else "another worker"
        raise WorkerLost(
            f"{name} has stopped, and the others can't continue without it; read its output, then give all workers the "
            "same command again: training resumes from its last validation"
        ) from None


def _digest(name: str, value: Any) -> int:
    return int.from_bytes(hashlib.sha256(f"{name} {value!r}".encode()).digest()[:8], "big", signed=True)
