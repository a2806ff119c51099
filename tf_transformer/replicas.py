"""What a step knows of the devices that share its batch."""

from __future__ import annotations

from typing import Any

import keras


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
