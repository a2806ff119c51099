"""Paths that begin with ~."""

from __future__ import annotations

import os
from pathlib import Path


def below_home(path: str | os.PathLike) -> Path:
    """The path with the home folder in place of ~ or ~name; as it is if there is no such user.

    Unlike `Path.expanduser`, which raises RuntimeError then. As it is, the path is told to the user as a missing file.

    Example:
        >>> below_home("~no-such-user/data")
        PosixPath('~no-such-user/data')
    """
    return Path(os.path.expanduser(path))
