"""Compares the compiled search with the one that takes any batch: translations, and time by size of batch."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import tensorflow as tf
from machine import describe_machine

from tf_transformer.decoding import DecodingOptions
from tf_transformer.runs.directory import RunDirectory
from tf_transformer.runs.loading import load_model
from tf_transformer.translation import Translator
from tf_transformer.translation.compiled import LENGTHS

PASSES = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument(
        "--source", type=Path, nargs="+", required=True, help="files to translate, one sentence per line"
    )
    parser.add_argument("--beam-sizes", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--single-sentences", type=int, default=200, help="number of sentences to translate one by one")
    parser.add_argument("--timed", type=int, default=256, help="number of sentences of the first file to time")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)

    model, tokenizers = load_model(arguments.run, "float32"), RunDirectory.open(arguments.run).load_tokenizers()
    files = {file: file.read_text(encoding="utf-8").splitlines() for file in arguments.source}
    timed = next(iter(files.values()))[: arguments.timed]
    equal, calls, sizes = [], [], []
    for beam_size in arguments.beam_sizes:
        options = DecodingOptions(beam_size=beam_size)
        plain, compiled = (Translator(model, tokenizers, options, compiled=compiled) for compiled in (False, True))
        seconds = compiled.warm_up(arguments.batch_sizes, LENGTHS)
        print(f"beam {beam_size}: {len(seconds)} programs compiled in {sum(seconds.values()):.1f} s", flush=True)
        for file, lines in files.items():
            for size in arguments.batch_sizes:
                texts = lines[: arguments.single_sentences] if size == 1 else lines
                (expected, ours), (found, theirs) = (_translate(each, texts, size) for each in (plain, compiled))
                same = [one == other for one, other in zip(expected, found, strict=True)]
                apart = np.abs(ours - theirs)[same].max()
                equal.append(f"| {beam_size} | {size} | {file.name} | {sum(same):,} of {len(same):,} | {apart:.1e} |")
        for name, each in ("compiled", compiled), ("not compiled", plain):
            times = [_milliseconds(each, [text]) for text in timed[:5] + timed[: arguments.single_sentences]][5:]
            p99 = quantiles(times, n=100)[98]
            calls.append(f"| {beam_size} | {name} | {median(times):.1f} | {p99:.1f} |")
        by_length = sorted(timed, key=len)
        for size in arguments.batch_sizes:
            batches = [by_length[i : i + size] for i in range(0, len(by_length), size)]
            fastest = [
                min(sum(_milliseconds(each, batch) for batch in batches) for _ in range(PASSES)) / len(timed)
                for each in (plain, compiled)
            ]
            sizes.append(f"| {beam_size} | {size} | {fastest[0]:.1f} | {fastest[1]:.1f} |")
    print("\n| beam | batch | text | equal translations | their scores differ by at most |")
    print("| --- | --- | --- | --- | --- |", *equal, sep="\n")
    print("\n| beam | search | ms per call of one sentence, p50 | p99 |")
    print("| --- | --- | --- | --- |", *calls, sep="\n")
    print(
        "\n| beam | batch | ms per sentence, not compiled | compiled |", "| --- | --- | --- | --- |", *sizes, sep="\n"
    )
    print(f"\n{describe_machine(arguments.threads)}")


def _translate(translator: Translator, texts: list[str], size: int) -> tuple[list[bytes], np.ndarray]:
    outputs = [translator.translate(texts[i : i + size]) for i in range(0, len(texts), size)]
    translations = [text for output in outputs for text in output["translation"].numpy()]
    return translations, np.concatenate([output["score"].numpy() for output in outputs])


def _milliseconds(translator: Translator, texts: list[str]) -> float:
    began = time.perf_counter()
    translator.translate(texts)["translation"].numpy()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    main()
