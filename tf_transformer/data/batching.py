"""Batches of padded ids from sentence pairs, sized by their number of tokens."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from tf_transformer.data.filters import CHUNK_SPEC, KEPT, any_kept, check_limits, chunks, encode_and_judge
from tf_transformer.errors import UserError
from tf_transformer.tokenizers.base import END_ID, PAD_ID, START_ID

if TYPE_CHECKING:
    from tf_transformer.tokenizers import TokenizerPair


def make_batches(
    pairs: Iterable[tuple[str, str]],
    tokenizers: TokenizerPair,
    *,
    batch_tokens: int,
    max_length: int,
    max_ratio: float | None = None,
    shuffle_buffer: int | None = None,
    seed: int | None = None,
    repeat: bool = False,
    row_multiple: int = 1,
    fixed_shapes: bool = False,
) -> tf.data.Dataset:
    """Turns sentence pairs into batches for `model.fit`.

    Pairs are streamed: only the shuffle buffer, the unfinished batches and a small prefetch are held in memory. A batch
    has pairs of similar length, as many as keep each side within `batch_tokens` positions, including padding. Pairs
    that are empty, too long or too different in length are dropped, and trees with a tag that the tokenizer lacks
    (`count_pairs` counts them). Each other pair occurs exactly once in a finite epoch, whose last batches may be small;
    for endless batches see `repeat`.

    Args:
        pairs: Source and target sentences, as an iterable that can be read again for each epoch.
        tokenizers: A `TokenizerPair`.
        batch_tokens: Maximum number of positions on each side of a batch, including padding.
        max_length: Maximum number of tokens on each side of a pair, including START or END.
        max_ratio: Maximum ratio of the longer side to the shorter one, including END; None for no limit.
        shuffle_buffer: Number of pairs held for shuffling, which differs in each epoch; None for no shuffling.
        seed: Makes the order of each epoch the same in every run; None for a different order each time.
        repeat: Whether to repeat the pairs endlessly. Epochs then follow each other without small batches in between: a
            pair waits until its bucket (`bucket_bounds`) fills a batch. If few pairs have a certain length, this can
            take several epochs: the pair then comes late, once per epoch in the same batch, or not at all before the
            training ends. At any time, less than one batch per bucket is waiting.
        row_multiple: Each batch's number of rows is a multiple of this; rows of padding fill up the last ones. With the
            number of devices here, all devices get the same number of rows, as Keras's `fit` requires.
        fixed_shapes: Whether all batches of a bucket (`bucket_bounds`) have the same shape, at the cost of more
            padding: for XLA and JAX, which compile a step for each shape.

    Returns:
        A dataset of `((source_ids, target_ids), labels)`, int32 and padded with 0. Of shape (batch,
        source_length): source tokens + END. Of shape (batch, target_length): START + target tokens, and
        target tokens + END.

    Raises:
        UserError: For limits that make no sense. What `pairs` raises later, in mid-stream, arrives as a
            `tf.errors.OpError`, and so does the error that `repeat` finds no pair; around `model.fit`,
            `original_errors(pairs)` raises what a source raised itself.

    Example:
        >>> from tf_transformer.tokenizers import train_tokenizers
        >>> pairs = [("a dog runs", "ein Hund rennt"), ("a man", "ein Mann")]
        >>> tokenizers = train_tokenizers(pairs, vocab_size=275)
        >>> batches = make_batches(pairs, tokenizers, batch_tokens=100, max_length=20)
        >>> for (source_ids, target_ids), labels in batches:
        ...     assert target_ids.shape == labels.shape
    """
    check_limits(max_length, max_ratio)
    check_batch_tokens(batch_tokens, max_length, row_multiple)
    _check(pairs, shuffle_buffer)

    def examples(sources, targets):
        source, target, verdict = encode_and_judge(tokenizers, sources, targets, max_length, max_ratio)
        kept = tf.where(verdict == KEPT)[:, 0]
        return tf.gather(source, kept), tf.gather(target, kept)

    def framed(source, target):
        # Of each pair by itself: for a ragged chunk it runs no faster, and takes half a second to trace.
        source_ids, target_ids, labels = (
            tf.concat(parts, axis=0) for parts in ([source, [END_ID]], [[START_ID], target], [target, [END_ID]])
        )
        return (source_ids, target_ids), labels

    def length(inputs, labels):
        return tf.maximum(tf.size(inputs[0]), tf.size(labels))

    def filled(inputs, labels):
        multiple = rows_of_batch(tf.shape(labels)[1], batch_tokens, row_multiple) if fixed_shapes else row_multiple
        return tf.nest.map_structure(lambda ids: _fill_rows(ids, multiple), (inputs, labels))

    def epoch(number):
        if shuffle_buffer is None:
            return chunks(pairs)
        rng = random.Random(None if seed is None else f"{seed}, epoch {number}")
        return chunks(shuffled(pairs, shuffle_buffer, rng))

    def numbers():
        if not repeat:
            return [next(epochs)]
        if not any_kept(pairs, tokenizers, max_length, max_ratio):
            raise UserError(
                "no pair is left: all are empty, too long or too different in length, or trees with a tag that the "
                "tokenizer lacks; raise max_length or max_ratio, or give trees with other tags"
            )
        # Every iterator begins with the first one, so that a place among the batches can be found again.
        return itertools.count()

    epochs = itertools.count()
    bounds = bucket_bounds(max_length)
    rows = [rows_of_batch(bound, batch_tokens, row_multiple) for bound in bounds]
    dataset = tf.data.Dataset.from_generator(
        lambda: itertools.chain.from_iterable(map(epoch, numbers())), output_signature=CHUNK_SPEC
    )
    dataset = dataset.map(examples, num_parallel_calls=2).unbatch().map(framed)
    dataset = dataset.bucket_by_sequence_length(
        length,
        bucket_boundaries=[bound + 1 for bound in bounds],  # TensorFlow's boundaries are exclusive
        bucket_batch_sizes=[*rows, 1],  # none is longer than the last bound
        pad_to_bucket_boundary=fixed_shapes,
        padding_values=((PAD_ID, PAD_ID), PAD_ID),
    )
    if fixed_shapes or row_multiple > 1:  # only the last batches of a finite epoch have other numbers of rows
        dataset = dataset.map(filled)
    dataset = made_ahead(dataset)
    return dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)) if repeat else dataset


def shuffled(pairs: Iterable, buffer_size: int, rng: random.Random) -> Iterator:
    """Streams the pairs in random order, each drawn from `buffer_size` of them.

    Not left to `tf.data.Dataset.shuffle`: text takes less memory than tensors, and a buffer full of it need
    not be tokenised before the first pair comes out.

    Args:
        pairs: What to shuffle.
        buffer_size: How many to hold; with as many as there are, every order is equally likely.
        rng: Decides the order.

    Yields:
        Each pair once.
    """
    stream = iter(pairs)
    buffer = list(itertools.islice(stream, buffer_size))
    for pair in stream:
        drawn = rng.randrange(buffer_size)
        yield buffer[drawn]
        buffer[drawn] = pair
    rng.shuffle(buffer)
    yield from buffer


def bucket_bounds(max_length: int) -> list[int]:
    """The longest length, both sides looked at, in each bucket.

    Steps of 2, then of a tenth: on Multi30k 9 % of positions are padding, 7 of which a bucket for each single
    length would have too, since a pair's two sides differ. Buckets by both lengths pad less, but leave
    many more unfilled batches.

    Args:
        max_length: The greatest bound.

    Returns:
        Increasing bounds, the last of which is `max_length`.
    """
    bounds = [min(4, max_length)]
    while bounds[-1] < max_length:
        bounds.append(min(max(bounds[-1] + 2, bounds[-1] * 11 // 10), max_length))
    return bounds


def rows_of_batch(bound: int | tf.Tensor, batch_tokens: int, row_multiple: int) -> int | tf.Tensor:
    """How many rows of that length a full batch has."""
    return batch_tokens // bound // row_multiple * row_multiple


def made_ahead(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The same batches in the same order, of which the next two are made while one is trained on."""
    options = tf.data.Options()
    options.deterministic = True
    # Nothing here is left to tuning, and its thread sleeps for ever longer times, up to a minute, which the end of an
    # iterator waits for: a validation of 11 seconds would take 20.
    options.autotune.enabled = False
    return batches.with_options(options).prefetch(2)


