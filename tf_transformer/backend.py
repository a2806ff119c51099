"""Which of Keras's backends this process computes with."""

import keras

from tf_transformer.errors import UserError


def check_is_tensorflow(what: str) -> None:
    """Raises a UserError where Keras computes with another backend, for what only TensorFlow does."""
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise UserError(
            f"{what} needs Keras's TensorFlow backend, and this process has {backend}: set the environment variable "
            "KERAS_BACKEND=tensorflow before Keras is imported"
        )
