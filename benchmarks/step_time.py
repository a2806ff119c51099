"""Times one step of the cached decoder early and late in a translation, inside the graph. See README.md."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
import tensorflow as tf

from tf_transformer.decoding import Stepper
from tf_transformer.runs.loading import load_model
from tf_transformer.tokenizers.base import START_ID

# A timed run is of so many steps, with the position in their middle.
STEPS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument("--positions", nargs="+", type=int, default=[50, 200])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--source-length", type=int, default=16, help="tokens per source sentence")
    parser.add_argument("--runs", type=int, default=31, help="timed runs at each position")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    if min(arguments.positions) < STEPS // 2:
        parser.error(f"--positions: give at least {STEPS // 2}")
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)

    model = load_model(arguments.run, "float32")
    beams, first = arguments.beam_size, arguments.positions[0]
    print(f"| batch | position | ms a step, median (fastest–slowest) | against position {first} |")
    print("| --- | --- | --- | --- |")
    for batch_size in arguments.batch_sizes:
        ids = np.random.default_rng(0).integers(4, model.input_vocab_size, (batch_size, arguments.source_length))
        cache = Stepper(model).start_cache(tf.constant(ids, tf.int32), beams)
        advance = _advance(model, cache, beams)
        tokens = tf.fill([batch_size * beams], START_ID)
        starts = {position: position - STEPS // 2 for position in arguments.positions}
        states = {position: advance(tokens, cache, 0, start) for position, start in starts.items()}
        times: dict[int, list[float]] = {position: [] for position in arguments.positions}
        for _ in range(arguments.runs + 1):  # in turns, so that what else the machine does falls on all alike
            for position, start in starts.items():
                began = time.perf_counter()
                advance(*states[position], start, STEPS)[0].numpy()
                times[position].append((time.perf_counter() - began) / STEPS * 1000)
        medians = {position: median(values[1:]) for position, values in times.items()}
        for position, values in times.items():
            spread = f"{min(values[1:]):.3f}–{max(values[1:]):.3f}"
            ratio = medians[position] / medians[first]
            print(f"| {batch_size} | {position} | {medians[position]:.3f} ({spread}) | {ratio:.3f} |")


def _advance(model: tf.Module, cache: dict, beams: int) -> tf.types.experimental.PolymorphicFunction:
    """Makes a graph that takes some greedy steps: (tokens, cache, position, steps) -> (tokens, cache)."""
    # What is empty now grows with each step.
    grown = tf.nest.map_structure(lambda x: tf.TensorSpec([size or None for size in x.shape], x.dtype), cache)
    number = tf.TensorSpec([], tf.int32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32), grown, number, number], autograph=False)
    def advance(tokens: tf.Tensor, cache: dict, position: tf.Tensor, steps: tf.Tensor) -> tuple:
        stepper = Stepper(model)
        end = position + steps

        def step(position: tf.Tensor, tokens: tf.Tensor, cache: dict) -> tuple:
            # No hypothesis is dropped: each descends from its own entries.
            history = tf.tile(tf.eye(beams, dtype=tf.bool), [1, position + 1])[tf.newaxis]
            logits, cache = stepper.step(tokens, position, cache, history)
            return position + 1, tf.argmax(logits, axis=-1, output_type=tf.int32), cache

        state = tf.while_loop(lambda position, *_: position < end, step, (position, tokens, cache))
        return state[1:]

    return advance


if __name__ == "__main__":
    main()
