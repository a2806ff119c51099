"""The machine that a benchmark ran on, and the memory of processes on it."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any


def describe_machine(threads: int, gpu: bool = False) -> dict[str, Any]:
    """Tells the processor, its count of CPUs, the threads used, the system, and the GPU where it is used."""
    with open("/proc/cpuinfo") as file:
        lines = [line.split(":", 1) for line in file if ":" in line]
    cpu = next((value.strip() for key, value in lines if key.strip() == "model name"), platform.machine())
    machine = {"cpu": cpu, "cpus": os.cpu_count(), "threads": threads, "platform": platform.platform()}
    return {**machine, "gpu": _gpu()} if gpu else machine


def memory(field: str, pid: int | str = "self") -> int:
    """A figure of a process's memory, in bytes: VmRSS is what is resident, VmHWM its peak, RssAnon that without files.

    `resource.getrusage` would count the parent's memory in: its maximum survives the start of a new program.
    """
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(f"{field}:")) * 1024


def _gpu() -> str:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
