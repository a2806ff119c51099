"""The command, which kills itself just before it gives a file its place for the N-th time, or half through writing it.

The program's arguments are N, "before", "half" or "folder", which is before it gives a folder its place, and the words
of the command.
"""

import os
import signal
import sys
from itertools import count
from pathlib import Path

from tf_transformer import cli
from tf_transformer.files import whole

number, where, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
linked, link, sync = count(1), os.link, whole.sync


def sync_or_die(path: Path) -> None:
    if where == "folder" and path.is_dir() and path.name.startswith(whole.PARTIAL):
        os.kill(os.getpid(), signal.SIGKILL)
    sync(path)


def link_or_die(source: os.PathLike, target: os.PathLike) -> None:
    if where != "folder" and next(linked) == number:
        if where == "half":
            os.truncate(source, os.path.getsize(source) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    link(source, target)


if __name__ == "__main__":
    whole.os.link, whole.sync = link_or_die, sync_or_die
    sys.argv = ["tf-transformer", *words]
    cli.main()
