"""Operations that Keras makes of many of TensorFlow's, made of few: graphs are smaller, and traced in less time."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


def shape_of(x: Any) -> tuple:
    """The length of each axis: a number where it is known, else a scalar int32 tensor, as `ops.shape` gives it.

    `ops.shape` takes each unknown length out of TensorFlow's shape by itself, which is four operations; here it is one
    for all of them.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.lean_ops import shape_of
        >>> shape_of(np.zeros((2, 3)))
        (2, 3)
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if isinstance(x, tf.Tensor) and x.shape.rank is not None:
            known = x.shape.as_list()
            if None not in known:
                return tuple(known)
            unknown = tf.unstack(tf.shape(x))
            return tuple(there if length is None else length for length, there in zip(known, unknown, strict=True))
    return ops.shape(x)


def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """`ops.take` for indices of at least 0: `ops.take` also counts negative ones from the end, for eight operations.

    Example:
        >>> import numpy as np
        >>> from tf_transformer.layers.lean_ops import take
        >>> take(np.array([10, 20, 30]), [2, 0]).numpy().tolist()
        [30, 10]
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(x, indices, axis=axis)
    return ops.take(x, indices, axis=axis)
