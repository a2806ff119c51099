"""The errors that are told in one line."""


class UserError(ValueError):
    """A mistake in what the user gave: one line that says what, where and what to do.

    The command `tf-transformer` prints the message without a traceback and exits with status 2.
    """


def reason(error: Exception) -> str:
    """Why something failed, in one line: the system's word for it, or the error's own first line."""
    text = getattr(error, "strerror", None) or getattr(error, "message", None) or str(error)
    return (text.strip() or type(error).__name__).splitlines()[0][:300]


def why_not_written(error: Exception) -> str:
    """Why something can't be written, in one line."""
    # Of a full disk TensorFlow's message names only a file.
    full = type(error).__name__ == "ResourceExhaustedError"
    return "no space left on device, or a quota is reached" if full else reason(error)


class Preempted(Exception):
    """A training was told to stop by SIGTERM, and can go on from where it was.

    The command `tf-transformer` exits with status 75, which is the system's for "try again later".
    """


class WorkerLost(RuntimeError):
    """Another worker's process or machine has gone in mid-training: nobody's mistake, and trying again may help.

    The command `tf-transformer` prints the message without a traceback and exits with status 75, which stands for that.
    """
