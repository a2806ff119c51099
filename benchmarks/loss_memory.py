"""Peak memory of a training step by vocabulary: with logits, and with the loss that projects. See README.md."""

from __future__ import annotations

import argparse

from machine import memory
from processes import in_a_process

ROWS = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabularies", nargs="+", type=int, default=[8_000, 37_000, 100_000])
    parser.add_argument("--tokens", type=int, default=2048, help=f"target tokens per batch, a multiple of {ROWS}")
    parser.add_argument("--d-model", type=int, default=256)
    arguments = parser.parse_args()
    if arguments.tokens % ROWS:
        parser.error(f"--tokens: must be a multiple of {ROWS}")

    print(f"{arguments.tokens} target tokens, d_model {arguments.d_model}, float32; MB beyond the built model, peak\n")
    print("| vocabulary | the logits | the matrix | a step over logits | a step that projects |")
    print("| --- | --- | --- | --- | --- |")
    for vocabulary in arguments.vocabularies:
        sizes = vocabulary, arguments.tokens, arguments.d_model
        logits, matrix = (4 * vocabulary * size / 1e6 for size in sizes[1:])
        over_logits, projecting = (in_a_process(_peak_megabytes, *sizes, projects) for projects in (False, True))
        print(
            f"| {vocabulary:,} | {logits:,.0f} | {matrix:,.0f} | {over_logits:,.0f} | {projecting:,.0f} |", flush=True
        )


def _peak_megabytes(vocabulary: int, tokens: int, d_model: int, projects: bool) -> float:
    import keras
    import numpy as np

    import tf_transformer as tt

    ids = np.random.default_rng(0).integers(1, vocabulary, (ROWS, tokens // ROWS)).astype("int32")
    model = tt.Transformer(1, d_model, 4, d_model, vocabulary, vocabulary, share_embeddings="all")
    loss = tt.SmoothedCrossEntropy(0.1)
    # A function has no `of_states`, so that `fit` goes over the logits.
    model.compile(
        keras.optimizers.SGD(0.1), loss if projects else loss.call, metrics=[tt.Perplexity()], jit_compile=False
    )
    model.build((ids.shape, ids.shape))
    before = memory("VmRSS")
    for _ in range(2):
        model.train_on_batch((ids, ids), ids)
    return (memory("VmHWM") - before) / 1e6


if __name__ == "__main__":
    main()
