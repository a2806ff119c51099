"""A handler that notes in which process a model is loaded; in a module of its own, which Beam's processes import."""

import os
from collections.abc import Callable

from tf_transformer.apache_beam.handler import TranslationHandler


class Counting(TranslationHandler):
    """Appends the process's number to a file whenever it loads the model."""

    def __init__(self, model: str, notes: str, **arguments) -> None:
        super().__init__(model, **arguments)
        self.notes = notes

    def load_model(self) -> Callable:
        with open(self.notes, "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().load_model()
