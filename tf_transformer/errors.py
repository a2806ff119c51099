"""The error that stands for a user's mistake."""


class UserError(ValueError):
    """A mistake in what the user gave: one line that says what, where and what to do.

    The command `tf-transformer` prints the message without a traceback and exits with status 2.
    """
