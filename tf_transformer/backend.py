"""Checks which Keras backend this process uses."""

import keras

from tf_transformer.errors import UserError


def check_is_tensorflow(what: str) -> None:
    """Raises a UserError where Keras computes with another backend, for what only TensorFlow does."""
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise UserError(
            f"{what} needs Keras's TensorFlow backend, but this process uses {backend}: set the environment variable "
            "KERAS_BACKEND=tensorflow before Keras is imported"
        )
