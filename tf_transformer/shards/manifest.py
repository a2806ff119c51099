"""What a folder of shards is the translation of, and how it is made: written down once, by whoever comes first."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tf_transformer import __version__
from tf_transformer.errors import UserError
from tf_transformer.files.as_json import as_json, finite, read_json
from tf_transformer.files.checksums import CHECKSUMS, digest
from tf_transformer.files.whole import PARTIAL, written_once
from tf_transformer.runs.directory import RunDirectory, is_run
from tf_transformer.shards.source import Source

MANIFEST = "manifest.json"

# What may differ: the same text under another name, the same model at another place, a newer version of the package.
# What is told only when all is done is under "result".
FREE = ("source.path", "model.path", "version", "result")


def make_manifest(source: Source, models: Sequence[Path], engine: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the translation depends on, and how many lines it has.

    Args:
        source: what is translated.
        models: the model's folder, or a run's checkpoint; several of an ensemble.
        engine: what runs it.
        options: all that was asked for otherwise than the model has it, as the command's options are called.
    """
    return {
        "source": {"path": str(source.path), "lines": source.lines, "sha256": source.sha256},
        "shards": len(source),
        "shard_lines": source.shard_lines,
        "model": {"path": " + ".join(map(str, models)), "sha256": " + ".join(map(model_checksum, models))},
        "engine": engine,
        "options": dict(options),
        "version": __version__,
    }


def model_checksum(model: Path) -> str:
    """One checksum of all that a model's translations depend on; that of `sha256sum SHA256SUMS` where it has the file.

    Raises:
        UserError: it can't be read.
    """
    try:
        if (model / CHECKSUMS).is_file():  # of which the files are checked when the model is loaded
            return digest(model / CHECKSUMS)
        if is_run(model):
            run = RunDirectory.of_model(model)
            files = [run.best_checkpoint(), run.recipe, *run.tokenizer.iterdir()]
        else:  # an export of an earlier version; a person may add to its card
            files = [file for file in model.rglob("*") if file.is_file() and file.stem != "model_card"]
        if not files:
            raise UserError(f"{model}: no such model; give the folder of one")
        return _of_all(sorted(files))
    except OSError as error:
        raise UserError(f"{model}: can't be read ({error.strerror}); check its permissions") from None


def _of_all(files: list[Path]) -> str:
    # Names as bytes, since one need not be UTF-8.
    return hashlib.sha256(os.fsencode("".join(f"{digest(file)}  {file.name}\n" for file in files))).hexdigest()


def check_folder(folder: Path, manifest: dict[str, Any]) -> None:
    """Raises a UserError where a folder holds the shards of another command, or something else; changes nothing."""
    path = folder / MANIFEST
    try:
        held = folder.exists() and [each for each in folder.iterdir() if not each.name.startswith(PARTIAL)]
    except OSError as error:
        raise UserError(f"{folder}: can't be the folder of the shards: {error.strerror}; choose another") from None
    if not path.exists():
        if held:
            raise UserError(
                f"{folder}: holds other files and no {MANIFEST}, and was not changed; give a new folder for the shards"
            )
        return
    check_same(path, manifest, "these shards are")


def check_same(path: Path, manifest: dict[str, Any], what: str) -> None:
    """Raises a UserError where a manifest that was written differs from another in what both must have alike."""
    there, here = (_flat(finite(each)) for each in (_read(path), manifest))  # an infinite limit is written as null
    differences = [
        f"{key} ({there.get(key)} there, {here.get(key)} here)"
        for key in sorted(there.keys() | here.keys())
        if key not in FREE and there.get(key) != here.get(key)
    ]
    if differences:
        raise UserError(
            f"{path}: {what} from another command, which differs in {', '.join(differences)}; give its file, "
            "model and options, or another folder"
        )


def begin(folder: Path, manifest: dict[str, Any]) -> None:
    """Makes a folder of shards, unless it is there. To be called once all is known to be right: it can't be changed.

    Raises:
        UserError: it can't be made, or another process has just made it for another command.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: can't be created: {error.strerror}; choose another folder") from None
    with written_once(folder / MANIFEST, "the manifest") as partial:
        partial.write_text(as_json(manifest) + "\n", encoding="utf-8")
    check_folder(folder, manifest)


def _read(path: Path) -> dict[str, Any]:
    try:
        manifest = read_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: can't be read ({error}); give another folder for the shards") from None
    if not isinstance(manifest, dict):
        raise UserError(f"{path}: damaged, not a manifest of shards; give another folder for the shards")
    return manifest


def _flat(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The values by their keys, with those of a section as `section.key`."""
    flat = {}
    for name, value in manifest.items():
        if name not in FREE:
            flat |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, dict) else {name: value}
    return flat
