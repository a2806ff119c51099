"""Load on `tf-transformer serve`: many clients with a sentence a request, beside the library and a plain server.

See README.md. Needs wrk (Debian's package of that name).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from machine import describe_machine
from processes import EngineProcess
from served import Served, language_pair, serve_libretranslate, serve_model, serve_plainly

OURS, PLAIN, LIBRETRANSLATE = "tf-transformer serve", "plain server", "LibreTranslate"
SCRIPT = Path(__file__).with_name("serve.lua")
# An answer that took longer counts as lost; in a round of less than 60 seconds none can.
SECONDS_TO_ANSWER = 60

# What is aimed at: at 64 clients, of the library's rate; with one client, of the library's median for one call.
GOAL_RATE, GOAL_ONE = 0.8, 1.5


@dataclass
class Load:
    """What a server did for some number of clients, a value for each round.

    Attributes:
        server: its name.
        clients: how many asked at once, each its next sentence when the last was answered.
        rates: translated sentences a second.
        p50: medians of the milliseconds from a request to its answer.
        p99: the 99th percentiles.
        requests: how many were answered in all rounds.
        lost: requests that failed, were refused, or were answered too late, in all rounds. Those under way at the end
            of a round, which wrk drops, are not looked at, and so neither is one that is never answered.
    """

    server: str
    clients: int
    rates: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    requests: int = 0
    lost: int = 0

    def add(self, counted: dict[str, Any]) -> None:
        """Adds a round, as `serve.lua` counts it."""
        self.rates.append((counted["requests"] - counted["wrong"]) / counted["seconds"])
        self.p50.append(counted["p50_ms"])
        self.p99.append(counted["p99_ms"])
        self.requests += counted["requests"]
        self.lost += counted["wrong"] + counted["errors"]


@dataclass
class Library:
    """The library without a server: sentences a second in batches, and medians of one call in ms, for each round."""

    rates: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)


def put_load(served: Served, bodies: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Has wrk ask for so many seconds; it stops by itself."""
    command = ["wrk", "--threads", "1", "--connections", str(clients), "--duration", f"{seconds:.0f}s"]
    command += ["--timeout", f"{SECONDS_TO_ANSWER}s", "--script", str(SCRIPT), f"{served.address}/translate"]
    done = subprocess.run(
        [*command, "--", str(bodies)], capture_output=True, text=True, timeout=seconds + SECONDS_TO_ANSWER
    )
    if done.returncode or not done.stdout.strip():
        raise SystemExit(f"wrk failed: {done.stderr[-500:]}")
    served.wait_until_idle()
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(loads: list[Load]) -> str:
    """The loads as a Markdown table; ranges are of the rounds."""
    lines = [
        "| server | clients | sentences/s (slowest–fastest) | p50, ms | p99, ms | requests | lost |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for load in loads:
        rate = f"{median(load.rates):,.1f} ({min(load.rates):,.1f}–{max(load.rates):,.1f})"
        latencies = f"{median(load.p50):,.1f} | {median(load.p99):,.1f}"
        lines.append(f"| {load.server} | {load.clients} | {rate} | {latencies} | {load.requests:,} | {load.lost:,} |")
    return "\n".join(lines)


def compared(loads: list[Load], library: Library) -> str:
    """How the servers compare with the library, and with what is aimed at."""
    found = {(load.server, load.clients): load for load in loads}
    offline, one = median(library.rates), median(library.one)
    lines = [f"The library: {offline:,.1f} sentences/s in batches; p50 of one call {one:,.1f} ms."]
    if many := found.get((OURS, 64)):
        lines.append(f"64 clients: {median(many.rates) / offline:.2f} of the library's rate (goal: {GOAL_RATE}).")
    if single := found.get((OURS, 1)):
        lines.append(f"One client: p50 {median(single.p50) / one:.2f} times the library's call (goal: {GOAL_ONE}).")
    for other, name in ((PLAIN, "the plain server"), (LIBRETRANSLATE, LIBRETRANSLATE)):
        if many and (theirs := found.get((other, 64))):
            lines.append(f"64 clients: {median(many.rates) / median(theirs.rates):.2f} times the rate of {name}.")
    return "\n".join(lines)


def measure(arguments: argparse.Namespace, folder: Path) -> tuple[list[Load], Library]:
    """Starts all processes, then has them work in turns: one round after another, no two at once."""
    texts = [line for line in arguments.source.read_text(encoding="utf-8").splitlines() if line.strip()]
    random.Random(0).shuffle(texts)
    threads = len(os.sched_getaffinity(0))
    options = {"model": str(arguments.model), "texts": texts, "batch_size": 32}
    process = EngineProcess(
        sys.executable, "library.py", {**options, "threads": threads, "streams": threads, "onednn": 0}, folder / "log"
    )
    library, bodies = Library(), folder / "bodies.jsonl"
    with ExitStack() as stack:
        ours = stack.enter_context(serve_model(arguments.model, folder))
        pair = language_pair(ours)
        servers = {OURS: ours, PLAIN: stack.enter_context(serve_plainly(arguments.model, folder))}
        if package := arguments.libretranslate:
            served = serve_libretranslate(arguments.libretranslate_python, package, pair, threads, folder)
            servers[LIBRETRANSLATE] = stack.enter_context(served)
        loads = [Load(name, clients) for name in servers for clients in arguments.clients]
        bodies.write_text("".join(json.dumps({"q": text, **pair}) + "\n" for text in texts), encoding="utf-8")
        for turn in range(arguments.rounds + 1):
            rate = process.ask({"pass": "many"})["rate"]
            one = median(process.ask({"pass": "one", "seconds": arguments.seconds})["milliseconds"])
            tell(f"round {turn}, library: {rate:.1f} sentences/s, {one:.1f} ms")
            if turn:  # the first is not counted: caches fill and graphs are optimised
                library.rates.append(rate)
                library.one.append(one)
            for load in loads:
                counted = put_load(servers[load.server], bodies, load.clients, arguments.seconds)
                tell(f"round {turn}, {load.server}, {load.clients} clients: {counted}")
                if turn:
                    load.add(counted)
    process.close()
    return loads, library


def tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="folder of a version of a SavedModel")
    parser.add_argument("--source", type=Path, required=True, help="file of sentences, one per line")
    parser.add_argument(
        "--libretranslate", type=Path, help="the same model as a package for Argos Translate, FILE.argosmodel"
    )
    python = Path(__file__).parents[1] / ".venv-libretranslate/bin/python"
    parser.add_argument("--libretranslate-python", type=Path, default=python, help="Python with LibreTranslate")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--seconds", type=float, default=15, help="seconds per server, number of clients and round")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds, after one to warm up")
    parser.add_argument("--output", type=Path, help="JSON file for all figures")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    if not shutil.which("wrk"):
        raise SystemExit("wrk is missing; on Debian: apt-get install wrk")
    with tempfile.TemporaryDirectory() as folder:
        loads, library = measure(arguments, Path(folder))
    machine = describe_machine(len(os.sched_getaffinity(0)))
    print(table(loads), compared(loads, library), f"{machine['cpu']}, {machine['threads']} CPUs.", sep="\n\n")
    if arguments.output:
        figures = {"loads": [asdict(load) for load in loads], "library": asdict(library), "machine": machine}
        arguments.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if any(load.lost for load in loads if load.server == OURS):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
