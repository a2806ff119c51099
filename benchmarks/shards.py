"""What a translation in shards loses to reading, splitting and writing: the decoder alone has all in memory.

python benchmarks/shards.py MODEL FILE [--lines 20000] [--engine ctranslate2] [--beam-size 1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tf_transformer.commands.translate import SHARD_LINES
from tf_transformer.cores import cores
from tf_transformer.session.loading import session_loader, streams_of
from tf_transformer.shards.job import translate_in_shards
from tf_transformer.terminal.lines import translation_line
from tf_transformer.terminal.process import quiet_tensorflow

BATCH = 64


def decode(function: Callable, texts: list[str], streams: int) -> None:
    """The decoder alone: batches of like length, over the whole file."""
    ordered = sorted(texts, key=len)
    batches = [ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH)]
    with ThreadPoolExecutor(streams) as threads:
        list(threads.map(function, batches))


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of the processors."""
    clock, processors = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--lines", type=int, default=20_000, help="number of lines; a shorter file is repeated")
    parser.add_argument("--engine", default="tensorflow")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    load = session_loader(arguments.model, arguments.engine, optimise=True)
    with quiet_tensorflow(streams=True, session=load is not None):
        from tf_transformer.translation.loading import load_translate
        from tf_transformer.translation.texts import translate_texts

    function = load_translate(arguments.model, {"beam_size": arguments.beam_size}, arguments.engine, load)
    streams = streams_of(function)
    texts = list(islice(cycle(arguments.file.read_text(encoding="utf-8").split("\n")[:-1]), arguments.lines))
    decode(function, texts[:2_000], streams)  # what is done once, as the first batches come
    print(f"{arguments.lines:,} lines, {arguments.engine}, beam {arguments.beam_size}, {cores()} cores", flush=True)

    def translated(lines, advance):
        translations = translate_texts(function, [line for _, line in lines], BATCH, streams, advance, 16 * BATCH)
        return [
            translation_line(number, translation, as_json=False, nbest=False)
            for (number, _), translation in zip(lines, translations, strict=True)
        ]

    with tempfile.TemporaryDirectory(dir=".") as folder:
        file = Path(folder, "source.txt")
        file.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
        described = {"models": [arguments.model], "engine": arguments.engine, "options": {}}
        alone, in_shards = [], []
        for number in range(arguments.rounds):
            alone.append(timed(lambda: decode(function, texts, streams)))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            shards, output = Path(folder, f"shards-{number}"), Path(folder, f"{number}.txt")
            in_shards.append(
                timed(
                    lambda s=shards, o=output: translate_in_shards(
                        file, SHARD_LINES, s, None, o, described, lambda: translated
                    )
                )
            )
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(
                f"round {number + 1}: alone {alone[-1][0]:.1f} s ({alone[-1][1]:.1f} of processors), in shards "
                f"{in_shards[-1][0]:.1f} s ({in_shards[-1][1]:.1f}); peak memory {before / 1024:,.0f} MiB before, "
                f"{after / 1024:,.0f} after",
                flush=True,
            )
    for place, name in enumerate(("by the clock", "of the processors")):
        a, b = (statistics.median(each[place] for each in times) for times in (alone, in_shards))
        print(
            f"{name}: {arguments.lines / a:,.0f} lines a second alone, {arguments.lines / b:,.0f} in shards, "
            f"{b / a - 1:+.1%}"
        )


if __name__ == "__main__":
    sys.exit(main())
