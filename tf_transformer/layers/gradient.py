"""Functions whose gradient is written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops


def custom_gradient(function: Callable[..., tuple[Any, Callable[[Any], Any]]]) -> Callable[..., Any]:
    """Keras's `custom_gradient` for one output, with one way for all backends to hand over the gradient from above.

    Args:
        function: maps tensors to a tensor, and to a function from the gradient with respect to that tensor to those
            with respect to its arguments.

    Returns:
        A function from the same tensors to the tensor.

    Example:
        >>> from keras import ops
        >>> from tf_transformer.layers.gradient import custom_gradient
        >>> double = custom_gradient(lambda x: (2 * x, lambda upstream: 2 * upstream))
        >>> float(double(ops.convert_to_tensor(3.0)))
        6.0
    """

    @ops.custom_gradient
    def wrapped(*tensors: Any) -> tuple[Any, Any]:
        value, gradient = function(*tensors)

        def handed_over(*args: Any, upstream: Any | None = None) -> Any:
            return gradient(args[0] if upstream is None else upstream)

        return value, handed_over

    return wrapped
