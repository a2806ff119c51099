"""Writes SavedModels where TensorFlow Serving looks for them: `NAME/VERSION/`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tf_transformer.errors import UserError

if TYPE_CHECKING:
    from tf_transformer.export.translator import Translator


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
        if (destination / "saved_model.pb").exists():
            raise UserError(f"{destination}: a SavedModel itself, which is left as it is; give another folder")
        versions = [int(p.name) for p in destination.glob("*") if p.name.isdecimal()]
        return destination / str(max(versions, default=0) + 1)
    if destination.exists():
        raise UserError(f"{destination}: this version is there already and is left as it is; give another number")
    return destination


def export_saved_model(translator: Translator, destination: str | os.PathLike) -> Path:
    """Writes a SavedModel with the signature `translate`, which is also `serving_default`.

    It needs only tensorflow and tensorflow_text to load: the tokenizers are inside.

    Args:
        translator: the model with its tokenizers.
        destination: `NAME/VERSION`, or `NAME` for the next version; see `version_folder`.

    Returns:
        The folder written.

    Raises:
        UserError: the version is there already, or the folder can't be written.
    """
    import tensorflow as tf

    folder = version_folder(destination)
    # Written beside and renamed: a server that watches the folder never loads half a version.
    partial = folder.with_name(f".partial-{folder.name}-{os.getpid()}")
    try:
        partial.mkdir(parents=True)
        signatures = {"serving_default": translator.translate, "translate": translator.translate}
        tf.saved_model.save(translator, str(partial), signatures=signatures)
        partial.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: the SavedModel can't be written: {error.strerror}") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder
