"""How many CPUs this process may use. Imports nothing that takes time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

# Where Linux tells which control group this process is in, and what each group may use.
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Number of CPUs that this process may use: those it is bound to, or fewer where a container has a quota.

    `limits: {cpu: 4}` of Kubernetes and `--cpus 4` of Docker are quotas: a container sees all CPUs, and stands still
    once its processes have used so much time of them. What is no whole number is rounded up. Quotas are those of
    control groups of version 2.

    Example:
        >>> 1 <= cores() <= bound_cores()
        True
    """
    return max(1, min([bound_cores(), *_quotas()]))


def bound_cores() -> int:
    """Number of CPUs that this process is bound to, whatever its quota; all where the system can't bind it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas() -> Iterator[int]:
    """The quotas of the process's own group and of those that it is in; none where there are no such files."""
    for group in _groups():
        # "400000 100000" allows 400,000 microseconds in every 100,000, and "max 100000" any number.
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = map(int, (GROUPS / group / "cpu.max").read_text().split())
            yield -(-quota // period)


def _groups() -> list[PurePosixPath]:
    """The process's own group and those that it is in, by their paths; in a container its own is often the root."""
    with suppress(OSError, ValueError):
        for line in OWN_GROUP.read_text().splitlines():
            if line.startswith("0::/"):  # the line of version 2
                own = PurePosixPath(line.removeprefix("0::/"))
                return [own, *own.parents]
    return []
