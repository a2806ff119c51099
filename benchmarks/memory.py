"""Resident memory over rounds of what a long-lived program does again and again: it must not grow. See README.md."""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import tempfile
from pathlib import Path

from machine import memory
from processes import in_a_process

LOOPS = {
    "fit": "fit of a one-layer model, width 64",
    "export": "build, fit, translate and export a model of two layers, width 64",
    "load": "load an export and translate, in a process that has TensorFlow alone",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    meaning = "; ".join(f"{loop}: {what}" for loop, what in LOOPS.items())
    parser.add_argument("--loops", nargs="+", default=list(LOOPS), choices=list(LOOPS), help=meaning)
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # of the processes below

    with tempfile.TemporaryDirectory() as folder:
        if "load" in arguments.loops:
            in_a_process(_export_once, Path(folder, "loaded"))
        rounds = range(1, arguments.rounds + 1)
        print(f"| resident memory, MB, after round | {' | '.join(map(str, rounds))} | growth after the third |")
        print(f"| --- |{' --- |' * (arguments.rounds + 1)}")
        for loop in arguments.loops:
            figures = in_a_process(_rounds, loop, arguments.rounds, Path(folder, "loaded", "1"))
            growth = figures[-1] / figures[min(2, arguments.rounds - 1)] - 1
            print(f"| {LOOPS[loop]} | {' | '.join(f'{each:,.0f}' for each in figures)} | {growth:+.1%} |", flush=True)


def _rounds(loop: str, rounds: int, export: Path) -> list[float]:
    """Megabytes of this process after each round."""
    once = {"fit": _fit_once, "export": _export_once, "load": _load_once}[loop]
    figures = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            once(export if loop == "load" else Path(folder))
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # what is free, but not given back, is no growth
        figures.append(memory("VmRSS") / 1e6)
    return figures


def _fit_once(folder: Path, layers: int = 1, size: int = 300) -> object:
    import numpy as np

    import tf_transformer as tt
    from tf_transformer.training import TransformerAdam

    model = tt.Transformer(layers, 64, 4, 128, size, size, max_length=64, share_embeddings="all")
    metrics = [tt.Perplexity(), tt.TokenAccuracy()]
    model.compile(TransformerAdam(0.001), tt.SmoothedCrossEntropy(0.1), metrics=metrics, jit_compile=False)
    ids = np.random.default_rng(0).integers(1, size, (8, 10)).astype("int32")
    model.fit((ids, ids), ids, batch_size=4, verbose=0)  # two steps
    return model


def _export_once(folder: Path) -> None:
    import tf_transformer as tt

    tokenizers = tt.train_tokenizers([(f"a dog {i}", f"ein Hund {i}") for i in range(40)], vocab_size=300)
    translator = tt.Translator(_fit_once(folder, layers=2, size=tokenizers.source.vocab_size), tokenizers)
    translator.translate(["a dog 3"])
    tt.export_saved_model(translator, folder)


def _load_once(folder: Path) -> None:
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    loaded = tf.saved_model.load(str(folder))
    loaded.signatures["translate"](text=tf.constant(["a dog 3"]))


if __name__ == "__main__":
    main()
