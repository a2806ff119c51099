"""The matrix products of a training step and nothing else: what no engine on this machine can do without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
from training_worker import Batch, Options, Training, serve

# (batch of matrices or (), rows, inner, columns): (..., rows, inner) x (..., inner, columns)
Product = tuple[tuple[int, ...], int, int, int]
# (a, b, whether a is transposed, whether b is) -> their product
Multiply = Callable[[Any, Any, bool, bool], Any]
# what multiplies, what makes an operand of an array, what waits for the products that still run
Library = tuple[Multiply, Callable[[np.ndarray], Any], Callable[[], None]]


def forward_products(batch: Batch, sizes: dict[str, int]) -> Iterator[Product]:
    """The products of one forward pass, padding included; projections of the same input are one product."""
    rows, source = batch.source.shape
    target = batch.target.shape[1]
    width, heads, layers = sizes["d_model"], sizes["num_heads"], sizes["num_layers"]
    depth = width // heads

    def attention(queries: int, keys: int) -> Iterator[Product]:
        yield (rows, heads), queries, depth, keys  # scores
        yield (rows, heads), queries, keys, depth  # weighted values
        yield (), rows * queries, width, width

    def feed_forward(length: int) -> Iterator[Product]:
        yield (), rows * length, width, sizes["dff"]
        yield (), rows * length, sizes["dff"], width

    for _ in range(layers):
        yield (), rows * source, width, 3 * width
        yield from attention(source, source)
        yield from feed_forward(source)
    for _ in range(layers):
        yield (), rows * target, width, 3 * width
        yield from attention(target, target)
        yield (), rows * target, width, width
        yield (), rows * source, width, 2 * width
        yield from attention(target, source)
        yield from feed_forward(target)
    yield (), rows * target, width, sizes["vocab_size"]


def _numpy(options: Options) -> Library:
    if options["precision"] != "float32":
        raise SystemExit("NumPy has no bfloat16")

    def multiply(a: np.ndarray, b: np.ndarray, transpose_a: bool, transpose_b: bool) -> np.ndarray:
        return np.matmul(a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b)

    return multiply, np.asarray, _nothing


def _tensorflow(options: Options) -> Library:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(options["threads"])
    dtype = tf.float32 if options["precision"] == "float32" else tf.bfloat16
    return tf.matmul, lambda array: tf.constant(array, dtype), _nothing


def _torch(options: Options) -> Library:
    import torch
    from torch_rounds import set_up_device

    device = set_up_device(options)
    dtype = torch.float32 if options["precision"] == "float32" else torch.bfloat16

    def multiply(a: torch.Tensor, b: torch.Tensor, transpose_a: bool, transpose_b: bool) -> torch.Tensor:
        return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)

    def convert(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device, dtype)

    return multiply, convert, torch.cuda.synchronize if options["gpu"] else _nothing


def _nothing() -> None:
    """The CPU has finished a product when the next begins."""


def split_rows(batch: Batch, parts: int) -> list[Batch]:
    """The rows of a batch in so many parts."""
    return [Batch(*ids) for ids in zip(*(np.array_split(ids, parts) for ids in batch), strict=True)]


def load(options: Options, batches: list[Batch]) -> Training:
    make = {"numpy": _numpy, "tensorflow": _tensorflow, "torch": _torch}[options["library"]]
    # With `side_by_side` each thread does the products of its share of a batch's rows, else all threads each product.
    parts, threads = (options["threads"], 1) if options.get("side_by_side") else (1, options["threads"])
    multiply, convert, finish = make({**options, "threads": threads})
    products = [
        [Counter(forward_products(part, options["sizes"])) for part in split_rows(batch, parts)] for batch in batches
    ]
    random = np.random.default_rng(0)
    shapes = {
        shape
        for counts in chain.from_iterable(products)
        for stack, rows, inner, columns in counts
        for shape in ((*stack, rows, inner), (*stack, inner, columns), (*stack, rows, columns))
    }
    operands = {shape: convert(random.standard_normal(shape, dtype="float32")) for shape in shapes}

    def multiply_all(counts: Counter) -> None:
        for (stack, rows, inner, columns), count in counts.items():
            a, b = operands[*stack, rows, inner], operands[*stack, inner, columns]
            gradient = operands[*stack, rows, columns]
            for _ in range(count):
                multiply(a, b, False, False)
                multiply(gradient, b, False, True)
                multiply(a, gradient, True, False)

    workers = ThreadPoolExecutor(parts)

    def train() -> None:
        for batch in products:
            list(workers.map(multiply_all, batch))
        finish()

    return Training(0, train, lambda: None)


if __name__ == "__main__":
    serve(load, ["numpy"])
