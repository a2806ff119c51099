"""Information about the devices that share a batch, for a model and its training steps.

TensorFlow's sum in a device's context, `all_reduce`, has a custom gradient. In a graph each is entered in a registry
that is never cleared, and with it the graph, the model's weights and its optimizer. Nothing here needs that gradient,
so sums are made in the context of all devices, where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras


def sum_over_replicas(value: Any) -> Any:
    """The sum of a tensor, or of each in a list, over the devices that share a batch; of one device its own."""
    if is_one_device():
        return value
    import tensorflow as tf

    def summed(strategy: tf.distribute.Strategy, *values: Any) -> list[Any]:
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, [(each, each) for each in values])

    sums = tf.distribute.get_replica_context().merge_call(summed, args=tf.nest.flatten(value))
    return tf.nest.pack_sequence_as(value, sums)


def without_sums(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function that takes a step; without a distribution strategy, in the context of all devices.

    There Keras's optimizers sum nothing up. Under a strategy `TransformerAdam` does it without a gradient.
    """
    if keras.backend.backend() != "tensorflow":
        return function(*arguments)
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context is None or tf.distribute.has_strategy():
        return function(*arguments)
    return context.merge_call(lambda strategy, *given: function(*given), args=arguments)


def is_one_device() -> bool:
    """Whether the step that is being made works on the whole batch."""
    return number_of_replicas() == 1


def number_of_replicas() -> int:
    """How many devices share the batch of the step that is being made."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    return 1 if replica is None else replica.num_replicas_in_sync


def scope_of(model: keras.Model) -> AbstractContextManager:
    """The scope that a model's variables must be made in: that of the strategy under which the model was made.

    Where a scope has been entered already, which Keras and custom loops do, that one stays.
    """
    if keras.backend.backend() != "tensorflow":
        return nullcontext()
    import tensorflow as tf

    return nullcontext() if tf.distribute.has_strategy() else model.distribute_strategy.scope()
