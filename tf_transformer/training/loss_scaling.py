"""Loss scaling for float16 that counts the steps taken."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tf_transformer.distributed.replicas import is_one_device, sum_over_replicas


@keras.saving.register_keras_serializable(package="tf_transformer")
class LossScaling(keras.optimizers.LossScaleOptimizer):
    """Keras's loss scaling, that counts the steps whose update it leaves out as well.

    Where a scaled gradient is too large for float16, Keras makes no update and halves the scale, and `iterations`
    stays. But the batch is gone: validations are due, and a training goes on, by the count of the batches.

    Args:
        inner_optimizer: the optimizer that updates.
        **kwargs: other arguments of `keras.optimizers.LossScaleOptimizer`, such as `initial_scale`.

    Attributes:
        steps: updates made and left out together; an int64 variable, once the optimizer is built.

    Example:
        >>> from tf_transformer.training import TransformerAdam
        >>> from tf_transformer.training.loss_scaling import LossScaling
        >>> LossScaling(TransformerAdam(0.001), initial_scale=1024.0).initial_scale
        1024.0
    """

    def build(self, variables: list[keras.Variable]) -> None:
        # Each device counts the same.
        self.steps = self.add_variable((), "zeros", "int64", aggregation="only_first_replica", name="steps")
        super().build(variables)

    def apply(self, grads: list[Any], trainable_variables: list[keras.Variable] | None = None) -> None:
        """Takes a step, or leaves the update out.

        Args:
            grads: the gradients of the scaled loss; float, as the variables.
            trainable_variables: what to update; unless given, what the optimizer was built with.
        """
        super().apply(grads if is_one_device() else self._told_of_others(grads), trainable_variables)
        self.steps.assign_add(1)

    def _told_of_others(self, grads: list[Any]) -> list[Any]:
        """The gradients, one of them NaN if those of any device are not finite.

        Keras asks the first device alone, as though it had the sum of all devices' gradients; each has its own.
        """
        not_finite = sum_over_replicas(1.0 - ops.cast(self.check_finite(grads), "float32"))
        index, first = next((index, grad) for index, grad in enumerate(grads) if grad is not None)
        told = ops.where(not_finite > 0, ops.full_like(first, float("nan")), first)
        return [*grads[:index], told, *grads[index + 1 :]]

    def stateless_apply(
        self, optimizer_variables: list[Any], grads: list[Any], trainable_variables: list[Any]
    ) -> tuple[list[Any], list[Any]]:
        """As `apply`, with all values handed in and out; what Keras calls on JAX."""
        updated, own = super().stateless_apply(optimizer_variables, grads, trainable_variables)
        steps = next(index for index, variable in enumerate(self.variables) if variable is self.steps)
        own = list(own)
        own[steps] = own[steps] + 1
        return updated, own
