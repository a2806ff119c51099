"""Where exports go: refused before anything is loaded that takes time."""

from __future__ import annotations

import os
from pathlib import Path

from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import is_saved_model

SUFFIX = ".argosmodel"


def version_folder(destination: str | os.PathLike) -> Path:
    """Where an export to `destination` goes.

    Args:
        destination: `NAME/VERSION` with a whole number as version is taken as it is; any other folder gets the number
            after its highest version.

    Raises:
        UserError: that version is there already, or `destination` is a file.

    Example:
        >>> from tf_transformer.export import version_folder
        >>> version_folder("/tmp/none/such").as_posix()
        '/tmp/none/such/1'
    """
    destination = Path(destination)
    if destination.exists() and not destination.is_dir():
        raise UserError(f"{destination}: a file; give a folder such as savedmodels/NAME")
    if not destination.name.isdecimal():
        if is_saved_model(destination):
            raise UserError(f"{destination}: is itself a SavedModel and was not changed; give another folder")
        versions = [int(p.name) for p in destination.glob("*") if p.name.isdecimal()]
        return destination / str(max(versions, default=0) + 1)
    if destination.exists():
        raise UserError(f"{destination}: this version already exists and was not changed; give another number")
    return destination


def free_folder(destination: str | os.PathLike) -> Path:
    """The folder that an export to `destination`, or an import into it, makes, which is `destination` itself.

    Raises:
        UserError: a file is there, a folder with something in it, or a mount point; or `destination` has no name of its
            own.

    Example:
        >>> from tf_transformer.export.destinations import free_folder
        >>> free_folder("/tmp/none/such").as_posix()
        '/tmp/none/such'
    """
    folder = Path(destination)
    if folder.name in ("", ".."):  # it is renamed to at the end
        raise UserError(f"{folder}: has no name of its own; give the name of a new folder")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file, which was not changed; give a new folder")
    if os.path.ismount(os.path.realpath(folder)):  # it can't be renamed to
        raise UserError(f"{folder}: a mount point; give a new folder in it")
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder}: the folder is not empty and was not changed; give a new one")
    return folder


def free_package(destination: str | os.PathLike) -> Path:
    """The file that an export to `destination` makes.

    Raises:
        UserError: it is there already, or its name does not end as the names of packages do.

    Example:
        >>> from tf_transformer.export.destinations import free_package
        >>> free_package("/tmp/none/en_de.argosmodel").name
        'en_de.argosmodel'
    """
    path = Path(destination)
    if path.suffix != SUFFIX:
        raise UserError(f"{path}: the name of a package ends in {SUFFIX}; give {path.name or 'en_de'}{SUFFIX}")
    if path.exists():
        raise UserError(f"{path}: exists and was not changed; give the name of a new file")
    return path
