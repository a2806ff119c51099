"""Minutes of good and hostile requests to `tf-transformer serve`; tells what it did wrong. See README.md."""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hostile import Hostile, hostile_acts, odd_texts
from machine import describe_machine
from served import Served, language_pair, serve_model
from serving_load import growth

GOOD_CLIENTS, ODD_CLIENTS, HOSTILE_CLIENTS, SLOW_CLIENTS = 6, 2, 2, 4
ODD_TEXTS_A_REQUEST = 16
SECONDS_OF_WARM_UP = 120
# From so many seconds on it is a fault if memory has grown, or if not every odd text was sent.
FULL_RUN = 600
MOST_GROWTH = 1.0

Asked = dict[str, Any]
Answered = tuple[int, Any]


class Client:
    """Asks on one connection, again and again, as long as the server keeps it open."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        self._connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)

    def ask(self, asked: Asked) -> Answered:
        """A request to /translate: its status and what JSON it answered."""
        return self._ask("POST", "/translate", json.dumps(asked), {"Content-Type": "application/json"})

    def health(self, path: str) -> Answered:
        """A request to a health endpoint: its status and None."""
        return self._ask("GET", path)[0], None

    def _ask(self, *request: Any) -> Answered:
        for attempt in range(2):
            try:
                self._connection.request(*request)
                answer = self._connection.getresponse()
                content = answer.read()
                is_json = answer.getheader("content-type", "").startswith("application/json")
                return answer.status, json.loads(content) if is_json else None
            except (http.client.RemoteDisconnected, ConnectionError):
                # A server may close a connection that was idle; a new one must be answered.
                self._connection.close()
                if attempt:
                    raise
        raise AssertionError


def good_requests(texts: list[str], pair: dict[str, str], number: int) -> list[Asked]:
    """Requests of all the kinds that there are: a sentence, a paragraph, a list, HTML, alternatives."""
    rng = random.Random(0)

    def some(most: int) -> list[str]:
        return rng.choices(texts, k=rng.randint(1, most))

    kinds: list[Callable[[], Asked]] = [
        *3 * [lambda: {"q": rng.choice(texts)}],
        lambda: {"q": "  ".join(some(3)) + "\r\n\r\n" + rng.choice(texts)},
        lambda: {"q": some(5)},
        lambda: {"q": f"<p title='a < b'>{rng.choice(texts)}<br>{rng.choice(texts)}</p>", "format": "html"},
        lambda: {"q": rng.choice(texts), "alternatives": 2},
    ]
    return [{**rng.choice(kinds)(), **pair} for _ in range(number)]


def odd_requests(texts: list[str], pair: dict[str, str]) -> list[Asked]:
    """The odd texts, several a request; huge ones alone, since they are refused with all that is beside them."""
    huge = [text for text in texts if len(text) > 250]
    rest = [text for text in texts if len(text) <= 250]
    lists = [rest[i : i + ODD_TEXTS_A_REQUEST] for i in range(0, len(rest), ODD_TEXTS_A_REQUEST)]
    requests = [{"q": q, **pair} for q in [*huge, *lists]]
    random.Random(0).shuffle(requests)
    return requests


class Endurance:
    """One run of it.

    Args:
        served: the server.
        texts: good sentences.
        odd: how many odd texts.
        seconds: how long it goes on.
    """

    def __init__(self, served: Served, texts: list[str], odd: int, seconds: float) -> None:
        self.served, self.seconds = served, seconds
        pair = language_pair(served)
        self.good = good_requests(texts, pair, 100)
        self.odd = odd_requests(odd_texts(odd), pair)
        self.hostile = hostile_acts(pair)
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self.memory: list[int] = []
        self.slowest_health = 0.0
        self._lock = threading.Lock()

    def run(self) -> dict[str, Any]:
        """Asks serially first, then everything at once; gives the figures."""
        client = Client(self.served.address)
        self.expected_good = [client.ask(asked) for asked in self.good]
        # A sample of the odd ones: all would take as long as the run.
        self.expected_odd = {i: client.ask(self.odd[i]) for i in range(0, len(self.odd), 10)}
        for status, answer in self.expected_good:
            if status != 200:
                self._fault(f"good: {status} {answer}")
        for status, answer in self.expected_odd.values():
            if status not in (200, 400):
                self._fault(f"odd: {status} {answer}")

        self.begin = time.monotonic()
        self.end = self.begin + self.seconds
        odd_order = itertools.count()
        workers = [
            *GOOD_CLIENTS * [self._send_good],
            *ODD_CLIENTS * [lambda: self._send_odd(odd_order)],
            *HOSTILE_CLIENTS * [lambda: self._be_hostile([h for h in self.hostile if not h.slow])],
            *SLOW_CLIENTS * [lambda: self._be_hostile([h for h in self.hostile if h.slow])],
            self._look_at_health,
            self._look_at_memory,
        ]
        threads = [threading.Thread(target=self._guarded, args=[worker]) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._figures()

    def _figures(self) -> dict[str, Any]:
        odd_sent = min(self.counts["odd requests"], len(self.odd))
        memory = self.memory  # none where the server ended while it warmed up
        grown = growth(memory) if memory else 0.0
        sizes = [memory[0], memory[-1], max(memory)] if memory else []
        if not self.served.is_alive:
            self._fault("the server has ended")
        if self.seconds >= FULL_RUN and grown >= MOST_GROWTH:
            self._fault(f"memory has grown by {grown:.2f} %")
        if self.seconds >= FULL_RUN and odd_sent < len(self.odd):
            self._fault(f"only {odd_sent} of {len(self.odd)} requests of odd texts were sent")
        return {
            "seconds": self.seconds,
            **dict(sorted(self.counts.items())),
            "odd_requests_of": [odd_sent, len(self.odd)],
            "slowest_health_ms": round(1000 * self.slowest_health, 1),
            "memory_mib": [round(size / 2**20, 1) for size in sizes],
            "memory_growth_percent": round(grown, 2),
            "faults": len(self.faults),
        }

    def _guarded(self, worker: Callable[[], None]) -> None:
        try:
            worker()
        except Exception as error:  # whatever it is, it is what is looked for
            self._fault(f"{type(error).__name__}: {error}")

    def _fault(self, message: str) -> None:
        with self._lock:
            self.faults.append(message[:500])

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _going_on(self) -> bool:
        return time.monotonic() < self.end and self.served.is_alive

    def _send_good(self) -> None:
        client, rng = Client(self.served.address), random.Random(threading.get_ident())
        while self._going_on():
            i = rng.randrange(len(self.good))
            answered = client.ask(self.good[i])
            self._count("good requests")
            if answered != self.expected_good[i]:
                self._fault(f"good: {self.good[i]!r:.150}: {answered!r:.150}, not {self.expected_good[i]!r:.150}")

    def _send_odd(self, order: Iterator[int]) -> None:
        client = Client(self.served.address)
        while self._going_on():
            i = next(order) % len(self.odd)
            status, answer = answered = client.ask(self.odd[i])
            self._count("odd requests")
            self._count(f"odd requests answered with {status}")
            if answered != self.expected_odd.get(i, answered) or status not in (200, 400):
                self._fault(f"odd: {self.odd[i]!r:.200}: {answered!r:.200}, not {self.expected_odd.get(i)!r:.100}")
            if status == 200 and len(answer["translatedText"]) != len(self.odd[i]["q"]):
                self._fault(f"odd: {self.odd[i]!r:.200}: as many answers as texts were expected")

    def _be_hostile(self, acts: list[Hostile]) -> None:
        rng = random.Random(threading.get_ident())
        while self._going_on():
            hostile = rng.choice(acts)
            status, seconds = hostile.act(self.served.address)
            self._count(f"hostile: {hostile.name}: {status or 'closed'}")
            if status not in hostile.allowed:
                self._fault(f"hostile: {hostile.name}: {status} after {seconds:.1f} s; allowed: {hostile.allowed}")
            time.sleep(0.02)

    def _look_at_health(self) -> None:
        client = Client(self.served.address)
        while self._going_on():
            for path in ("/health/live", "/health/ready"):
                began = time.perf_counter()
                status, _ = client.health(path)
                self.slowest_health = max(self.slowest_health, time.perf_counter() - began)
                self._count("health requests")
                if status != 200:
                    self._fault(f"{path}: {status}")
            time.sleep(0.5)

    def _look_at_memory(self) -> None:
        time.sleep(min(SECONDS_OF_WARM_UP, self.seconds / 5))
        while self._going_on():
            self.memory.append(self.served.resident_memory())
            time.sleep(min(1.0, self.seconds / 100))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of a version of a SavedModel")
    parser.add_argument("--source", type=Path, required=True, help="file of good sentences, one per line")
    parser.add_argument("--seconds", type=float, default=FULL_RUN)
    parser.add_argument("--odd", type=int, default=10_000, help="number of odd texts")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    texts = [line for line in arguments.source.read_text(encoding="utf-8").splitlines() if line.strip()]
    with tempfile.TemporaryDirectory() as folder, serve_model(arguments.model, Path(folder)) as served:
        endurance = Endurance(served, texts, arguments.odd, arguments.seconds)
        figures = endurance.run()
        log = served.end_of_log()
    machine = describe_machine(len(os.sched_getaffinity(0)))
    print(json.dumps({**figures, "exit_status": served.status, **machine}, indent=2))
    for fault in endurance.faults[:20]:
        print(fault)
    if endurance.faults or served.status:
        print(f"the end of the server's log:\n{log}", file=sys.stderr)
        raise SystemExit(1)


if __name__ == "__main__":
    main()
