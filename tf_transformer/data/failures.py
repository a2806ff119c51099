"""Restores the original error when reading pairs fails inside `tf.data`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tf_transformer.data.pairs import Source


@contextmanager
def original_errors(*sources: Iterable) -> Iterator[None]:
    """Raises what a source raised, in place of the error that `tf.data` makes of it.

    Args:
        sources: What is read inside; those that are no `Source`, such as lists, are passed over.

    Example:
        >>> import tensorflow as tf
        >>> class Broken(Source):
        ...     def _pairs(self):
        ...         yield "a dog", "ein Hund"
        ...         raise ValueError("the disk is gone")
        >>> pairs = Broken()
        >>> with original_errors(pairs):
        ...     spec = tf.TensorSpec([2], tf.string)
        ...     list(tf.data.Dataset.from_generator(lambda: iter(pairs), output_signature=spec))
        Traceback (most recent call last):
        ValueError: the disk is gone
    """
    import tensorflow as tf

    watched = [source for source in sources if isinstance(source, Source)]
    for source in watched:
        source.error = None
    try:
        yield
    except tf.errors.OpError:
        for source in watched:
            if source.error is not None:
                raise source.error  # noqa: B904  its own cause says more than TensorFlow's wrapping
        raise
