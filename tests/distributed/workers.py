"""Starts workers by hand, as people do: a process each, told of the others by `TF_CONFIG`."""

import os
import subprocess

from tf_transformer.distributed.launcher import worker_configs


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
        for command, config in zip(commands, worker_configs(len(commands)), strict=True)
    ]


def end(processes: list[subprocess.Popen], seconds: float = 900) -> list[str]:
    """Waits for all; returns what each told on standard error. None outlives it."""
    try:
        return [process.communicate(timeout=seconds)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
