"""The engine's side of the decoding benchmark: loads a model once, then times a pass over the batches when told to."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from protocol import Options, begin, memory, requests

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
    options, answer = begin()
    if options.get("export"):
        export(options)
        return answer(exported=True)
    translate = load(options)
    answer(loaded_mib=memory("VmRSS"), versions={name: version(name) for name in packages})
    passes = requests()
    batches = next(passes)
    for _ in passes:
        began = time.perf_counter()
        with ThreadPoolExecutor(options["streams"]) as streams:
            translations = [translation for part in streams.map(translate, batches) for translation in part]
        seconds = time.perf_counter() - began
        answer(seconds=seconds, peak_mib=memory("VmHWM"), translations=translations)
