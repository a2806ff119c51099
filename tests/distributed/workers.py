"""Starts workers by hand, as people do: a process each, told of the others by `TF_CONFIG`."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.bounded import SECONDS, started
from tf_transformer.distributed.launcher import worker_configs


class Worker:
    """A process, and what it tells on standard error; in a file, so that none waits until somebody reads it."""

    def __init__(self, process: subprocess.Popen, told) -> None:
        self.process, self._told = process, told

    def ends(self, seconds: float = SECONDS) -> tuple[int, str]:
        """Waits for its end; gives its status, and what it told."""
        status = self.process.wait(seconds)
        self._told.seek(0)
        return status, self._told.read()


@contextmanager
def workers(commands: list[list]) -> Iterator[list[Worker]]:
    """Starts a command for each worker; none outlives the context."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with ExitStack() as stack:
        found = []
        for command, config in zip(commands, worker_configs(len(commands)), strict=True):
            told = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            options = {"env": {**environment, "TF_CONFIG": config}, "stdout": subprocess.DEVNULL, "stderr": told}
            found.append(Worker(stack.enter_context(started(command, **options)), told))
        yield found
