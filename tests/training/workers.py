"""Starts workers by hand, as people do: a process each, told of the others by `TF_CONFIG`."""

import json
import os
import socket
import subprocess
from contextlib import ExitStack


def configs(workers: int) -> list[str]:
    """What each finds in `TF_CONFIG`; the ports are free."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(workers)]
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    tasks = [{"type": "worker", "index": index} for index in range(workers)]
    return [json.dumps({"cluster": {"worker": addresses}, "task": task}) for task in tasks]


def start(commands: list[list]) -> list[subprocess.Popen]:
    """Starts a command for each worker."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return [
        subprocess.Popen(
            command,
            env={**environment, "TF_CONFIG": config},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, config in zip(commands, configs(len(commands)), strict=True)
    ]


def end(processes: list[subprocess.Popen], seconds: float = 900) -> list[str]:
    """Waits for all; returns what each told on standard error. None outlives it."""
    try:
        return [process.communicate(timeout=seconds)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
