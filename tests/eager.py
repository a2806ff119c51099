"""Runs what would be traced as the Python that it is, which for a few small steps takes less time than tracing.

What is loaded from a SavedModel is a graph in any case, and so is what a dataset maps.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf


@contextmanager
def eagerly() -> Iterator[None]:
    """No `tf.function` is traced meanwhile, those of `fit` and of a `Translator` included; then all is as before."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
