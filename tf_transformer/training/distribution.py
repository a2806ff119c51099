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


# Made once a process: the collective operations of a second MirroredStrategy would take the keys of the first one's
# anew, and TensorFlow then finds their shapes at odds.
@functools.cache
def _mirrored_strategy() -> tf.distribute.Strategy:
    import tensorflow as tf

    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    return tf.distribute.MirroredStrategy([device.name for device in tf.config.list_logical_devices(kind)])


def sum_over_replicas(value: Any) -> Any:
    """The sum of a tensor, or of each in a list, over the devices that share a batch; of one device its own."""
    if is_one_device():
        return value
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


def is_one_device() -> bool:
    """Whether the step that is being made works on the whole batch."""
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    return replica is None or replica.num_replicas_in_sync == 1
