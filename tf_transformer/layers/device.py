"""Where the layers run."""

from __future__ import annotations

import keras


def on_gpu() -> bool:
    """Whether TensorFlow runs the layers on a GPU: it does if the machine has one.

    Example:
        >>> from tf_transformer.layers.device import on_gpu
        >>> on_gpu() in (True, False)
        True
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
