"""How an engine's process speaks with the driver, and what it tells of itself.

It runs under each engine's own Python, so it takes the standard library alone. Requests come as lines of JSON on
standard input, and answers go as lines of JSON to standard output.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

Options = dict[str, Any]
Answer = Callable[..., None]


def begin() -> tuple[Options, Answer]:
    """Takes the first request, the engine's options, and binds the process to as many CPUs as it has threads.

    Returns:
        The options, and a function that sends its keyword arguments as an answer.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what the libraries print is no answer

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    options = json.loads(sys.stdin.readline())
    # So many CPUs, whatever pools of threads a library makes.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options["threads"]])
    return options, answer


def requests() -> Iterator[Any]:
    """The requests that come after the options, until they end."""
    for line in sys.stdin:
        yield json.loads(line)


def memory(field: str) -> float:
    """This process's resident memory in MiB, now (VmRSS) or at its highest (VmHWM).

    `resource.getrusage` would count the parent's memory in: its maximum survives the start of a new program.
    """
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024
