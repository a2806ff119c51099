"""Checks of what a command is given, before anything is loaded, and messages in the user's words."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

from tf_transformer.errors import UserError
from tf_transformer.files.model_formats import is_saved_model, numbered_versions
from tf_transformer.runs.directory import RECIPE

# Arguments of the package, with the names of their command-line options or recipe keys.
OTHER_NAMES = {
    **{name: "--" + name.replace("_", "-") for name in ("beam_size", "min_length", "max_length", "top_k", "top_p")},
    "no_repeat_ngram_size": "--no-repeat-ngram-size",
    **{name: "--" + name for name in ("alpha", "temperature", "seed", "engine", "tokenize", "quantization", "unit")},
    "num_hypotheses": "--nbest",
    "replace_unknown": "--replace-unknown",
    "protect": "--protect",
    "vocab_size": "tokenizer.vocab_size",
    "layers": "training.freeze",
}


def in_the_users_words(message: str) -> str:
    """A UserError's message with the package's argument names replaced by those of the command line and of recipes.

    Only messages that begin with an argument's name are changed: others may contain a file name that looks like one.

    Example:
        >>> in_the_users_words("num_hypotheses is 5; it must be at most beam_size, 4")
        '--nbest is 5; it must be at most --beam-size, 4'
        >>> in_the_users_words("data/seed: no such file")
        'data/seed: no such file'
    """
    if re.match(r"\w*", message)[0] not in OTHER_NAMES:
        return message
    return re.sub(rf"\b({'|'.join(OTHER_NAMES)})\b", lambda name: OTHER_NAMES[name[0]], message)


def check_is_no_run(recipe: Path) -> None:
    """Raises a UserError if a run's folder is given in place of a recipe."""
    if not os.path.isfile(recipe / RECIPE):  # unlike pathlib's, it returns False for a name that is too long
        return
    again = f"tf-transformer train {shlex.quote(str(recipe / RECIPE))} --run-dir"
    if (recipe / "training_state").is_dir():
        raise UserError(f"{recipe}: a run, not a recipe; to resume it: {again} {shlex.quote(str(recipe))}")
    raise UserError(f"{recipe}: a finished run, not a recipe; to train its recipe again: {again} NEW_FOLDER")


def check_is_no_file(model: Path) -> None:
    """Raises a UserError if a file that is not a checkpoint is given in place of a model."""
    if os.path.isfile(model) and model.suffix != ".keras":
        raise UserError(
            f"{model}: a file, but a model is expected; give the folder of a run, RUN/checkpoints/FILE.keras or the "
            "folder of a SavedModel as the first argument"
        )


def newest_version(model: Path) -> Path:
    """A model's path; of a folder of a SavedModel's versions, such as `savedmodels/demo`, that of the highest.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for version in ("9", "10"):
        ...         Path(folder, "demo", version).mkdir(parents=True)
        ...         Path(folder, "demo", version, "saved_model.pb").touch()
        ...     newest_version(Path(folder, "demo")).name
        '10'
    """
    if is_saved_model(model) or os.path.isfile(model / RECIPE):
        return model
    versions = numbered_versions(model)
    return versions[max(versions)] if versions else model


def check_can_be_made(path: Path) -> None:
    """Raises a UserError if no file of this name can be written."""
    nearest = next(folder for folder in path.parents if os.path.exists(folder))  # pathlib's may raise PermissionError
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(f"{path}: can't be written: {nearest} is not a folder you can write to; give another path")


def check_new_page_and_image(html: Path | None, png: Path | None) -> None:
    """Raises a UserError if a page or an image can't be written, or if the file exists."""
    if html and png and os.path.realpath(html) == os.path.realpath(png):
        raise UserError(f"{html}: given for both --html and --png; give two different files")
    for file in filter(None, (html, png)):
        check_new_file(file)


def check_new_file(file: Path) -> None:
    """Raises a UserError if a file can't be written, or if it exists."""
    if file.exists():
        raise UserError(f"{file}: already exists and was not changed; give another name")
    if not file.parent.is_dir():
        raise UserError(f"{file.parent}: no such folder; create it, or give a file in another folder")
    check_can_be_made(file)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}
