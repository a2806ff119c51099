"""OpenNMT-tf's training batches, from text files of pieces; run by data.py under OpenNMT-tf's own Python."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import opennmt
import tensorflow as tf

# Its defaults for a Transformer, but for the size of a batch and the longest sentence.
SHUFFLE_BUFFER, BUCKET_WIDTH = 500_000, 1


def main() -> None:
    folder, batch_tokens, max_length, number = Path(sys.argv[1]), *(int(word) for word in sys.argv[2:])
    inputter = opennmt.models.SequenceToSequenceInputter(
        opennmt.inputters.WordEmbedder(embedding_size=8), opennmt.inputters.WordEmbedder(embedding_size=8)
    )
    vocabulary = str(folder / "vocabulary")
    inputter.initialize({"source_vocabulary": vocabulary, "target_vocabulary": vocabulary})
    inputter.labels_inputter.set_decoder_mode(mark_start=True, mark_end=True)
    began = time.perf_counter()
    batches = inputter.make_training_dataset(
        str(folder / "train.source"),
        str(folder / "train.target"),
        batch_tokens,
        batch_type="tokens",
        batch_size_multiple=8 if tf.config.list_physical_devices("GPU") else 1,
        shuffle_buffer_size=SHUFFLE_BUFFER,
        length_bucket_width=BUCKET_WIDTH,
        maximum_features_length=max_length,
        maximum_labels_length=max_length,
    )
    stream = iter(batches)
    next(stream)
    first = time.perf_counter() - began
    began, cpu, pairs, real, positions = time.perf_counter(), time.process_time(), 0, 0, 0
    for _ in range(number):
        _, labels = next(stream)
        rows, longest = labels["ids_out"].shape
        pairs += rows
        real += int(tf.reduce_sum(labels["length"]))
        positions += rows * longest
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"OpenNMT-tf: first batch {first:.1f} s; {pairs / cpu:,.0f} pairs a second of CPU, "
        f"{pairs / seconds:,.0f} a second; padding of the target {1 - real / positions:.1%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
