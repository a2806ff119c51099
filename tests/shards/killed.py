"""The command, which kills itself just before it gives a file its place for the N-th time, or half through writing it.

The program's arguments are N, "before" or "half", and the words of the command.
"""

import os
import signal
import sys
from itertools import count

from tf_transformer import cli
from tf_transformer.files import whole

number, where, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
linked, link = count(1), os.link


def link_or_die(source: os.PathLike, target: os.PathLike) -> None:
    if next(linked) == number:
        if where == "half":
            os.truncate(source, os.path.getsize(source) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    link(source, target)


if __name__ == "__main__":
    whole.os.link = link_or_die
    sys.argv = ["tf-transformer", *words]
    cli.main()
