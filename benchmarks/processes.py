"""Processes of a benchmark: the driver's side of an engine's, and one for a function."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

ENGINES = Path(__file__).parent / "engines"


class EngineFailed(SystemExit):
    """An engine has ended without an answer; the message has the end of its log."""


class EngineProcess:
    """An engine in a process of its own, which answers each line of JSON with one.

    Args:
        python: the Python that has the engine.
        script: the engine's file in `engines/`.
        options: what the engine reads first.
        log: where its standard error goes.
    """

    def __init__(self, python: str, script: str, options: dict[str, Any], log: Path) -> None:
        self.script = script
        self.log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [python, str(ENGINES / script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                # Libraries that read it do so when they are loaded.
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": str(options["threads"] // options["streams"]),
                    "TF_ENABLE_ONEDNN_OPTS": str(options["onednn"]),
                    # Engines that share a GPU take no more of its memory than they need.
                    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
                    **({} if options.get("gpu") else {"CUDA_VISIBLE_DEVICES": ""}),
                },
            )
        self.hello = self.ask(options)

    def send(self, request: Any) -> None:
        """Writes a request that has no answer."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def ask(self, request: Any) -> dict[str, Any]:
        """Writes a request and waits for its answer.

        Raises:
            EngineFailed: the engine has ended without one.
        """
        with contextlib.suppress(BrokenPipeError):  # its log says why
            self.send(request)
        answer = self._process.stdout.readline()
        if not answer:
            last = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise EngineFailed(f"{self.script} has failed; the end of its log:\n{last}")
        return json.loads(answer)

    def cpu_seconds(self) -> float:
        """CPU time that the process has used so far, in all its threads."""
        return cpu_seconds(self._process.pid)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def in_a_process(function: Callable, *arguments: Any) -> Any:
    """Calls a function in a new process: what one has freed, the next would not be seen to take."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]  # counted from behind the program's name, which may hold blanks
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
