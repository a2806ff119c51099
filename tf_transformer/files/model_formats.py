"""By which files the folder of an exported model is known; nothing is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

OPTIONS_FILE = "decoding_options.json"  # in a SavedModel's assets.extra: the options that it was exported with

# Here `os.path.isfile` is called: unlike pathlib's, it returns False for a name that is too long, and for a folder that
# can't be looked into.


def is_saved_model(folder: Path) -> bool:
    """Whether a folder is a SavedModel."""
    return os.path.isfile(folder / "saved_model.pb")


def is_ctranslate2(folder: Path) -> bool:
    """Whether a folder is a CTranslate2 model, or what is left of one."""
    return os.path.isfile(folder / "model.bin")


def numbered_versions(folder: Path, is_version: Callable[[Path], Any] = is_saved_model) -> dict[int, Path]:
    """The folders in a folder that have their number as name, as TensorFlow Serving has versions of a model.

    Args:
        folder: such as `savedmodels/NAME`; may be missing.
        is_version: tells of a folder whether it is one.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in "9", "10", "old":
        ...         Path(folder, name).mkdir()
        ...         Path(folder, name, "saved_model.pb").touch()
        ...     sorted(numbered_versions(Path(folder)))
        [9, 10]
    """
    versions = {}
    with suppress(OSError, ValueError):  # it may be missing, be no folder, or have a name that none can have
        for path in folder.iterdir():
            if path.name.isdecimal() and is_version(path):
                versions[int(path.name)] = path
    return versions
