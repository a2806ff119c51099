"""The workers that train together, read from the environment variable `TF_CONFIG`."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from dataclasses import dataclass

from tf_transformer.errors import UserError, WorkerLost

logger = logging.getLogger(__name__)

FORM = '{"cluster": {"worker": ["HOST:PORT", "HOST:PORT"]}, "task": {"type": "worker", "index": 0}}'

# A cluster's scheduler may start one worker minutes after another.
START_SECONDS = 600
TELL_SECONDS = 10


@dataclass(frozen=True)
class Cluster:
    """The workers of one training.

    Attributes:
        tasks: job and number of each, such as "worker 0"; the chief's first.
        addresses: host and port of each.
        index: which of them this process is.
    """

    tasks: tuple[str, ...]
    addresses: tuple[str, ...]
    index: int

    def name(self, index: int) -> str:
        """A worker as it is called in messages."""
        return f"{self.tasks[index]} ({self.addresses[index]})"


def read_cluster() -> Cluster | None:
    """Reads `TF_CONFIG`, as TensorFlow has it: a job "worker" and, if one likes, a job "chief" of one task.

    The chief is the task of that job or, without it, worker 0.

    Returns:
        The cluster; None where there is no other worker.

    Raises:
        UserError: `TF_CONFIG` says something else.

    Example:
        >>> read_cluster() is None  # this process is alone
        True
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text:
        return None
    try:
        config = json.loads(text)
        jobs = {name: list(addresses) for name, addresses in config.get("cluster", {}).items() if addresses}
        task = config.get("task", {})
        kind, number = task.get("type", "worker"), int(task.get("index", 0))
    except (ValueError, TypeError, AttributeError):
        raise UserError(f"TF_CONFIG is {text[:80]}; it must be like {FORM}") from None
    other = sorted({*jobs, kind} - {"chief", "worker"})
    if other:
        raise UserError(
            f"TF_CONFIG names the job {other[0]}; only chief and worker are allowed, since all workers train alike"
        )
    if len(jobs.get("chief", [])) > 1:
        raise UserError("TF_CONFIG has several chiefs; keep one, and list the others as workers")
    addresses = [str(address) for job in ("chief", "worker") for address in jobs.get(job, [])]
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 2**16):
            raise UserError(f"TF_CONFIG has the address {address}; it must be HOST:PORT")
        if addresses.count(address) > 1:
            raise UserError(f"TF_CONFIG has the address {address} twice; give each worker its own")
    if len(addresses) < 2:
        return None
    tasks = [f"{job} {index}" for job in ("chief", "worker") for index in range(len(jobs.get(job, [])))]
    if f"{kind} {number}" not in tasks:
        raise UserError(f"TF_CONFIG says that this is {kind} {number}; its cluster has {', '.join(tasks)}")
    return Cluster(tuple(tasks), tuple(addresses), tasks.index(f"{kind} {number}"))


def is_chief() -> bool:
    """Whether this process is the one that writes: the chief of several workers, or alone."""
    cluster = read_cluster()
    return cluster is None or cluster.index == 0


def wait_for_workers(cluster: Cluster, seconds: float = START_SECONDS) -> None:
    """Returns once all workers have come so far; TensorFlow's own start would wait for them without a word.

    Meanwhile this worker's port is open, by which the others see that it is there.

    Args:
        cluster: the workers.
        seconds: how long to wait.

    Raises:
        UserError: this worker's port is another program's.
        WorkerLost: a worker has not come by then.
    """
    missing = [index for index in range(len(cluster.tasks)) if index != cluster.index]
    began, told = time.monotonic(), False
    with _listen(cluster):
        while missing := [index for index in missing if not _answers(cluster.addresses[index])]:
            waited = time.monotonic() - began
            names = ", ".join(map(cluster.name, missing))
            if waited > seconds:
                raise WorkerLost(
                    f"no answer from {names} within {seconds:g} s; start the same command there, with the same cluster "
                    "in TF_CONFIG and its own index, and read its output"
                )
            if waited > TELL_SECONDS and not told:
                logger.warning("waiting for %s", names)
                told = True
            time.sleep(0.1)


def _listen(cluster: Cluster) -> socket.socket:
    name, port = cluster.name(cluster.index), int(cluster.addresses[cluster.index].rpartition(":")[2])
    both = {"family": socket.AF_INET6, "dualstack_ipv6": True} if socket.has_dualstack_ipv6() else {}
    try:
        return socket.create_server(("", port), backlog=2 * len(cluster.tasks), **both)
    except OSError as error:
        raise UserError(
            f"{name}: this worker's own port can't be opened: {error.strerror}; choose another one in TF_CONFIG"
        ) from None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except OSError:  # not there yet, and perhaps its name isn't either
        return False
    return True
