"""Starts several workers on one machine, each a process of the same command, to try out training with workers."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import FrameType

from tf_transformer.cores import cores

# Of what a worker other than the chief tells, so much is kept for the case that it fails.
LINES = 50
PATIENCE_SECONDS = 5
# Systems give ports above these to whoever asks for any: one of these is still free when its worker opens it.
PORTS = range(20_000, 32_000)
# The command in a process of its own, to be followed by its words.
COMMAND = (sys.executable, "-P", "-c", "from tf_transformer.cli import command; command()")


def run_workers(words: Sequence[str], workers: int) -> int:
    """Runs the command once for each worker, on CPU cores of its own, and waits for all.

    The chief's output is the command's. Where a worker fails, the others are ended; if it isn't the chief, what it told
    is shown. Ctrl-C and SIGTERM go to the chief, which saves a checkpoint, and the others are ended then.

    Args:
        words: the command's, after its name.
        workers: how many.

    Returns:
        The exit status: 0, that of the worker that failed first, or after a signal that of the chief.
    """
    processes: list[subprocess.Popen] = []
    told: list[deque[str]] = []
    with _ended(processes), signals_as_exceptions():
        for config, cores in zip(worker_configs(workers), _shares(workers), strict=True):
            with _bound_to(cores):
                processes.append(_start(words, config, chief=not processes))
            told.append(deque(maxlen=LINES))
        for process, lines in zip(processes[1:], told[1:], strict=True):
            threading.Thread(target=lines.extend, args=[process.stderr], daemon=True).start()
        try:
            failed = _wait(processes)
        except (KeyboardInterrupt, _Terminated) as told_to_end:
            terminated = isinstance(told_to_end, _Terminated)
            processes[0].send_signal(signal.SIGTERM if terminated else signal.SIGINT)
            status = processes[0].wait()
            # Killed by it where it came before the chief heeds it, as the chief starts.
            return os.EX_TEMPFAIL if terminated and status == -signal.SIGTERM else _status(status)
        if failed is None:
            return 0
        status = processes[failed].returncode
        if failed and not _told_by_chief(processes[0], status):
            time.sleep(0.2)  # for its last words
            end = f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
            for line in [*told[failed], f"{end}; the others were stopped too\n"]:
                sys.stderr.write(f"worker {failed}: {line}")
        return _status(status)


def _told_by_chief(chief: subprocess.Popen, status: int) -> bool:
    """Whether the chief soon ends as the other did: a mistake in the data, for one, is found by all of them."""
    if status < 0:
        return False
    try:
        return chief.wait(PATIENCE_SECONDS) == status
    except subprocess.TimeoutExpired:
        return False


def worker_configs(workers: int) -> list[str]:
    """What each of several workers on this machine finds in `TF_CONFIG`; the ports are free."""
    free = filter(_is_free, random.sample(PORTS, len(PORTS)))
    addresses = [f"127.0.0.1:{port}" for port in islice(free, workers)]
    tasks = [{"type": "worker", "index": index} for index in range(workers)]
    return [json.dumps({"cluster": {"worker": addresses}, "task": task}) for task in tasks]


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _shares(workers: int) -> list[set[int]]:
    """The cores of each worker; two have the same only where there are fewer cores than workers."""
    own = sorted(os.sched_getaffinity(0))[: cores()] if hasattr(os, "sched_getaffinity") else []
    return [set(own[index::workers] or own[index % len(own) :][:1] if own else []) for index in range(workers)]


@contextmanager
def _bound_to(cores: set[int]) -> Iterator[None]:
    """Has a process that is started within it run on these cores; TensorFlow takes as many threads."""
    if not cores:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _start(words: Sequence[str], config: str, chief: bool) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, *words],
        # One process uses all GPUs of a machine by itself.
        env={**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "-1"},
        stdin=subprocess.DEVNULL,
        stdout=None if chief else subprocess.DEVNULL,
        stderr=None if chief else subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,  # Ctrl-C goes to the launcher alone
    )


def _wait(processes: list[subprocess.Popen]) -> int | None:
    """Waits until one has failed, and says which, or all have ended well."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [index for index, code in enumerate(codes) if code]
        if failed:
            # Not one that only noticed that another was gone.
            return min(failed, key=lambda index: codes[index] == os.EX_TEMPFAIL)
        if None not in codes:
            return None
        time.sleep(0.1)


@contextmanager
def _ended(processes: list[subprocess.Popen]) -> Iterator[None]:
    """Ends all at its end, whatever has happened."""
    try:
        yield
    finally:
        for process in processes:
            process.kill()  # TensorFlow's workers don't heed a gentler signal, and a run's files are never half-written
            process.wait()


class _Terminated(SystemExit):
    """SIGTERM came."""


@contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Has the process clean up where it is told to end or its terminal goes."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise (_Terminated if number == signal.SIGTERM else SystemExit)(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        # The command's own ends all within a second; the chief may take longer to save.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _status(code: int) -> int:
    """As a shell has it: a signal's number is added to 128."""
    return 128 - code if code < 0 else code
