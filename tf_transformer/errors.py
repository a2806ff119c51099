"""The errors that are told in one line."""


class UserError(ValueError):
    """A mistake in what the user gave: one line that says what, where and what to do.

    The command `tf-transformer` prints the message without a traceback and exits with status 2.
    """


class WorkerLost(RuntimeError):
    """Another worker's process or machine has gone in mid-training: nobody's mistake, and trying again may help.

    The command `tf-transformer` prints the message without a traceback and exits with status 75, which stands for that.
    """
