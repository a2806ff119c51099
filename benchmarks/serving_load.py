"""Puts one loaded SavedModel under load: many threads, short and long texts, bad ones among them. See README.md."""

from __future__ import annotations

import argparse
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import describe_machine, memory

# What a server gets that nobody should send. None may fail, none may change another's answer.
BAD = (
    b"",
    b" \t\r\n\xe3\x80\x80",
    b"x" * 20_000,
    b"the house " * 2_000,
    b"\xff\xfe\x80 is no UTF-8 \xc3",
    b"\xf4\x90\x80\x80",
    b"\x00\x00a\x00b\x00",
    "👨\u200d👩\u200d👧 🇩🇪 강아지".encode(),
    "\u202eשלום\u202c".encode(),
    b"<s> </s> <pad> <unk> <0x00>",
)

# One request in so many is of bad texts.
GOOD_A_BAD = 4

SECONDS_BETWEEN_SAMPLES = 1.0

# An answer: for each text of the request, its translation, its score and whether it was cut
Answer = list[tuple[bytes, float, bool]]


class Load(NamedTuple):
    """What came of it.

    `latencies` are seconds of each request after the warm-up; `memory` is the resident set in bytes, sampled from the
    end of the warm-up on; `errors` and `wrong` tell what went wrong, one line each.
    """

    latencies: list[float]
    memory: list[int]
    errors: list[str]
    wrong: list[str]
    seconds: float

    def figures(self) -> dict[str, Any]:
        """What is reported."""
        p50, p95, p99 = np.percentile(self.latencies, [50, 95, 99]) * 1000
        return {
            "requests": len(self.latencies),
            "seconds": round(self.seconds, 1),
            "requests_per_second": round(len(self.latencies) / self.seconds, 1),
            "errors": len(self.errors),
            "wrong_answers": len(self.wrong),
            "p50_ms": round(float(p50), 1),
            "p95_ms": round(float(p95), 1),
            "p99_ms": round(float(p99), 1),
            "memory_mib": [round(value / 2**20, 1) for value in (self.memory[0], self.memory[-1], max(self.memory))],
            "memory_growth_percent": round(growth(self.memory), 2),
        }


def growth(memory: Sequence[int]) -> float:
    """How much the last fifth of the samples lies above the first, median against median, in percent."""
    part = max(1, len(memory) // 5)
    first, last = (float(np.median(samples)) for samples in (memory[:part], memory[-part:]))
    return 100 * (last - first) / first


def make_requests(texts: Sequence[str], number: int, seed: int = 0) -> list[list[bytes]]:
    """Requests of one to eight texts each: short beside long, every few of them with bad ones.

    Args:
        texts: good ones; also joined, so that there are long ones.
        number: how many requests.
        seed: decides which.
    """
    rng = random.Random(seed)

    def good() -> bytes:
        return " ".join(rng.choices(texts, k=rng.choice([1, 1, 1, 2, 4]))).encode()

    def request(bad: bool) -> list[bytes]:
        return [rng.choice(BAD) if bad and rng.random() < 0.5 else good() for _ in range(rng.choice([1, 1, 2, 8]))]

    return [request(bad=i % GOOD_A_BAD == 0) for i in range(number)]


def load_model(path: Path) -> Callable[[Sequence[bytes]], Answer]:
    """Loads a SavedModel once, as a server does; the function may be called from any thread."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its ops are in the graph

    loaded = tf.saved_model.load(str(path))

    def answer(texts: Sequence[bytes]) -> Answer:
        output = loaded.signatures["translate"](text=tf.constant(list(texts), tf.string))
        columns = (output[key].numpy().tolist() for key in ("translation", "score", "truncated"))
        return list(zip(*columns, strict=True))

    return answer


def same(answer: Answer, expected: Answer) -> bool:
    """Whether texts and cuts are equal, and scores but for the rounding of another order of additions."""
    return len(answer) == len(expected) and all(
        (ours[0], ours[2]) == (theirs[0], theirs[2]) and abs(ours[1] - theirs[1]) < 1e-4
        for ours, theirs in zip(answer, expected, strict=True)
    )


def put_under_load(
    answer: Callable[[Sequence[bytes]], Answer],
    requests: Sequence[Sequence[bytes]],
    threads: int,
    warm_up: float,
    seconds: float,
) -> Load:
    """Asks from many threads at once, each in an order of its own, and compares with the answers given serially.

    Args:
        answer: what is asked.
        requests: what it is asked, again and again.
        threads: how many ask.
        warm_up: seconds before latencies and memory count.
        seconds: seconds that they count for.
    """
    expected = [answer(request) for request in requests]
    latencies: list[list[float]] = [[] for _ in range(threads)]
    errors: list[str] = []
    wrong: list[str] = []
    begin = time.perf_counter() + warm_up
    end = begin + seconds

    def ask(number: int) -> None:
        rng = random.Random(number)
        while (now := time.perf_counter()) < end:
            i = rng.randrange(len(requests))
            try:
                given = answer(requests[i])
            except Exception as error:  # whatever it is, it is what is looked for
                errors.append(f"{type(error).__name__}: {error}"[:300])
                continue
            if now >= begin:
                latencies[number].append(time.perf_counter() - now)
            if not same(given, expected[i]):
                wrong.append(f"{requests[i]!r:.100}: {given!r:.100}, not {expected[i]!r:.100}")

    asking = [threading.Thread(target=ask, args=[number]) for number in range(threads)]
    for thread in asking:
        thread.start()
    time.sleep(max(0.0, begin - time.perf_counter()))
    resident = [memory("VmRSS")]
    while time.perf_counter() < end:
        time.sleep(min(SECONDS_BETWEEN_SAMPLES, seconds / 20))
        resident.append(memory("VmRSS"))
    for thread in asking:
        thread.join()
    return Load(sum(latencies, []), resident, errors, wrong, time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of a SavedModel")
    parser.add_argument("--source", type=Path, required=True, help="file of good texts, one per line")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--warm-up", type=float, default=1, help="minutes to warm up, which do not count")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--requests", type=int, default=200, help="number of different requests")
    arguments = parser.parse_args()
    texts = arguments.source.read_text(encoding="utf-8").splitlines()
    answer = load_model(arguments.model)
    requests = make_requests(texts, arguments.requests)
    load = put_under_load(answer, requests, arguments.threads, 60 * arguments.warm_up, 60 * arguments.minutes)
    print(json.dumps({**load.figures(), **describe_machine(arguments.threads)}, indent=2))
    for line in [*load.errors[:5], *load.wrong[:5]]:
        print(line)
    if load.errors or load.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
