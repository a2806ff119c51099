"""The most memory that a command and all processes it starts have at a time: the sum of their proportional set sizes.

python benchmarks/peak_memory.py make demo
"""

from __future__ import annotations

import subprocess
import sys
import threading

import psutil

EVERY = 2.0  # seconds


def main() -> int:
    command = sys.argv[1:]
    if not command:
        sys.exit(__doc__)
    process = subprocess.Popen(command)
    ended = threading.Event()
    peak: dict[str, int] = {}

    def watch() -> None:
        nonlocal peak
        root = psutil.Process(process.pid)
        while not ended.wait(EVERY):
            now = _sizes(root)
            if sum(now.values()) > sum(peak.values()):
                peak = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        status = process.wait()
    finally:
        ended.set()
        watcher.join()
    print(f"peak: {sum(peak.values()) / 2**30:.2f} GiB in {len(peak)} processes", file=sys.stderr)
    for name, size in sorted(peak.items(), key=lambda each: -each[1])[:8]:
        print(f"  {size / 2**30:.2f} GiB  {name}", file=sys.stderr)
    return status


def _sizes(root: psutil.Process) -> dict[str, int]:
    """Bytes of each process; memory that several share counts once, in parts."""
    sizes = {}
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return sizes
    for process in processes:
        try:
            sizes[f"{process.pid} {' '.join(process.cmdline())[:100]}"] = process.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return sizes


if __name__ == "__main__":
    sys.exit(main())
