"""The machine that a benchmark ran on."""

from __future__ import annotations

import os
import platform
from typing import Any


def describe_machine(threads: int) -> dict[str, Any]:
    """Tells the processor, its count of CPUs, the threads used and the system."""
    with open("/proc/cpuinfo") as file:
        lines = [line.split(":", 1) for line in file if ":" in line]
    cpu = next((value.strip() for key, value in lines if key.strip() == "model name"), platform.machine())
    return {"cpu": cpu, "cpus": os.cpu_count(), "threads": threads, "platform": platform.platform()}
