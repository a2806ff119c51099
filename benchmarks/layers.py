"""Times layers of Table 1 (Vaswani et al., 2017) over lengths and widths, forward and backward. See docs/layers.md."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from layers_report import KERNEL, draw, report
from machine import describe_machine

from tf_transformer import MultiHeadAttention
from tf_transformer.layers.lstm import LSTM

WINDOW = 32  # to each side: a neighbourhood of r = 65
HEAD_WIDTH = 64  # as in the paper's models


class SelfAttention(keras.Model):
    """Attends to its own input; with a window to each position's neighbourhood."""

    def __init__(self, width: int, window: int | None = None) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, max(1, width // HEAD_WIDTH), window=window)

    def call(self, x: Any) -> Any:
        return self.attention(x, x)


LAYERS = {
    "self-attention": SelfAttention,
    "restricted self-attention": lambda width: SelfAttention(width, WINDOW),
    "LSTM": LSTM,
    "GRU": lambda width: keras.layers.GRU(width, return_sequences=True),
    "convolution": lambda width: keras.layers.Conv1D(width, KERNEL, padding="same"),
    "dilated convolution": lambda width: keras.layers.Conv1D(width, KERNEL, padding="same", dilation_rate=4),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", nargs="+", type=int, default=[16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--widths", nargs="+", type=int, default=[64, 128, 256, 512])
    parser.add_argument("--batch", type=int, default=2, help="sequences per batch, if their number is fixed")
    parser.add_argument("--tokens", type=int, default=4096, help="tokens per batch, if their number is fixed")
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each layer and size")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("layers"), help="writes PATH.json, PATH.md and PATH.png")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)

    times = []
    for width in arguments.widths:
        for length in arguments.lengths:
            batches = {"fixed batch": arguments.batch, "fixed tokens": max(1, arguments.tokens // length)}
            for what, batch in batches.items():
                for name, seconds in _times(batch, length, width, arguments.runs).items():
                    times.append(
                        {"what": what, "layer": name, "batch": batch, "n": length, "d": width, "seconds": seconds}
                    )
                print(f"d {width}, n {length}, {what} ({batch})", file=sys.stderr, flush=True)
    paths = {name: _path(name, 64) for name in LAYERS}
    result = {"machine": describe_machine(arguments.threads), "window": WINDOW, "times": times, "paths": paths}
    print(report(result))
    Path(f"{arguments.out}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{arguments.out}.md").write_text(report(result))
    draw(result).savefig(f"{arguments.out}.png", dpi=110)


def _times(batch: int, length: int, width: int, runs: int) -> dict[str, list[float]]:
    """Seconds of a forward and backward pass, all layers in turns: what else the machine does falls on all alike."""
    random = np.random.default_rng(0)
    x = tf.constant(random.standard_normal((batch, length, width)), tf.float32)
    steps = {name: _step(make(width), x) for name, make in LAYERS.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for run in range(runs + 1):
        for name, step in steps.items():
            began = time.perf_counter()
            step(x)
            if run:  # the first one traces
                times[name].append(time.perf_counter() - began)
    return times


def _step(layer: Any, x: tf.Tensor) -> Any:
    layer(x)
    weights = layer.trainable_weights

    @tf.function(autograph=False)
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x)))
        # Sums, so that every gradient is worked out and little is handed back.
        return tf.add_n([tf.reduce_sum(each) for each in tape.gradient(loss, [x, *weights])])

    return lambda x: step(x).numpy()


def _path(name: str, length: int) -> int:
    """Layers, or of a recurrent one steps, between the first input and the last output of a sequence.

    As many as it takes until the gradient of the one with respect to the other is not 0; of convolutions with a
    dilation each layer has twice that of the one below.
    """
    width = 8
    x = tf.random.stateless_normal((1, length, width), seed=(0, 0), dtype=tf.float64)
    options = {"dtype": "float64"}
    if name in ("LSTM", "GRU"):
        layer = LSTM(width, **options) if name == "LSTM" else keras.layers.GRU(width, return_sequences=True, **options)
        # A run over the last positions alone, one more each time, until the first one is among them.
        return next(
            length - start - 1 for start in reversed(range(length)) if _depends(lambda x, s=start: layer(x[:, s:]), x)
        )
    stack: list[Any] = []
    while not stack or not _depends(lambda x: _through(stack, x), x):
        if "attention" in name:
            layer = MultiHeadAttention(width, 2, window=WINDOW if "restricted" in name else None, **options)
            stack.append(lambda x, layer=layer: layer(x, x))
        else:
            rate = 2 ** len(stack) if "dilated" in name else 1
            stack.append(keras.layers.Conv1D(width, KERNEL, padding="same", dilation_rate=rate, **options))
    return len(stack)


def _through(stack: list[Any], x: tf.Tensor) -> tf.Tensor:
    for layer in stack:
        x = layer(x)
    return x


def _depends(function: Any, x: tf.Tensor) -> bool:
    """Whether the last output's gradient with respect to the first input is not 0."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        last = tf.reduce_sum(function(x)[:, -1])
    return bool(tf.reduce_any(tape.gradient(last, x)[:, 0] != 0))


if __name__ == "__main__":
    main()
