"""A server in a process of its own, on loopback, until it is ended."""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from machine import memory
from processes import ENGINES, cpu_seconds

SECONDS_TO_START = 300
SECONDS_TO_END = 60


class Served:
    """A server that tells its address in a line on standard output once it answers.

    Args:
        command: starts it.
        log: where its standard error goes.

    Attributes:
        address: "http://127.0.0.1:8501".
        pid: of its process.
        status: its exit status, once it has ended.
    """

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        self.status: int | None = None
        with log.open("ab") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.pid = self._process.pid
        try:
            self.address = self._read_address()
        except BaseException:
            self._process.kill()
            raise

    def _read_address(self) -> str:
        ready, _, _ = select.select([self._process.stdout], [], [], SECONDS_TO_START)
        line = self._process.stdout.readline() if ready else ""
        if not (found := re.search(r"http://[\w.:]+", line)):
            raise SystemExit(f"the server did not start; the end of its log:\n{self.end_of_log()}")
        return found[0]

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: Any) -> None:
        """Asks it to end, and kills it where it does not."""
        self._process.terminate()
        try:
            self.status = self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.status = self._process.wait()

    @property
    def is_alive(self) -> bool:
        """Whether its process still runs."""
        return self._process.poll() is None

    def resident_memory(self) -> int:
        """Bytes of memory that its process holds."""
        return memory("VmRSS", self.pid)

    def wait_until_idle(self, seconds: float = 120) -> None:
        """Waits until it works no more on requests of clients that have gone."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            before = cpu_seconds(self.pid)
            time.sleep(0.5)
            if cpu_seconds(self.pid) - before < 0.05:
                return

    def end_of_log(self) -> str:
        """What it has said last."""
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


def serve_model(model: Path, folder: Path) -> Served:
    """Starts `tf-transformer serve`."""
    command = str(Path(sys.executable).with_name("tf-transformer"))
    return Served([command, "serve", str(model), "--port", "0"], folder / "serve.log")


def serve_plainly(model: Path, folder: Path) -> Served:
    """Starts the server of `engines/plain_server.py`."""
    return Served([sys.executable, str(ENGINES / "plain_server.py"), str(model)], folder / "plain_server.log")


def serve_libretranslate(python: Path, package: Path, pair: dict[str, str], threads: int, folder: Path) -> Served:
    """Starts LibreTranslate with a package for it, of the languages of `language_pair`."""
    options = [str(package.resolve()), *pair.values(), str(threads)]
    return Served([str(python), str(ENGINES / "libretranslate_server.py"), *options], folder / "libretranslate.log")


def language_pair(served: Served) -> dict[str, str]:
    """The `source` and `target` that its model translates, as its /languages tells."""
    with urllib.request.urlopen(f"{served.address}/languages", timeout=10) as answer:
        source = next(language for language in json.load(answer) if language["targets"])
    return {"source": source["code"], "target": source["targets"][0]}
