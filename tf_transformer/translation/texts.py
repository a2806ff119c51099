"""Translating many texts, in batches of like length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tf_transformer.errors import UserError, check_is_list, telling_out_of_memory

T = TypeVar("T")

MEMORY_ADVICE = (
    "lower the batch size (--batch-size) or the beam size (--beam-size), or end other programs that use this memory"
)

# What is given for each text.
COLUMNS = ("translation", "score", "truncated")

# What `Translator.translate` is: strings (batch,) -> `COLUMNS` by name, each (batch,), or the first two
# (batch, hypotheses) where several were asked for; tensors or arrays
Translate = Callable[[Any], dict[str, Any]]


class Translation(NamedTuple):
    """A text's translation, its score, whether the text was cut to the model's positions, and the other hypotheses.

    `others` has the text and score of each further hypothesis requested, best first.

    Example:
        >>> Translation("Ein Hund.", -0.25, truncated=False).text
        'Ein Hund.'
    """

    text: str
    score: float
    truncated: bool
    others: tuple[tuple[str, float], ...] = ()


def translate_texts(
    translate: Translate,
    texts: Sequence[str],
    batch_size: int = 64,
    streams: int = 1,
    advance: Callable[[int], Any] = lambda done: None,
    window: int | None = None,
) -> Iterator[Translation]:
    """Translates texts in batches of similar length.

    Args:
        translate: as `load_translate` gives it.
        texts: any number of texts.
        batch_size: texts at once.
        streams: batches at once, each in a thread of its own.
        advance: called with the number of texts in each batch that is done.
        window: how many texts, a multiple of `batch_size`, are put into batches together at a time; all of
            them unless given. Texts that are given window by window are in the same batches, so that scores are the
            same to the last bit.

    Returns:
        Their translations, in the order of `texts`.

    Raises:
        UserError: `texts` is one string, or `batch_size` or `streams` is less than 1.
        OutOfMemory: so many texts at once need more memory than there is.

    Example:
        >>> import tensorflow as tf
        >>> def shout(texts):
        ...     score, truncated = tf.zeros(len(texts)), tf.fill(len(texts), False)
        ...     return {"translation": tf.strings.upper(texts), "score": score, "truncated": truncated}
        >>> [translation.text for translation in translate_texts(shout, ["a dog", "a"])]
        ['A DOG', 'A']
    """
    return in_batches(lambda batch: as_translations(translate(batch)), texts, batch_size, streams, advance, window)


def in_batches(
    function: Callable[[list[str]], list[T]],
    texts: Sequence[str],
    batch_size: int,
    streams: int,
    advance: Callable[[int], Any],
    window: int | None = None,
) -> Iterator[T]:
    """Does what `translate_texts` does, with a function that gives any one value for each text of a batch."""
    check_is_list(texts, "texts")
    for name, value in {"batch_size": batch_size, "streams": streams}.items():
        if value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1")
    window = window or len(texts)
    order = sorted(range(len(texts)), key=lambda i: (i // window, len(texts[i])))
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    found: dict[int, T] = {}

    def run(batch: list[int]) -> list[T]:
        return function([texts[i] for i in batch])

    at_once = min(streams * batch_size, len(texts))
    threads = ThreadPoolExecutor(streams)
    try:
        with telling_out_of_memory(lambda: f"with {at_once:,} sentences at once", MEMORY_ADVICE):
            for batch, done in zip(batches, threads.map(run, batches), strict=True):
                found.update(zip(batch, done, strict=True))
                advance(len(batch))
    finally:
        threads.shutdown(cancel_futures=True)  # after Ctrl-C or an error none is begun any more
    return (found[i] for i in range(len(texts)))


def as_translations(output: Mapping[str, Any]) -> list[Translation]:
    """What a `Translate` gives, as Python values."""
    columns = (np.asarray(output[name]) for name in COLUMNS)
    return [_as_translation(*row) for row in zip(*columns, strict=True)]


def _as_translation(text: Any, score: Any, truncated: Any) -> Translation:
    """A row of it: one hypothesis, or several, best first."""
    if isinstance(text, bytes):
        return Translation(text.decode("utf-8", errors="replace"), float(score), bool(truncated))
    first, *others = [(t.decode("utf-8", errors="replace"), float(s)) for t, s in zip(text, score, strict=True)]
    # Where there are fewer hypotheses than were asked for, the rest has score -inf.
    return Translation(*first, bool(truncated), tuple(other for other in others if other[1] > -float("inf")))
