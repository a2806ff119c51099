"""On which devices a model trains."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import keras

from tf_transformer.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf


def make_strategy(distribution: str = "mirrored") -> tf.distribute.Strategy:
    """Makes the strategy under whose `scope()` a model is made, compiled and fitted.

    Args:
        distribution: "mirrored": `tf.distribute.MirroredStrategy` over all GPUs, or over all logical CPU devices where
            there is no GPU, one device included; "single": TensorFlow's default, one device.

    Raises:
        UserError: another distribution.

    Example:
        >>> from tf_transformer.training import make_strategy
        >>> make_strategy("single").num_replicas_in_sync
        1
    """
    import tensorflow as tf

    if distribution == "single":
        return tf.distribute.get_strategy()
    if distribution == "mirrored":
        return _mirrored_strategy()
    raise UserError(f"distribution must be mirrored or single, got {distribution!r}")


def split_cpu(parts: int) -> None:
    """Makes the CPU that many devices of one thread each, over which a MirroredStrategy shares every batch.

    On a CPU most operations of a training step are too small to be worth sharing among threads; parts of a batch side
    by side use the cores better. Where there is a GPU nothing is changed.

    Args:
        parts: how many, at most one a core; 1 leaves TensorFlow's defaults.

    Raises:
        UserError: TensorFlow has set up its devices already, otherwise than asked for.

    Example:
        >>> from tf_transformer.training import split_cpu
        >>> split_cpu(1)
    """
    import tensorflow as tf

    if parts == 1 or tf.config.list_physical_devices("GPU"):
        return
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * parts)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        # One more than compute, for the thread that waits for the next batch.
        tf.config.threading.set_inter_op_parallelism_threads(parts + 1)
    except RuntimeError:
        there = len(tf.config.list_logical_devices("CPU"))
        if there != parts:
            raise UserError(
                f"TensorFlow runs with {there} CPU device(s) already, training.cpu_devices asks for {parts}; "
                "start a new process, or ask for as many"
            ) from None


# Made once a process: the collective operations of a second MirroredStrategy would take the keys of the first one's
# anew, and TensorFlow then finds their shapes at odds.
@functools.cache
def _mirrored_strategy() -> tf.distribute.Strategy:
    import tensorflow as tf

    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    return tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices(kind)])


def sum_over_replicas(value: Any) -> Any:
    """The sum of a scalar over the devices that share a batch; the scalar itself where there is only one."""
    if keras.backend.backend() != "tensorflow":
        return value
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return value
    return replica.all_reduce(tf.distribute.ReduceOp.SUM, value)
