"""The engine's side of the benchmark: loads a model once, then times a pass over the batches whenever it is told to.

It runs under each engine's own Python, so it takes the standard library alone. Requests come as lines of JSON on
standard input, and answers go as lines of JSON to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

Options = dict[str, Any]
Sentence = str | list[str]  # text, or the pieces of it
Translate = Callable[[list[Sentence]], list[Sentence]]


def serve(load: Callable[[Options], Translate], packages: list[str], export: Callable | None = None) -> None:
    """Answers the driver until its requests end.

    The first request has the engine's options. `export` in them asks for the model to be written, and that is all.
    Else the model is loaded, the second request has the batches, and every further one asks for a pass over them.

    Args:
        load: makes the function that translates one batch.
        packages: whose versions to tell.
        export: writes the model in the engine's own format.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the libraries print is no answer

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    options = json.loads(sys.stdin.readline())
    # So many CPUs, whatever pools of threads a library makes.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["threads"]])
    if options.get("export"):
        export(options)
        return answer(exported=True)
    translate = load(options)
    answer(loaded_mib=_memory("VmRSS"), versions={name: version(name) for name in packages})
    batches = json.loads(sys.stdin.readline())
    for _ in sys.stdin:
        began = time.perf_counter()
        with ThreadPoolExecutor(options["streams"]) as streams:
            translations = [translation for part in streams.map(translate, batches) for translation in part]
        seconds = time.perf_counter() - began
        answer(seconds=seconds, peak_mib=_memory("VmHWM"), translations=translations)


def _memory(field: str) -> float:
    """This process's resident memory in MiB, now (VmRSS) or at its highest (VmHWM).

    `resource.getrusage` would count the parent's memory in: its maximum survives the start of a new program.
    """
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024
