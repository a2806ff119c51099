"""Entry point of the command `tf-transformer`: signals, streams and exit status. Its commands are in `commands`.

Nothing that takes time is imported before Ctrl-C is handled.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

from tf_transformer.terminal.ctrl_c import STATUS, ctrl_c_ends

USER_MISTAKE = 2


def command() -> None:
    """What the script `tf-transformer` is: runs the command, and ends the process.

    Python would take TensorFlow apart before it ends, which takes up to a minute after a long training: the iterator of
    a `fit` on several devices waits for TensorFlow's tuning thread, which sleeps for ever longer times and may not hear
    that it is to end. Whoever sent SIGTERM might kill the process before then, and would not learn its exit status. All
    has been written by then, threads have been waited for, and what was registered since to run at the end has run.
    """
    status = 1  # a traceback's

    def end() -> None:
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                with suppress(OSError, ValueError):  # gone, or closed
                    stream.flush()
        finally:
            os._exit(status)

    atexit.register(end)  # the first to be registered is the last to run
    try:
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    except KeyboardInterrupt:  # before it was handled
        status = STATUS
        raise


def main() -> None:
    """Runs the command in a process that goes on after it.

    Exit status: 2 after a user's mistake, which is reported in one line; 130 after Ctrl-C; 75 after SIGTERM to `train`
    or `sweep`, which the same command continues; 141 where the reader of the output has ended.
    """
    _occupy_closed_streams()
    with ctrl_c_ends():
        _main()


def _occupy_closed_streams() -> None:
    """Connects closed standard streams to the null device; else the first file that is opened would replace them.

    `sys.stdin` and `sys.stdout` stay None, so that commands that need them can report it.
    """
    for descriptor, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)):
        if stream is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _main() -> None:
    from tf_transformer.commands import app
    from tf_transformer.commands.app import READER_GONE
    from tf_transformer.errors import Preempted, UserError, WorkerLost
    from tf_transformer.terminal.arguments import in_the_users_words
    from tf_transformer.terminal.process import some_home, speak_utf8

    # What a notebook's cell hands on is a package that may be missing here: then Matplotlib could not be imported.
    os.environ["MPLBACKEND"] = "agg"
    try:
        speak_utf8()
        try:
            with some_home():
                app()
        finally:
            if sys.stdout:
                sys.stdout.flush()  # so that a closed pipe is noticed here
    except UserError as error:
        print(f"tf-transformer: {in_the_users_words(str(error))}", file=sys.stderr)
        sys.exit(USER_MISTAKE)
    except (Preempted, WorkerLost) as error:
        print(f"tf-transformer: {error}", file=sys.stderr)
        sys.exit(os.EX_TEMPFAIL)  # 75: trying again may help
    except BrokenPipeError:
        # Noticed when what was left is written; Python would report it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_GONE)
    except OSError as error:
        print(f"tf-transformer: {error}; check the path, its permissions and the free disk space", file=sys.stderr)
        sys.exit(USER_MISTAKE)
