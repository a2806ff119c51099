"""Times this package's training step alone, on the device TensorFlow picks. See README.md."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import keras
import numpy as np
import tensorflow as tf
from machine import describe_machine

from tf_transformer import Perplexity, SmoothedCrossEntropy, TokenAccuracy, Transformer
from tf_transformer.tokenizers.base import END_ID, PAD_ID
from tf_transformer.training import TokenCount, TransformerAdam
from train import SIZES

# All sentences are so long, 0 to 4 positions of padding at their end included.
LENGTH = 28
PADDING = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--xla", action="store_true", help="compile the step, as training.jit_compile does")
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--positions", type=int, default=25_000, help="positions per side of a batch")
    parser.add_argument("--batches", type=int, default=8, help="batches per pass")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    arguments = parser.parse_args()

    gpu = bool(tf.config.list_physical_devices("GPU"))
    keras.config.set_dtype_policy(arguments.precision)
    sizes = dict(SIZES[arguments.size].model)
    vocabulary = sizes.pop("vocab_size")
    model = Transformer(
        input_vocab_size=vocabulary, target_vocab_size=vocabulary, share_embeddings="all", max_length=64, **sizes
    )
    model.compile(
        TransformerAdam(1e-4),
        SmoothedCrossEntropy(0.1),
        metrics=[Perplexity(), TokenAccuracy(), TokenCount()],
        jit_compile=arguments.xla,
    )
    rng = np.random.default_rng(0)
    batches = [_batch(rng, vocabulary, arguments.positions // LENGTH) for _ in range(arguments.batches)]
    ids = tf.TensorSpec([None, None], tf.int32)
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=((ids, ids), ids))
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(2)

    def seconds() -> float:
        began = time.perf_counter()
        model.fit(dataset, shuffle=False, verbose=0)
        return time.perf_counter() - began

    first = seconds()
    print(f"first pass, including tracing{' and compiling' if arguments.xla else ''}: {first:.1f} s", flush=True)
    steps = [seconds() / arguments.batches for _ in range(arguments.passes)]
    figures = {
        "size": arguments.size,
        "xla": arguments.xla,
        "precision": arguments.precision,
        "positions": arguments.positions,
        "first_pass_s": first,
        "step_ms": [1000 * step for step in steps],
        "target_positions_a_second": arguments.positions // LENGTH * LENGTH / median(steps),
        "machine": describe_machine(tf.config.threading.get_intra_op_parallelism_threads(), gpu=gpu),
    }
    if gpu:
        figures["peak_mib"] = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    memory = f", peak memory {figures['peak_mib']:,.0f} MiB" if gpu else ""
    print(
        f"{arguments.size}, {arguments.precision}, {'XLA' if arguments.xla else 'no XLA'}: "
        f"{1000 * median(steps):.1f} ms a step ({1000 * min(steps):.1f} to {1000 * max(steps):.1f}), "
        f"{figures['target_positions_a_second']:,.0f} target positions a second{memory}",
        flush=True,
    )
    if arguments.output:
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n")


def _batch(rng: np.random.Generator, vocabulary: int, rows: int) -> tuple:
    """Random tokens, distributed by Zipf's law; 7 % of the positions are padding."""
    first = END_ID + 1  # behind the special tokens
    share = 1 / np.arange(1, vocabulary - first + 1)
    sides = [first + rng.choice(vocabulary - first, (rows, LENGTH), p=share / share.sum()) for _ in range(2)]
    source, target = (side.astype("int32") for side in sides)
    labels = np.concatenate([target[:, 1:], np.full((rows, 1), END_ID, "int32")], axis=1)
    padding = np.arange(LENGTH) >= LENGTH - rng.integers(0, PADDING + 1, (rows, 1))
    for side in (source, target, labels):
        side[padding] = PAD_ID
    return (source, target), labels


if __name__ == "__main__":
    main()
