"""Chooses the devices that a model trains on."""

from __future__ import annotations

import functools
import signal
import threading
from typing import TYPE_CHECKING

from tf_transformer.distributed.cluster import is_chief, read_cluster
from tf_transformer.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf


def make_strategy(distribution: str = "mirrored") -> tf.distribute.Strategy:
    """Makes the strategy under whose `scope()` a model is made, compiled and fitted.

    Args:
        distribution: "mirrored": `tf.distribute.MirroredStrategy` over all GPUs, or over all logical CPU devices where
            there is no GPU, one device included; where `TF_CONFIG` names several workers, over those of all of them,
            for whom it waits: `tf.distribute.MultiWorkerMirroredStrategy`, to be made before TensorFlow's first work.
            "single": TensorFlow's default, one device.

    Raises:
        UserError: an unknown distribution; or `TF_CONFIG` is invalid.
        WorkerLost: one of several workers is missing.

    Example:
        >>> from tf_transformer import make_strategy
        >>> make_strategy("single").num_replicas_in_sync
        1
    """
    import tensorflow as tf

    if distribution not in ("mirrored", "single"):
        raise UserError(f"distribution must be mirrored or single, got {distribution!r}")
    cluster = read_cluster()
    if cluster:
        if distribution == "single":
            raise UserError(
                "distribution is single, but TF_CONFIG names several workers; set mirrored, or unset TF_CONFIG"
            )
        # Not above: with this module come the layers and the loss, which do without TensorFlow on other backends.
        from tf_transformer.distributed.multi_worker import multi_worker_strategy

        strategy = multi_worker_strategy(cluster)
        if is_chief():
            _restore_sigterm()
        return strategy
    return tf.distribute.get_strategy() if distribution == "single" else _mirrored_strategy()


def _restore_sigterm() -> None:
    """Puts back this process's handler of SIGTERM, which TensorFlow's runtime of several workers has replaced."""
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is threading.main_thread() and callable(handler):
        signal.signal(signal.SIGTERM, handler)


# Made once a process: the collective operations of a second MirroredStrategy would take the keys of the first one's
# again, and TensorFlow then finds their shapes at odds.
@functools.cache
def _mirrored_strategy() -> tf.distribute.Strategy:
    import tensorflow as tf

    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    return tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices(kind)])


def set_single_threaded_operations(at_once: int) -> bool:
    """Has each of TensorFlow's operations take one thread, and so many operations run at once.

    That is what `parallel_parts` needs. TensorFlow takes it only before its first work.

    Returns:
        Whether it did.

    Raises:
        UserError: there is a GPU, which shares out its work itself.
    """
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        raise UserError(f"parallel_parts is {at_once}, which is only for CPUs, but this machine has a GPU; set it to 1")
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(at_once)
    except RuntimeError:
        return False
    return True