def padding_share(batches: tf.data.Dataset, first: int | None = None) -> float:
    """Measures how much of the batches is padding.

    Args:
        batches: What `make_batches` returned.
        first: How many batches to look at; None for all, where they end.

    Returns:
        The share of source and target positions that hold no token, from 0 to 1.

    Example:
        >>> ids = tf.constant([[5, 3], [3, 0]])
        >>> padding_share(tf.data.Dataset.from_tensors(((ids, ids), ids)))
        0.25
    """
    positions = padding = 0
    for (source_ids, _), labels in batches.take(-1 if first is None else first).as_numpy_iterator():
        for ids in (source_ids, labels):
            positions += ids.size
            padding += np.count_nonzero(ids == PAD_ID)
    return float(padding / positions) if positions else 0.0


def with_known_length(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Counts the batches of a finite dataset and says so, which spares Keras a warning that the data ran out.

    Args:
        batches: What `make_batches` returned, or any other dataset that ends.

    Returns:
        The same batches, as a dataset that knows how many they are.

    Raises:
        UserError: The batches are endless.

    Example:
        >>> batches = tf.data.Dataset.range(10).filter(lambda number: number > 6)
        >>> len(with_known_length(batches))
        3
    """
    if batches.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise UserError("the batches are endless and can't be counted; make them without repeat, or take() some")
    number = sum(1 for _ in batches)
    return batches.apply(tf.data.experimental.assert_cardinality(number))


def _fill_rows(ids: tf.Tensor, multiple: int) -> tf.Tensor:
    """Adds rows of padding until their number is a multiple."""
    missing = -tf.shape(ids)[0] % multiple
    return tf.pad(ids, [[0, missing], [0, 0]], constant_values=PAD_ID)


def check_batch_tokens(batch_tokens: int, max_length: int, row_multiple: int) -> None:
    """Refuses batches without room for the longest sentence in each of their parts.

    Raises:
        UserError: there is none.
    """
    least = max_length * row_multiple
    if batch_tokens < least:
        raise UserError(
            f"batch_tokens is {batch_tokens}, less than {least}: a batch is split into {row_multiple} parts (devices, "
            f"and each device's parts), and each part needs room for a sentence of max_length, {max_length}; raise "
            "batch_tokens, or lower max_length, gradient_accumulation or parallel_parts (in a recipe "
            "data.batch_tokens, data.max_length, training.gradient_accumulation, training.parallel_parts)"
        )


def _check(pairs: Iterable, shuffle_buffer: int | None) -> None:
    if shuffle_buffer is not None and shuffle_buffer < 1:
        raise UserError(f"shuffle_buffer is {shuffle_buffer}: give at least 1, or None for no shuffling")
    if isinstance(pairs, Iterator):
        raise UserError("pairs is an iterator, which can be read only once: give a list or a source, such as TextFiles")
